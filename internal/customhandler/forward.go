package customhandler

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// forwarded serves the calls that the host forwards. This path must stay cheap:
// it starts no goroutine, has no buffer, and logs successful calls only at
// level debug.
type forwarded struct {
	app      *App
	function string
	maxBody  int64
	next     http.Handler
}

func (f *forwarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := f.app
	if r.ContentLength > f.maxBody {
		writeError(w, errTooLarge(f.maxBody))
		return
	}
	if r.ContentLength != 0 {
		r.Body = callBody{r.Body}
	}
	if r.ContentLength < 0 { // not from the host, which drops chunked bodies
		r.Body = http.MaxBytesReader(w, r.Body, f.maxBody)
	}
	began := time.Now()
	inv := &invocation{requestID(w), f.function, a.opt.Log}
	ctx := &callContext{parent: r.Context(), deadline: began.Add(softLimit(a.opt.HTTPTimeout)), inv: inv}
	defer ctx.end()
	out := &callWriter{w: w}
	running := &runningCall{ctx: ctx, out: out, until: began.Add(a.opt.HTTPTimeout)}
	a.running.add(running)
	defer a.running.remove(running)
	defer out.end(ctx, a.opt.Log)
	r = r.WithContext(ctx)
	f.next.ServeHTTP(out, r)
	if a.opt.Log.Enabled(ctx, slog.LevelDebug) {
		a.opt.Log.DebugContext(ctx, "HTTP call done", "method", r.Method, "pattern", r.Pattern, "status", out.answered())
	}
}

// callWriter is the ResponseWriter of a forwarded call. It knows whether an
// answer has begun, and discards what is written after the end of the call.
type callWriter struct {
	w http.ResponseWriter

	mu     sync.Mutex
	status int  // 0 before WriteHeader; guarded by mu
	over   bool // guarded by mu
}

// end closes the writer. It also turns a panic into an error answer, or into a
// broken connection if an answer has begun, because the caller must not take
// half an answer for a whole one.
func (c *callWriter) end(ctx context.Context, log *slog.Logger) {
	v := recover()
	var err error
	if v != nil && v != http.ErrAbortHandler {
		err = newPanicError(v)
		logFailure(ctx, log, "HTTP call failed", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	answered := c.over
	c.over = true
	switch {
	case v == nil || answered:
	case err == nil || c.status != 0:
		panic(http.ErrAbortHandler)
	default:
		writeError(c.w, explain(err))
	}
}

// giveUp answers for a function that ignores the end of its context, because
// its caller must not wait for ever. The function may still use the writer and
// its header map, so giveUp takes the connection from the server and answers
// 504 on it, or only closes it if an answer has begun.
func (c *callWriter) giveUp(ctx context.Context, log *slog.Logger, limit time.Duration) {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.over = true
	conn, _, err := http.NewResponseController(c.w).Hijack()
	status := c.status
	c.mu.Unlock()

	abandoned := errAbandoned(limit)
	logFailure(ctx, log, "HTTP call failed", abandoned)
	if err != nil {
		log.ErrorContext(ctx, "cannot answer for the abandoned function; its caller waits", "error", err)
		return
	}
	defer conn.Close()
	if status != 0 {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	body := errorBody(explain(abandoned))
	header := http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))},
		headerRequestID: {invocationFrom(ctx).id}, "Connection": {"close"}}
	SetStanding(header)
	answer := bytes.NewBufferString("HTTP/1.1 504 Gateway Timeout\r\n")
	_ = header.Write(answer)
	fmt.Fprintf(answer, "\r\n%s", body)
	if _, err := conn.Write(answer.Bytes()); err != nil {
		return
	}
	// Closing while a part of the request is unread would reset the connection,
	// and the caller might lose the answer.
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

func (c *callWriter) Header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return make(http.Header)
	}
	return c.w.Header()
}

func (c *callWriter) WriteHeader(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.w.WriteHeader(status) // panics on an invalid status, before an answer begins
	if c.status == 0 && status >= 200 {
		c.status = status
	}
}

func (c *callWriter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// FlushError serves http.ResponseController. The host buffers all the same.
func (c *callWriter) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// begin records that an answer begins, with status 200 unless WriteHeader was
// called. The caller holds mu.
func (c *callWriter) begin() error {
	if c.over {
		return http.ErrHandlerTimeout
	}
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return nil
}

func (c *callWriter) begun() bool { return c.answered() != 0 }

// answered returns the status of the answer that has begun, 0 before.
func (c *callWriter) answered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}
