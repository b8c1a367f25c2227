package edge

import (
	"net/http"
	"strings"

	"kennel/internal/customhandler"
	"kennel/internal/trace"
)

// traced is a route whose calls are spans if traces are on.
type traced struct{ *Route }

func (t traced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !trace.IsOn(r.Context()) {
		t.Route.ServeHTTP(w, r)
		return
	}
	ctx, span := trace.Open(r.Context(), r.Header.Get("traceparent"), t.Pattern, trace.Server)
	defer span.End()
	_, path, _ := strings.Cut(t.Pattern, " ")
	span.Text(trace.Method, r.Method)
	span.Text("http.route", path)
	span.Text(trace.Invocation, w.Header().Get("X-Request-Id"))
	returned := false
	defer func() {
		status := customhandler.Answered(w)
		switch {
		case !returned:
			span.Fail("the function panicked")
		case status >= http.StatusInternalServerError:
			span.Fail(http.StatusText(status))
		}
		if status != 0 {
			span.Number(trace.Status, int64(status))
		}
	}()
	t.Route.ServeHTTP(w, r.WithContext(ctx))
	returned = true
}
