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
	log      *slog.Logger
	limit    time.Duration // HTTPTimeout
	running  *runningCalls
	function string
	maxBody  int64
	next     http.Handler
}

func (f *forwarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	inv := &invocation{requestID(w), f.function, f.log}
	ctx := &callContext{parent: r.Context(), deadline: began.Add(softLimit(f.limit)), inv: inv}
	defer ctx.end()
	out := &callWriter{w: w}
	running := &runningCall{ctx: ctx, out: out, until: began.Add(f.limit)}
	f.running.add(running)
	defer f.running.remove(running)
	defer out.end(ctx, f.log)
	r = r.WithContext(ctx)
	f.next.ServeHTTP(out, r)
	if f.log.Enabled(ctx, slog.LevelDebug) {
		f.log.DebugContext(ctx, "HTTP call done", "method", r.Method, "pattern", r.Pattern, "status", out.answered())
	}
}

// callWriter is the ResponseWriter of a forwarded call. It knows whether an
// answer has begun, and discards writes after the end of the call.
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

// runningCalls are the forwarded calls that a function serves now. One timer
// watches all of them: one for each call would be a twentieth of the cost of an
// order number.
type runningCalls struct {
	overdue func(*runningCall) // gives a call up

	mu      sync.Mutex
	oldest  *runningCall // guarded by mu, as all links
	newest  *runningCall
	watched bool // the timer runs; guarded by mu
}

// runningCall is one of them. All have the same limit, so they end in the order
// in which they began.
type runningCall struct {
	ctx          *callContext
	out          *callWriter
	until        time.Time
	older, newer *runningCall
	listed       bool
}

func (r *runningCalls) add(c *runningCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.older, c.listed = r.newest, true
	if r.newest == nil {
		r.oldest = c
	} else {
		r.newest.newer = c
	}
	r.newest = c
	if !r.watched {
		r.watched = true
		time.AfterFunc(time.Until(c.until), r.check)
	}
}

func (r *runningCalls) remove(c *runningCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlink(c)
}

// unlink removes a call that may be removed already. The caller holds mu.
func (r *runningCalls) unlink(c *runningCall) {
	if !c.listed {
		return
	}
	if c.older == nil {
		r.oldest = c.newer
	} else {
		c.older.newer = c.newer
	}
	if c.newer == nil {
		r.newest = c.older
	} else {
		c.newer.older = c.older
	}
	c.older, c.newer, c.listed = nil, nil, false
}

// check gives up the calls whose time is over, and sets the timer for the next
// one. Without calls there is no timer.
func (r *runningCalls) check() {
	r.mu.Lock()
	var over []*runningCall
	now := time.Now()
	for r.oldest != nil && !now.Before(r.oldest.until) {
		over = append(over, r.oldest)
		r.unlink(r.oldest)
	}
	if r.watched = r.oldest != nil; r.watched {
		time.AfterFunc(r.oldest.until.Sub(now), r.check)
	}
	r.mu.Unlock()
	for _, c := range over {
		go r.overdue(c) // answers on the connection of its caller, which may be slow
	}
}
