package customhandler

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
)

// router finds the handler of an HTTP call by patterns of http.ServeMux. It also takes what the host takes: the host
// compares routes without regard to case and ignores a slash at the end, and passes the path on as the client wrote it.
type router struct {
	fast     *http.ServeMux        // the patterns, and everything else for unrouted
	strict   func() *http.ServeMux // the patterns alone, to tell 404 from 405
	patterns [][]string            // segments of each pattern's path
	routes   []route
}

type route struct {
	pattern string
	handler http.Handler
}

// newRouter builds no more than the usual call needs: a handler should start at once.
func newRouter() *router {
	rt := &router{fast: http.NewServeMux()}
	rt.fast.HandleFunc("/", rt.unrouted)
	rt.strict = sync.OnceValue(func() *http.ServeMux {
		mux := http.NewServeMux()
		for _, r := range rt.routes {
			mux.Handle(r.pattern, r.handler)
		}
		return mux
	})
	return rt
}

func (rt *router) handle(pattern string, h http.Handler) {
	_, address, ok := strings.Cut(pattern, " ")
	if !ok {
		address = pattern
	}
	if address = strings.TrimSpace(address); !strings.HasPrefix(address, "/api/") {
		panic(fmt.Sprintf("customhandler: pattern %q: a route begins with /api/", pattern))
	}
	rt.fast.Handle(pattern, h)
	rt.routes = append(rt.routes, route{pattern, h})
	rt.patterns = append(rt.patterns, strings.Split(address[1:], "/"))
}

func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isClean(r.URL.Path) { // http.ServeMux would redirect it, with an answer that is not JSON
		writeError(w, errNoRoute())
		return
	}
	if strings.ContainsAny(r.URL.RawQuery, "%;") { // where net/http drops parameters that it cannot read
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			writeError(w, &Error{http.StatusBadRequest, "bad_query", fmt.Sprintf("the query cannot be read: %v; write %%25 for %% and %%3B for ;", err)})
			return
		}
	}
	rt.fast.ServeHTTP(w, r)
}

// isClean reports whether a path has no empty segments and none that are dots.
func isClean(p string) bool {
	return !strings.Contains(p, "//") && !strings.Contains(p, "/.") || path.Clean(p) == strings.TrimSuffix(p, "/")
}

func errNoRoute() *Error {
	return &Error{http.StatusNotFound, "not_found", "there is nothing at this address"}
}

// unrouted gets the calls that no pattern took as they came.
func (rt *router) unrouted(w http.ResponseWriter, r *http.Request) {
	if path, ok := rt.canonical(r.URL.EscapedPath()); ok {
		if decoded, err := url.PathUnescape(path); err == nil {
			u := *r.URL
			u.Path, u.RawPath = decoded, path
			r = r.Clone(r.Context())
			r.URL = &u
		}
	}
	strict := rt.strict()
	h, pattern := strict.Handler(r)
	if pattern != "" {
		strict.ServeHTTP(w, r)
		return
	}
	// Without a pattern the mux hands out its own answer, 404 or 405. Only the header is of use: the rest is not JSON.
	probe := newCapture()
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", probe.header.Get("Allow"))
		writeError(w, errMethod(r.Method))
		return
	}
	writeError(w, errNoRoute())
}

// canonical returns an escaped path as the best pattern would write it. The pattern with the most literal segments is
// the best: it is the more specific one, as in http.ServeMux.
func (rt *router) canonical(path string) (string, bool) {
	best, most := "", -1
	for _, pattern := range rt.patterns {
		if written, literals, ok := rewrite(pattern, strings.TrimPrefix(path, "/")); ok && literals > most {
			best, most = "/"+strings.Join(written, "/"), literals
		}
	}
	return best, most >= 0
}

// rewrite fits a path to a pattern's segments, with the pattern's own spelling of its literals.
func rewrite(pattern []string, path string) (written []string, literals int, ok bool) {
	for _, p := range pattern {
		if p == "" || strings.HasSuffix(p, "...}") { // only ever last: takes the rest as it is, slashes included
			return append(written, path), literals, true
		}
		segment, rest, _ := strings.Cut(path, "/")
		path = rest
		switch {
		case p == "{$}" && segment == "":
			written = append(written, "")
		case strings.HasPrefix(p, "{") && p != "{$}" && segment != "":
			written = append(written, segment)
		case strings.EqualFold(p, segment):
			written = append(written, p)
			literals++
		default:
			return nil, 0, false
		}
	}
	return written, literals, path == ""
}
