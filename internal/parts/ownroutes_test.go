package parts

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"kennel/internal/program"
)

// TestKeyIsHidden: a program's handlers and middleware see a call without the
// function key of its caller, and the rest of it as it was sent.
func TestKeyIsHidden(t *testing.T) {
	begun := make(chan struct{})
	close(begun)
	for _, tt := range []struct {
		name  string
		level program.Level
		query string
		want  string
	}{
		{"no query", program.LevelFunction, "", ""},
		{"no key", program.LevelFunction, "?b=%2f&a=1&a=2&c", "?b=%2f&a=1&a=2&c"},
		{"a key alone", program.LevelFunction, "?code=s3cret", ""},
		{"among others", program.LevelFunction, "?b=%2f&code=s3cret&a=1;x&codes=7", "?b=%2f&a=1;x&codes=7"},
		{"in capitals, encoded and twice", program.LevelAdmin, "?CODE=s3cret&x=1&c%6fde=s3cret", "?x=1"},
		{"the program's own code", program.LevelAnonymous, "?code=granted&state=1", "?code=granted&state=1"},
	} {
		var got, wrapped *http.Request
		d := &program.Declared{
			Routes: []*program.Route{{Pattern: "GET /orders/{id}", Level: tt.level, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r })}},
			UseHTTP: []func(http.Handler) http.Handler{func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					wrapped = r
					next.ServeHTTP(w, r)
				})
			}},
		}
		routes := ownRoutes(d, &life{begun: begun})
		mux := http.NewServeMux()
		mux.Handle(routes[0].Pattern, routes[0].Handler)
		r := httptest.NewRequest("GET", "http://localhost/api/orders/a%2fb"+tt.query, nil)
		r.RequestURI = "/api/orders/a%2fb" + tt.query
		r.Header.Set("x-functions-key", "s3cret")
		r.Header.Set("X-Other", "kept")
		mux.ServeHTTP(httptest.NewRecorder(), r)
		for _, r := range []*http.Request{got, wrapped} {
			if r == nil || r.URL.String() != "http://localhost/api/orders/a%2fb"+tt.want || r.RequestURI != "/api/orders/a%2fb"+tt.want || r.Header.Get("X-Functions-Key") != "" || r.Header.Get("X-Other") != "kept" || r.PathValue("id") != "a/b" {
				t.Errorf("%s: the handler sees %+v", tt.name, r)
			}
		}
		if r.Header.Get("X-Functions-Key") == "" {
			t.Errorf("%s: the call itself was changed", tt.name)
		}
	}
}
