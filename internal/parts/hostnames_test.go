package parts

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"kennel/channels"
	"kennel/client"
	"kennel/internal/customhandler"
	"kennel/internal/storetest"
)

// TestNamesSurviveTheHost: a name that a channel may have, or that package
// client sends, arrives as it was sent, in forwarded calls and in envelopes,
// although the host decodes addresses twice. The names have every byte and every
// escape of it, alone, at both ends and inside.
func TestNamesSurviveTheHost(t *testing.T) {
	storetest.OnlyInProve(t)
	var arrived string
	echo := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived = r.URL.EscapedPath() }))
	defer echo.Close()
	host := customhandler.NewClient(echo.URL)
	// through returns the address of a call as a handler gets it, "" if the web
	// server of the host rejects it.
	through := func(path string) string {
		t.Helper()
		arrived = ""
		r := httptest.NewRequest("DELETE", "http://h"+path, nil)
		r.RequestURI = path
		if _, err := host.Forward(t.Context(), httptest.NewRecorder(), r, "id"); err != nil && arrived != "" {
			t.Fatal(err)
		}
		return arrived
	}
	enveloped := func(path string) string {
		r := httptest.NewRequest("DELETE", "http://h"+path, nil)
		r.RequestURI = path
		e, err := customhandler.Trigger{Binding: "req"}.HTTP(r, nil)
		if err != nil {
			return ""
		}
		var req struct{ URL string }
		if err := json.Unmarshal(e.Data["req"], &req); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(req.URL, "http://h")
	}
	nameIn := func(path, prefix string) string {
		name, err := url.PathUnescape(strings.TrimPrefix(path, prefix))
		if err != nil {
			return "\x00" + err.Error()
		}
		return name
	}

	var names []string
	for c := range 256 {
		b := string([]byte{byte(c)})
		for _, text := range []string{b, fmt.Sprintf("%%%02x", c), fmt.Sprintf("%%%02X", c), fmt.Sprintf("%%25%02X", c), fmt.Sprintf("%%%%%02X", c), "%" + b, "%4" + b, "%" + b + "1"} {
			names = append(names, text, "a"+text, text+"a", "a"+text+"b")
		}
	}
	names = append(names, "..", "...", ".a", "a..", "%2e%2e", "50% off", "100%", "a%zz", "ü", "u\u0308", "日本", "🐶", "\u200b", "\u202egnp", "a b", "a+b&c=d;e,f:g@h!i$j'k(l)*m~n|o^p`q{r}s[t]u<v>w\"x")
	valid, sent := 0, 0
	var current string
	var got []string
	app, err := client.New(echo.URL, &client.Options{HTTP: &http.Client{Transport: roundTrips(func(r *http.Request) (*http.Response, error) {
		got = append(got, nameIn(through(r.URL.EscapedPath()), "/api/channels/"))
		return nil, http.ErrServerClosed
	})}})
	if err != nil {
		t.Fatal(err)
	}
	for _, current = range names {
		path := "/api/channels/" + url.PathEscape(current)
		if channels.CheckName(current) == nil {
			valid++
			if got := nameIn(through(path), "/api/channels/"); got != current {
				t.Errorf("the name %q is valid, and a forwarded call has %q", current, got)
			}
			if got := nameIn(enveloped("/api/console"+path), "/api/console/api/channels/"); got != current {
				t.Errorf("the name %q is valid, and an envelope has %q", current, got)
			}
		}
		got = nil
		_, _ = app.Channel(t.Context(), current)
		for _, name := range got {
			sent++
			if name != current {
				t.Errorf("the client sends the name %q, and it arrives as %q", current, name)
			}
		}
	}
	if valid < 1000 || sent < valid {
		t.Errorf("%d of %d names are valid and %d were sent: the test shows nothing", valid, len(names), sent)
	}
	t.Logf("%d names, %d valid, %d sent by the client", len(names), valid, sent)
}

type roundTrips func(*http.Request) (*http.Response, error)

func (f roundTrips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
