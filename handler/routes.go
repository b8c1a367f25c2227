package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"kennel/internal/customhandler"
	"kennel/internal/suggest"
)

// route is one route of the API, with all that a request to it may carry.
// Anything else is rejected: if a misspelt parameter were ignored, the request
// would mean something else than its caller intended.
type route struct {
	function   string   // the folder of its function.json
	pattern    string   // of http.ServeMux: method and path
	query      []string // the parameters that it knows
	conditions []string // those of the variable conditions that it supports
	body       bool     // it takes a body
	maxBody    int64    // of its forwarded calls, in bytes; 0: that of the app
	waits      bool     // its calls wait for an event, so their duration means nothing
	quota      *quota   // how often it is served; nil: without limit
	handler    http.Handler

	console *console // checks who calls; nil: the Functions host has checked a key
}

// Headers of conditions. A route that does not support one rejects it: its
// caller relies on it. Idempotency-Key is the condition that the request was
// not served before.
const (
	ifMatch        = "If-Match"
	ifNoneMatch    = "If-None-Match"
	idempotencyKey = "Idempotency-Key"
)

var conditions = []string{ifMatch, ifNoneMatch, idempotencyKey, "If-Modified-Since", "If-Unmodified-Since", "If-Range"}

// hostQuery are the parameters that the Functions host reads and passes on.
var hostQuery = []string{"code", "clientId"}

// serveRoutes registers routes with their functions.
func serveRoutes(host *customhandler.App, routes []route) {
	for _, rt := range routes {
		if rt.maxBody > 0 {
			host.Upload(rt.function, "req", rt.maxBody, traced{&rt}, rt.pattern)
		} else {
			host.HTTP(rt.function, "req", traced{&rt}, rt.pattern)
		}
	}
}

func (rt *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rt.console != nil {
		rt.console.serve(w, r, rt)
		return
	}
	rt.serve(w, r)
}

// serve serves a call of a caller who may make it.
func (rt *route) serve(w http.ResponseWriter, r *http.Request) {
	if err := rt.check(r); err != nil {
		if 0 < r.ContentLength && r.ContentLength <= customhandler.MaxUnread {
			// Otherwise net/http would read the body before it sends the answer, and
			// a body may be announced and never come.
			w.Header().Set("Connection", "close")
		}
		customhandler.WriteError(w, r, err)
		return
	}
	if rt.quota != nil && rt.quota.limit(w, r) {
		return
	}
	rt.handler.ServeHTTP(w, r)
}

// check returns an error if the request carries what the route does not take.
func (rt *route) check(r *http.Request) error {
	if r.URL.RawQuery != "" {
		if err := rt.checkQuery(r.URL.Query()); err != nil {
			return err
		}
	}
	for _, name := range conditions {
		if r.Header[name] != nil && !slices.Contains(rt.conditions, name) {
			return badRequest("bad_"+strings.ReplaceAll(strings.ToLower(name), "-", "_"),
				fmt.Sprintf("This request does not support the header %s. It supports %s. Omit the header.", name, anyOf(rt.conditions)))
		}
	}
	if !rt.body && hasContent(r) {
		message := "This request takes no body."
		if len(rt.query) > 0 {
			message += " Send parameters in the query: ?" + strings.Join(rt.query, "=…&") + "=…"
		}
		return badRequest("bad_body", message)
	}
	return nil
}

// checkQuery rejects parameters that the route does not know, and those that
// appear twice. It ignores the case of names, as the host does.
func (rt *route) checkQuery(query url.Values) error {
	seen := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		is := func(known string) bool { return strings.EqualFold(name, known) }
		if slices.ContainsFunc(hostQuery, is) {
			continue
		}
		at := slices.IndexFunc(rt.query, is)
		if at < 0 {
			message := fmt.Sprintf("The query parameter %.64q is unknown.", name)
			if near := suggest.Nearest(strings.ToLower(name), rt.query, maxTypos); near != "" {
				message += fmt.Sprintf(" Did you mean %s?", near)
			}
			return badRequest("bad_query", fmt.Sprintf("%s This request knows %s.", message, anyOf(rt.query)))
		}
		if known := rt.query[at]; len(query[name]) > 1 || seen[known] {
			return badRequest("bad_query", fmt.Sprintf("The query has several values for %s. Send one.", known))
		}
		seen[rt.query[at]] = true
	}
	return nil
}

// maxTypos is how many letters of a parameter may be wrong for a suggestion.
const maxTypos = 2

// hasContent reports whether a request has a body of at least one byte, or a
// chunked one that is broken.
func hasContent(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	_, err := io.ReadFull(r.Body, make([]byte, 1)) // chunked
	return err != io.EOF
}

// anyOf lists names for a message.
func anyOf(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
