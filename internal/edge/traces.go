package edge

import (
	"net/http"
	"strings"

	"kennel/internal/customhandler"
	"kennel/internal/trace"
)

// traced is a handler of a pattern whose calls are spans if traces are on.
type traced struct {
	http.Handler
	pattern string
}

func (t traced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !trace.IsOn(r.Context()) {
		t.Handler.ServeHTTP(w, r)
		return
	}
	ctx, span := trace.Open(r.Context(), r.Header.Get("traceparent"), t.pattern, trace.Server)
	defer span.End()
	_, path, _ := strings.Cut(t.pattern, " ")
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
	t.Handler.ServeHTTP(w, r.WithContext(ctx))
	returned = true
}
