package customhandler

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// router finds the handler of an HTTP call by patterns of http.ServeMux. Like
// the host, it ignores the case of a route's literals and a slash at the end:
// the host passes the path on as the client wrote it.
type router struct {
	fast     *http.ServeMux // the patterns, and unrouted for all other calls
	strict   *http.ServeMux // only the patterns, to distinguish 404 from 405
	patterns [][]string     // segments of each pattern's path
}

func newRouter() *router {
	rt := &router{fast: http.NewServeMux(), strict: http.NewServeMux()}
	rt.fast.HandleFunc("/", rt.unrouted)
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
	rt.strict.Handle(pattern, h)
	rt.patterns = append(rt.patterns, strings.Split(address[1:], "/"))
}

func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isClean(r.URL.Path) { // http.ServeMux would redirect, and not in JSON
		writeError(w, errNoRoute())
		return
	}
	if strings.ContainsAny(r.URL.RawQuery, "%;") { // net/http drops parameters that it cannot read
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			writeError(w, &Error{http.StatusBadRequest, "bad_query", fmt.Sprintf("The query is invalid: %v. Write %%25 for %% and %%3B for ;.", err)})
			return
		}
	}
	rt.fast.ServeHTTP(w, r)
}

// isClean reports whether a path has no empty segments and no dot segments.
func isClean(p string) bool {
	return !strings.Contains(p, "//") && !strings.Contains(p, "/.") || path.Clean(p) == strings.TrimSuffix(p, "/")
}

func errNoRoute() *Error {
	return &Error{http.StatusNotFound, "not_found", "This address does not exist."}
}

// unrouted serves the calls whose path matches no pattern exactly.
func (rt *router) unrouted(w http.ResponseWriter, r *http.Request) {
	if path, ok := rt.canonical(r.URL.EscapedPath()); ok {
		if decoded, err := url.PathUnescape(path); err == nil {
			u := *r.URL
			u.Path, u.RawPath = decoded, path
			r = r.Clone(r.Context())
			r.URL = &u
		}
	}
	h, pattern := rt.strict.Handler(r)
	if pattern != "" {
		rt.strict.ServeHTTP(w, r)
		return
	}
	// Without a pattern, h is the mux's own answer, 404 or 405. It is not JSON,
	// so only its Allow header is of use.
	probe := newCapture()
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", probe.header.Get("Allow"))
		writeError(w, errMethod(r.Method))
		return
	}
	writeError(w, errNoRoute())
}

// canonical returns an escaped path in the spelling of the best pattern that
// fits it: the one with the most literal segments, which is the most specific
// one for http.ServeMux, too.
func (rt *router) canonical(path string) (string, bool) {
	best, maxLiterals := "", -1
	for _, pattern := range rt.patterns {
		if written, literals, ok := rewrite(pattern, strings.TrimPrefix(path, "/")); ok && literals > maxLiterals {
			best, maxLiterals = "/"+strings.Join(written, "/"), literals
		}
	}
	return best, maxLiterals >= 0
}

// rewrite fits a path to a pattern's segments and returns it with the pattern's
// spelling of the literals.
func rewrite(pattern []string, path string) (written []string, literals int, ok bool) {
	for _, p := range pattern {
		if p == "" || strings.HasSuffix(p, "...}") { // always last: takes the rest, slashes included
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
