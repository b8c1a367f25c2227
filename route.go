package kennel

import (
	"net/http"

	"kennel/internal/parts"
	"kennel/internal/program"
)

// Level is who may call a route.
type Level int

// The levels, with the numbers of package program.
const (
	LevelFunction  Level = iota // who has a key of the function
	LevelAnonymous              // anyone
	LevelAdmin                  // who has the master key
)

// String implements [fmt.Stringer].
func (l Level) String() string { return program.Level(l).String() }

// RouteOptions are the options of a route; nil and zero fields mean the defaults.
type RouteOptions struct {
	Level Level // default LevelFunction. Routes with the same first segment have the same level; see [App.Handle]
}

// Handle declares a route: a pattern of [http.ServeMux] with a method, below
// /api. "POST /orders" serves POST /api/orders. Meter, traces, request ids and
// the limit of bodies are those of the built-in routes.
//
// The Functions host stands before it: it rebuilds the path, joins headers of
// one name, sends no chunked body, takes an answer as a whole and only then
// passes it on, and ends a call after 230 seconds. The handler does not see the
// function key of the caller, so that the program cannot log it: the header
// X-Functions-Key is removed, and, unless the level is LevelAnonymous, the query
// parameter "code" in any case. Refused are {$}, host names, patterns without a
// method, two of which neither is more special than the other, and first segments
// of built-in routes.
//
// Calls of a route whose level is not LevelFunction come in envelopes, so that its
// address leads to no other route, nor that of another one to it. An envelope
// carries text: an answer that is not UTF-8 is 500, a body that is not has the
// content type application/octet-stream or multipart/form-data, a chunked body is
// 411, and an answer has one cookie. RemoteAddr is empty.
func (a *App) Handle(pattern string, handler http.Handler, options *RouteOptions) {
	var opt RouteOptions
	if options != nil {
		opt = *options
	}
	a.declaring("route %q is declared", pattern)
	a.declared.Routes = append(a.declared.Routes, &program.Route{Pattern: pattern, Level: program.Level(opt.Level), Handler: handler})
}

// HandleFunc is [App.Handle] for a function.
func (a *App) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request), options *RouteOptions) {
	if handler == nil {
		a.Handle(pattern, nil, options)
		return
	}
	a.Handle(pattern, http.HandlerFunc(handler), options)
}

// Error answers a call with an error of the queues, numbers, gates, batches and
// messages of the program, as the built-in routes do: 400 for a message, an item,
// a delay or a count that is not valid, 503 while storage does not respond or the
// process stops, and so on, with a body of {"error":{"code","message"}}. Any other error is 500;
// its caller reads no cause, and the log does. It must be the last write.
func Error(w http.ResponseWriter, err error) { parts.WriteError(w, err) }
