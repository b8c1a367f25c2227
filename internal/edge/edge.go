// Package edge is the HTTP edge of a program: what every route of an API gets
// before its resource, in this order: the meter, a span of its trace, who may
// call it, what it takes, its quota. It also turns replies and errors into
// answers. It knows no resource.
package edge

import (
	"net/http"
	"slices"

	"kennel/internal/customhandler"
)

// ServeAll registers the routes of an API with their functions: for callers with
// a key, and for people through the console. Here, and in [Route.ServeHTTP], is
// all that a route gets before its resource: the meter, then a span of its
// trace, then who may call it, then what it takes, then its quota.
func ServeAll(host *customhandler.App, api []Route, measure func(http.Handler) http.Handler, people *People) {
	api = slices.Clone(api)
	for i, rt := range api {
		if !rt.Waits {
			api[i].Handler = measure(rt.Handler)
		}
	}
	ServeRoutes(host, api)
	ServeRoutes(host, people.Routes(api))
}

// ServeRoutes registers routes with their functions.
func ServeRoutes(host *customhandler.App, routes []Route) {
	for _, rt := range routes {
		handler := traced{&rt, rt.Pattern}
		switch {
		case rt.Enveloped:
			host.Enveloped(rt.Function, "req", handler, rt.Pattern)
		case rt.MaxBody > 0:
			host.Upload(rt.Function, "req", rt.MaxBody, handler, rt.Pattern)
		default:
			host.HTTP(rt.Function, "req", handler, rt.Pattern)
		}
	}
}
