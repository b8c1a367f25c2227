package localhost

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/loopback"
)

// defaultBodyLimit is the largest request body the host accepts.
const defaultBodyLimit = 104_857_600

// Keys enables the check of access keys. A key is sent in the header
// x-functions-key or as ?code=.
type Keys struct {
	Master    string            // valid for everything; required for "admin" functions and /admin
	Host      string            // valid for every function of the level "function"
	Functions map[string]string // function to its own key
}

// An endpoint is an HTTP function with its route.
type endpoint struct {
	function *function
	route    route
	methods  []string // upper case; empty: all
	level    string
}

// newEndpoint returns the endpoint of an HTTP function. Its route is the prefix
// and the function's route, which defaults to its name.
func newEndpoint(f *function, prefix string) (endpoint, error) {
	trigger := f.trigger()
	own := strings.Trim(trigger.route, "/")
	if own == "" {
		own = f.name
	}
	first, _, _ := strings.Cut(strings.ToLower(own), "/")
	if first == "admin" || first == "runtime" {
		return endpoint{}, fmt.Errorf("route %q conflicts with the host's own routes below /admin and /runtime", own)
	}
	r, err := parseRoute(strings.Trim(prefix+"/"+own, "/"))
	if err != nil {
		return endpoint{}, err
	}
	e := endpoint{function: f, route: r, level: trigger.authLevel}
	for _, method := range trigger.methods {
		e.methods = append(e.methods, strings.ToUpper(method))
	}
	return e, nil
}

func (e endpoint) allows(method string) bool {
	return len(e.methods) == 0 || slices.Contains(e.methods, method)
}

// conflicts reports whether two endpoints would serve the same requests.
func (e endpoint) conflicts(other endpoint) bool {
	return strings.EqualFold(e.route.template, other.route.template) &&
		(len(e.methods) == 0 || len(other.methods) == 0 || slices.ContainsFunc(e.methods, other.allows))
}

// handleHTTP answers requests and reports each answer.
func (h *Host) handleHTTP(work context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.visits.enter() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer h.visits.leave()
		began := time.Now()
		body := newSteadyBody(w, r)
		if r.ContentLength != 0 {
			r.Body = body
		}
		out := &statusWriter{ResponseWriter: w, status: http.StatusOK, body: body}
		h.route(work, out, r)
		h.served(Request{r.Method, r.URL.EscapedPath(), out.status, time.Since(began)})
	})
}

// route routes a request to the homepage, the admin API or a function.
func (h *Host) route(work context.Context, w http.ResponseWriter, r *http.Request) {
	if h.keys == nil {
		if refusal := loopback.Refusal(r); refusal != "" {
			refuse(w, refusal)
			return
		}
	}
	decoded, err := customhandler.RoutedPath(r)
	path := splitPath(decoded)
	_, unreadable := h.person(r)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case unreadable != nil:
		h.log.Warn("cannot read who is signed in", "error", unreadable)
		w.WriteHeader(http.StatusInternalServerError)
	case !h.isReady():
		Starting(w, r)
	case len(path) > 0 && strings.EqualFold(path[0], "admin"):
		h.serveAdmin(work, w, r, withoutSlash(path))
	case len(path) > 0 && strings.EqualFold(path[0], "runtime"):
		w.WriteHeader(http.StatusNotFound)
	case len(path) == 0 && !h.hasRootRoute():
		h.serveHomepage(w)
	default:
		h.serveFunction(work, w, r, path)
	}
}

// refuse answers a request that a page of another site may have caused. The real
// host has no such answer: in Azure, everything but the console needs a key.
func refuse(w http.ResponseWriter, reason string) {
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Message = "foreign_caller", reason
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusForbidden, body)
}

// hasRootRoute reports whether a function serves the path /, which needs an
// empty route prefix.
func (h *Host) hasRootRoute() bool {
	for _, e := range h.endpoints {
		if _, ok := e.route.match(nil); ok {
			return true
		}
	}
	return false
}

