package edge

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

// Route is one route of the API, with all that a request to it may carry.
// Anything else is rejected: if a misspelt parameter were ignored, the request
// would mean something else than its caller intended.
type Route struct {
	Function   string   // the folder of its function.json
	Pattern    string   // of http.ServeMux: method and path
	Query      []string // the parameters that it knows
	Conditions []string // those of the variable conditions that it supports
	Body       bool     // it takes a body
	MaxBody    int64    // of its forwarded calls, in bytes; 0: that of the app
	Waits      bool     // its calls wait for an event, so their duration means nothing
	Quota      *Quota   // how often it is served; nil: without limit
	Enveloped  bool     // the host sends its calls in envelopes alone
	Own        bool     // of the program's author: it takes any parameter, condition and body, and is not served to people
	Handler    http.Handler

	console func(http.ResponseWriter, *http.Request, *Route) // serves a call of a person who may make it; nil: the Functions host has checked a key
}

// Headers of conditions. A route that does not support one rejects it: its
// caller relies on it. Idempotency-Key is the condition that the request was
// not served before.
const (
	IfMatch        = "If-Match"
	IfNoneMatch    = "If-None-Match"
	IdempotencyKey = "Idempotency-Key"
)

// Conditions are the headers of all conditions.
var Conditions = []string{IfMatch, IfNoneMatch, IdempotencyKey, "If-Modified-Since", "If-Unmodified-Since", "If-Range"}

// hostQuery are the parameters that the Functions host reads and passes on.
var hostQuery = []string{"code", "clientId"}

// ServeHTTP serves a call: of a person who may make it, or of any caller that the
// Functions host let through.
func (rt *Route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rt.console != nil {
		rt.console(w, r, rt)
		return
	}
	rt.serve(w, r)
}

// serve serves a call of a caller who may make it.
func (rt *Route) serve(w http.ResponseWriter, r *http.Request) {
	if err := rt.check(r); err != nil {
		if 0 < r.ContentLength && r.ContentLength <= customhandler.MaxUnread {
			// Otherwise net/http would read the body before it sends the answer, and
			// a body may be announced and never come.
			w.Header().Set("Connection", "close")
		}
		customhandler.WriteError(w, r, err)
		return
	}
	if rt.Quota != nil && rt.Quota.limit(w, r) {
		return
	}
	rt.Handler.ServeHTTP(w, r)
}

// check returns an error if the request carries what the route does not take.
func (rt *Route) check(r *http.Request) error {
	if rt.Own {
		return nil
	}
	if r.URL.RawQuery != "" {
		if err := rt.checkQuery(r.URL.Query()); err != nil {
			return err
		}
	}
	for _, name := range Conditions {
		if r.Header[name] != nil && !slices.Contains(rt.Conditions, name) {
			return BadRequest("bad_"+strings.ReplaceAll(strings.ToLower(name), "-", "_"),
				fmt.Sprintf("This request does not support the header %s. It supports %s. Omit the header.", name, AnyOf(rt.Conditions)))
		}
	}
	if !rt.Body && hasContent(r) {
		message := "This request takes no body."
		if len(rt.Query) > 0 {
			message += " Send parameters in the query: ?" + strings.Join(rt.Query, "=…&") + "=…"
		}
		return BadRequest("bad_body", message)
	}
	return nil
}

// checkQuery rejects parameters that the route does not know, and those that
// appear twice. It ignores the case of names, as the host does.
func (rt *Route) checkQuery(query url.Values) error {
	seen := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		is := func(known string) bool { return strings.EqualFold(name, known) }
		if slices.ContainsFunc(hostQuery, is) {
			continue
		}
		at := slices.IndexFunc(rt.Query, is)
		if at < 0 {
			message := fmt.Sprintf("The query parameter %.64q is unknown.", name)
			if near := suggest.Nearest(strings.ToLower(name), rt.Query, maxTypos); near != "" {
				message += fmt.Sprintf(" Did you mean %s?", near)
			}
			return BadRequest("bad_query", fmt.Sprintf("%s This request knows %s.", message, AnyOf(rt.Query)))
		}
		if known := rt.Query[at]; len(query[name]) > 1 || seen[known] {
			return BadRequest("bad_query", fmt.Sprintf("The query has several values for %s. Send one.", known))
		}
		seen[rt.Query[at]] = true
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

// AnyOf lists names for a message.
func AnyOf(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
