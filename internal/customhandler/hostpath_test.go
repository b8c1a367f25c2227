package customhandler

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// hostRequest returns a request as the host receives it, also with a path that
// net/http's server rejects.
func hostRequest(method, target string) *http.Request {
	r := httptest.NewRequest(method, "http://front", nil)
	r.RequestURI = target
	r.URL = &url.URL{Path: "/"}
	_, r.URL.RawQuery, _ = strings.Cut(target, "?")
	return r
}

// TestHostPaths compares the addresses of forwarded calls and of envelopes, and
// the path by which a route is chosen, with those seen on the genuine host.
func TestHostPaths(t *testing.T) {
	var got string
	_, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.RequestURI
		_, _ = io.WriteString(w, "{}")
	}))
	for _, tt := range []struct{ sent, forwarded, enveloped, routed string }{
		{"a/", "a/", "a/", "a/"},
		{"a//", "a//", "a//", "a//"},
		{"a//b", "a//b", "a//b", "a//b"},
		{"a/%2e./b", "b", "b", "b"},
		{"a/%2e/b", "a/b", "a/b", "a/b"},
		{"a/..", "", "", ""},
		{"a%3Fb", "a", "a%3Fb", "a?b"},
		{"a%23b", "a", "a%23b", "a#b"},
		{"a%3fb?c=1", "a?c=1", "a%3Fb?c=1", "a?b"},
		{"a%5Cb", "a/b", "a%5Cb", `a\b`},
		{"..%5Cx", "../x", "..%5Cx", `..\x`},
		{"%20a%20", "%20a", "%20a%20", " a "},
		{"a%09", "a", "a%09", "a\t"},
		{"a%0a%0D%20", "a", "a%0A%0D%20", "a\n\r "},
		{"a%20?b=1", "a%20?b=1", "a%20?b=1", "a "}, // it does not end the address
		{"a%2525b", "a%25b", "a%25b", "a%25b"},
		{"a%252Fb", "a%2Fb", "a%2Fb", "a%2Fb"},
		{"a%2541", "a%41", "a%41", "a%41"},
		{"%252e%252e", "../", "%2e%2e", "%2e%2e"},
		{"a%25", "a%25", "a%25", "a%"},
		{"%zz", "%25zz", "%25zz", "%zz"},
		{"a%", "a%25", "a%25", "a%"},
		{"a%4", "a%254", "a%254", "a%4"},
		{"%ff", "%ff", "%ff", "%ff"},
		{"%c3", "%c3", "%c3", "%c3"},
		{"%C0%AF", "%C0%AF", "%C0%AF", "%C0%AF"},
		{"%ED%A0%80", "%ED%A0%80", "%ED%A0%80", "%ED%A0%80"},
		{"%c3%a9%F0%9F%90%B6", "%C3%A9%F0%9F%90%B6", "%C3%A9%F0%9F%90%B6", "é🐶"},
		{"a%2fb%2F", "a%2fb%2F", "a%2fb%2F", "a%2fb%2F"},
		{"%61%7E%2B", "a~+", "a~+", "a~+"},
	} {
		want := "/api/f/" + tt.forwarded
		if rest, ok := strings.CutPrefix(tt.forwarded, "../"); ok {
			want = "/api/" + rest
		}
		if _, err := client.Forward(t.Context(), httptest.NewRecorder(), hostRequest("GET", "/api/f/"+tt.sent), "id"); err != nil || got != want {
			t.Errorf("%s is forwarded as %s (%v), want %s", tt.sent, got, err, want)
		}
		e, err := Trigger{Binding: "req"}.HTTP(hostRequest("GET", "/api/f/"+tt.sent), nil)
		if want := `{"Url":"http://example.com/api/f/` + tt.enveloped + `",`; err != nil || !strings.HasPrefix(strings.Replace(string(e.Data["req"]), "//front/", "//example.com/", 1), want) {
			t.Errorf("%s is enveloped as %s (%v), want %s", tt.sent, e.Data["req"], err, want)
		}
		if routed, err := RoutedPath(hostRequest("GET", "/api/f/"+tt.sent)); err != nil || routed != "/api/f/"+tt.routed {
			t.Errorf("%s is routed as %q (%v), want %q", tt.sent, routed, err, "/api/f/"+tt.routed)
		}
	}
	for target, want := range map[string]string{"/%61pi/F/x": "/api/F/x", "/API/../..": "/", "http://h/api/x?y": "/api/x", "http://h": "/", "/a/./b/../c/.": "/a/c/"} {
		if routed, err := RoutedPath(hostRequest("GET", target)); err != nil || routed != want {
			t.Errorf("%s is routed as %q (%v), want %q", target, routed, err, want)
		}
	}
	for _, target := range []string{"/api/f/%00", "/api/f/a\xff", "/api/f/ü", "/api/f/\x00"} {
		if _, err := RoutedPath(hostRequest("GET", target)); err == nil {
			t.Errorf("%q is routed, want 400", target)
		}
	}
}