func (h *Host) serveHomepage(w http.ResponseWriter) {
	if h.env.truth("AzureWebJobsDisableHomepage") {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// A write fails only if the client has disconnected.
	_, _ = fmt.Fprintf(w, "The local Functions host is running.\nFunctions: %s/admin/functions\n", h.URL())
}

// serveFunction serves a request for an HTTP function. As in the real host, the
// function is not cancelled when its caller disconnects: it runs under work. A
// method that no function of the path accepts is a 404, not a 405.
func (h *Host) serveFunction(work context.Context, w http.ResponseWriter, r *http.Request, path []string) {
	for _, e := range h.endpoints {
		if !e.allows(r.Method) {
			continue
		}
		params, ok := e.route.match(path)
		if !ok {
			continue
		}
		switch {
		case !h.mayCall(r, e):
			w.WriteHeader(http.StatusUnauthorized)
		case e.function.disabled && !h.isMaster(r): // an administrator may still call it
			w.WriteHeader(http.StatusNotFound)
		case r.ContentLength > h.bodyLimit: // not 413, as in the real host
			w.WriteHeader(http.StatusInternalServerError)
		case h.file.forward && e.function.forwards():
			h.forward(work, e.function, w, r)
		default:
			h.answer(work, e.function, w, r, params)
		}
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

// forward forwards the request unchanged and returns the response.
func (h *Host) forward(work context.Context, f *function, w http.ResponseWriter, r *http.Request) {
	id := customhandler.NewInvocationID()
	err := h.execute(work, f, httpReason(r), id, func(ctx context.Context, client *customhandler.Client) error {
		_, err := client.Forward(ctx, w, r, id)
		return err
	})
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// answer sends the request in an envelope and creates the response from the
// function's outputs.
func (h *Host) answer(work context.Context, f *function, w http.ResponseWriter, r *http.Request, params map[string]any) {
	trigger := f.trigger()
	person, _ := h.person(r) // route has read it
	envelope, err := customhandler.Trigger{Function: f.name, Binding: trigger.name, DataType: trigger.dataType, KeyID: h.keyID(r, f), Person: person}.HTTP(r, params)
	if err != nil {
		h.log.Warn("request body could not be read", "function", f.name, "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	// Without an http output the response is 204, as in the real host.
	reply := customhandler.HTTPAnswer{Status: http.StatusNoContent}
	err = h.invoke(work, f, httpReason(r), envelope, func(answer customhandler.Answer) (err error) {
		if output, ok := f.output(); ok {
			reply, err = answer.HTTP(output.name)
		}
		return err
	})
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(reply.Status)
	// A write fails only if the client has disconnected.
	_, _ = w.Write(reply.Body)
}

// httpReason describes the request without its query, which may contain a key.
func httpReason(r *http.Request) string {
	return r.Method + " " + strconv.QuoteToASCII(r.URL.Path)
}

// person returns who the platform has signed in, which the host reads from a
// header if it is told that there is a platform.
func (h *Host) person(r *http.Request) (*customhandler.Person, error) {
	if !h.env.truth("WEBSITE_AUTH_ENABLED") {
		return nil, nil
	}
	return customhandler.ParsePerson(r.Header[customhandler.HeaderPrincipal])
}

// mayCall reports whether the request has a valid key for the endpoint. Without
// Keys every request is allowed, as under `func start`.
func (h *Host) mayCall(r *http.Request, e endpoint) bool {
	if h.keys == nil || e.level == "anonymous" || h.isMaster(r) {
		return true
	}
	return e.level == "function" && (isKey(r, h.keys.Host) || isKey(r, h.keys.Functions[e.function.name]))
}

// keyID names the key of a request for the function, also an anonymous one.
func (h *Host) keyID(r *http.Request, f *function) string {
	switch {
	case h.keys == nil:
		return ""
	case h.isMaster(r):
		return customhandler.MasterKey
	case isKey(r, h.keys.Host), isKey(r, h.keys.Functions[f.name]):
		return customhandler.DefaultKey
	}
	return ""
}

// isMaster reports whether the request has the master key. Without Keys it is
// always false.
func (h *Host) isMaster(r *http.Request) bool { return h.keys != nil && isKey(r, h.keys.Master) }

func isKey(r *http.Request, key string) bool {
	given := r.Header.Get("x-functions-key")
	if given == "" {
		for name, values := range r.URL.Query() {
			if strings.EqualFold(name, "code") {
				given = values[0]
			}
		}
	}
	return key != "" && subtle.ConstantTimeCompare([]byte(given), []byte(key)) == 1
}
