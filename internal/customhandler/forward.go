package customhandler

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// forwarded serves calls that the host passes on as they came. This is the path that should cost next to nothing: no
// goroutine and no buffer of its own, and no log line above debug for a call that went well.
type forwarded struct {
	app      *App
	function string
	next     http.Handler
}

func (f *forwarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := f.app
	if r.ContentLength > a.maxBody {
		writeError(w, errTooLarge(a.maxBody))
		return
	}
	if r.ContentLength < 0 { // never from the host, which drops such bodies
		r.Body = http.MaxBytesReader(w, r.Body, a.maxBody)
	}
	if r.ContentLength != 0 {
		// A client that sends half a body and falls silent is not waited for. Not every writer can.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.httpTimeout))
	}
	call := &forwardedCall{limit: a.httpTimeout}
	call.inv.id, call.inv.function, call.inv.log = invocationID(r.Header), f.function, a.log
	call.ctx.parent, call.ctx.deadline, call.ctx.inv = r.Context(), time.Now().Add(soft(a.httpTimeout)), &call.inv
	call.out.w = w
	last := time.AfterFunc(a.httpTimeout, call.giveUp)
	defer last.Stop()
	defer call.end()
	r = r.WithContext(&call.ctx)
	f.next.ServeHTTP(&call.out, r)
	if a.log.Enabled(r.Context(), slog.LevelDebug) {
		a.log.DebugContext(r.Context(), "HTTP call done", "method", r.Method, "pattern", r.Pattern, "status", call.out.answered())
	}
}

// forwardedCall is all that a call needs, in one allocation.
type forwardedCall struct {
	inv   invocation
	ctx   callContext
	out   guarded
	limit time.Duration
}

// end closes the call's writer and context. It also turns a panic into an answer, or, when one has begun, into a broken
// connection, so that half an answer does not pass for a whole one.
func (c *forwardedCall) end() {
	v := recover()
	c.ctx.end()
	var err error
	if v != nil && v != http.ErrAbortHandler {
		err = newPanicError(v)
		logFailure(&c.ctx, c.inv.log, "HTTP call failed", err)
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	gone := c.out.over
	c.out.over = true
	switch {
	case v == nil || gone:
	case err == nil || c.out.status != 0:
		panic(http.ErrAbortHandler)
	default:
		writeError(c.out.w, explain(err))
	}
}

// giveUp answers for a function that ignores the end of its context, so that the caller does not wait for ever.
// The function may still be using the writer and its header map, so the answer does not go through them: the connection
// is taken away from the server. A call without an answer gets 504; one with half an answer is broken off.
func (c *forwardedCall) giveUp() {
	c.out.mu.Lock()
	if c.out.over {
		c.out.mu.Unlock()
		return
	}
	c.out.over = true
	conn, _, err := http.NewResponseController(c.out.w).Hijack()
	status := c.out.status
	c.out.mu.Unlock()

	left := errLeftBehind(c.limit)
	c.inv.log.ErrorContext(&c.ctx, "HTTP call failed", "error", left)
	if err != nil {
		c.inv.log.ErrorContext(&c.ctx, "its caller cannot be answered and waits for it", "error", err)
		return
	}
	defer conn.Close()
	if status != 0 {
		return
	}
	const patience = 5 * time.Second
	_ = conn.SetDeadline(time.Now().Add(patience))
	body := errorBody(explain(left))
	_, err = fmt.Fprintf(conn, "HTTP/1.1 504 Gateway Timeout\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		len(body), body)
	if err != nil {
		return
	}
	// Closing with a part of the request unread would reset the connection, and the answer might be lost with it.
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// guarded is the writer of a forwarded call. It knows whether an answer has begun, and lets nothing through after the
// call is over.
type guarded struct {
	w http.ResponseWriter

	mu     sync.Mutex
	status int  // 0 before WriteHeader; guarded by mu
	over   bool // guarded by mu
}

func (g *guarded) Header() http.Header {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return make(http.Header) // nobody will read it
	}
	return g.w.Header()
}

func (g *guarded) WriteHeader(status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	g.w.WriteHeader(status) // panics on a status that is none: then nothing has begun
	if g.status == 0 && status >= 200 {
		g.status = status
	}
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.begin(); err != nil {
		return 0, err
	}
	return g.w.Write(p)
}

func (g *guarded) WriteString(s string) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.begin(); err != nil {
		return 0, err
	}
	return io.WriteString(g.w, s)
}

// FlushError is for http.ResponseController. The host buffers all the same.
func (g *guarded) FlushError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.begin(); err != nil {
		return err
	}
	return http.NewResponseController(g.w).Flush()
}

// begin notes that an answer has begun, with 200 if nothing else was said. The caller holds mu.
func (g *guarded) begin() error {
	if g.over {
		return http.ErrHandlerTimeout
	}
	if g.status == 0 {
		g.status = http.StatusOK
	}
	return nil
}

func (g *guarded) begun() bool { return g.answered() != 0 }

// answered is the status of the answer that has begun; 0 before.
func (g *guarded) answered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.status
}
