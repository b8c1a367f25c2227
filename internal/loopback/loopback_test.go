package loopback

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRefusal(t *testing.T) {
	for _, tt := range []struct {
		host, site, origin string
		want               string
	}{
		{"127.0.0.1:7071", "", "", ""},
		{"localhost:7071", "none", "", ""},
		{"LOCALHOST", "same-origin", "http://localhost", ""},
		{"[::1]:7071", "", "http://[::1]:7071", ""},
		{"127.9.9.9", "", "", ""},
		{"127.0.0.1:", "", "", ""},
		{"evil.example:7071", "", "", foreignHost},
		{"evil.example:7071", "same-origin", "http://evil.example:7071", foreignHost},
		{"127.0.0.1.evil.example", "", "", foreignHost},
		{"localhost.evil.example", "", "", foreignHost},
		{"192.168.1.2:7071", "", "", foreignHost},
		{"0.0.0.0:7071", "", "", foreignHost},
		{"", "", "", foreignHost},
		{"127.0.0.1:7071", "cross-site", "", foreignSite},
		{"127.0.0.1:7071", "same-site", "", foreignSite},
		{"127.0.0.1:7071", "other", "", foreignSite},
		{"127.0.0.1:7071", "", "http://evil.example", foreignSite},
		{"127.0.0.1:7071", "", "null", foreignSite},
		{"127.0.0.1:7071", "", "http://127.0.0.1:3000", foreignSite},
		{"127.0.0.1:7071", "", "https://127.0.0.1:7071", foreignSite},
		{"127.0.0.1:7071", "none", "http://localhost:7071", foreignSite},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Host = tt.host
		if r.Header = (http.Header{}); tt.site != "" {
			r.Header.Set("Sec-Fetch-Site", tt.site)
		}
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if got := Refusal(r); got != tt.want {
			t.Errorf("host %q, site %q, origin %q: %q, want %q", tt.host, tt.site, tt.origin, got, tt.want)
		}
	}
}
