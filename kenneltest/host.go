package kenneltest

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kennel/devstore"
	"kennel/internal/customhandler"
	"kennel/internal/program"
	"kennel/internal/worker"
	"kennel/queue"
)

// clock is Kennel's clock.
type clock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

// Now returns its time.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// set moves it forward.
func (c *clock) set(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to.After(c.now) {
		c.now = to
	}
}

// network is the way to storage. It counts the requests, and knows when hidden
// messages become visible.
type network struct {
	store *devstore.Store
	clock *clock

	mu   sync.Mutex
	sent int                // guarded by mu
	due  map[time.Time]bool // when messages become visible; guarded by mu
}

// RoundTrip implements [http.RoundTripper].
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.sent++
	n.mu.Unlock()
	return n.pass(r)
}

func (n *network) pass(r *http.Request) (*http.Response, error) {
	if hidden, err := strconv.Atoi(r.URL.Query().Get("visibilitytimeout")); err == nil && hidden > 0 && strings.Contains(r.URL.Path, "/messages") && r.Method != http.MethodGet {
		n.mu.Lock()
		if n.due == nil {
			n.due = make(map[time.Time]bool)
		}
		n.due[n.clock.Now().Truncate(time.Second).Add(time.Duration(hidden+1)*time.Second)] = true
		n.mu.Unlock()
	}
	return n.store.RoundTrip(r)
}

func (n *network) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent
}

// next returns when the next hidden message becomes visible; zero: none is
// hidden.
func (n *network) next() (at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now()
	maps.DeleteFunc(n.due, func(at time.Time, _ bool) bool { return !at.After(now) })
	for due := range n.due {
		if at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at
}

// uncounted is the way of the host's requests.
type uncounted struct{ *network }

// RoundTrip implements [http.RoundTripper].
func (u uncounted) RoundTrip(r *http.Request) (*http.Response, error) { return u.pass(r) }

// inProcess calls an app in this process.
type inProcess struct {
	app http.Handler
	ctx context.Context // with Kennel's clock
}

// RoundTrip implements [http.RoundTripper].
func (p inProcess) RoundTrip(r *http.Request) (_ *http.Response, err error) {
	defer func() { // as a server, which closes the connection of half an answer
		if v := recover(); v == http.ErrAbortHandler {
			err = io.ErrUnexpectedEOF
		} else if v != nil {
			panic(v)
		}
	}()
	w := httptest.NewRecorder()
	p.app.ServeHTTP(w, p.received(r))
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// received returns a call as a server receives it.
func (p inProcess) received(r *http.Request) *http.Request {
	call := r.Clone(context.WithoutCancel(p.ctx))
	call.RequestURI = r.URL.RequestURI()
	if call.Host == "" {
		call.Host = "127.0.0.1"
	}
	call.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	if call.Body == nil {
		call.Body = http.NoBody
	}
	if call.ContentLength < 0 {
		call.TransferEncoding = []string{"chunked"}
	}
	call.RemoteAddr = "127.0.0.1:1"
	return call
}

// caller calls the program as the host does: some routes of its own in an envelope.
type caller struct {
	inProcess
	k *Kit
}

// RoundTrip implements [http.RoundTripper].
func (c caller) RoundTrip(r *http.Request) (*http.Response, error) {
	segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/"), "/")
	for _, route := range c.k.declared.Routes {
		if route.IsEnveloped() && strings.EqualFold(route.Segment(), segment) {
			return c.invoke(program.FunctionOfRoute(route), r)
		}
	}
	return c.inProcess.RoundTrip(r)
}

// invoke calls a function with a call in an envelope.
func (c caller) invoke(function string, r *http.Request) (*http.Response, error) {
	envelope, err := customhandler.Trigger{Function: function, Binding: "req"}.HTTP(c.received(r), nil)
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	answer, err := c.k.host.Invoke(context.WithoutCancel(c.ctx), function, envelope)
	var reply customhandler.HTTPAnswer
	if err == nil {
		reply, err = answer.HTTP("res")
	}
	if err != nil { // the program logs why
		reply = customhandler.HTTPAnswer{Status: http.StatusInternalServerError}
	}
	maps.Copy(w.Header(), reply.Header)
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body)
	result := w.Result()
	result.Request = r
	return result, nil
}

// The host's receives: how many messages, and the lease. The clock stands still
// while they are worked on.
const (
	batch = 16
	lease = 30 * time.Second
)

// deliver delivers the messages that are visible now, and returns how many.
func (k *Kit) deliver() (delivered int) {
	k.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(k.triggers)) {
		ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second)
		messages, err := k.queues.Receive(ctx, name, batch, lease)
		cancel()
		if err != nil {
			k.t.Fatalf("receive from queue %q: %v", name, err)
		}
		delivered += len(messages)
		var invocations sync.WaitGroup
		for _, m := range messages {
			invocations.Go(func() { k.invoke(name, m) })
		}
		invocations.Wait()
	}
	return delivered
}

// maxDeliveries is how often the host delivers a message.
const maxDeliveries = 20

// invoke delivers a message, by the rules of the Functions host.
func (k *Kit) invoke(name string, m queue.Message) {
	function := k.triggers[name]
	text, err := worker.TextOf(m.Body)
	if err != nil {
		text = m.Body // the genuine host fails here, unless its messages are not in base64
	}
	ctx, cancel := context.WithTimeout(k.ctx, 10*time.Minute)
	defer cancel()
	message := customhandler.QueueMessage{Text: text, ID: m.ID, DequeueCount: m.DequeueCount, Inserted: m.Inserted, Expires: m.Expires, NextVisible: m.NextVisible, PopReceipt: m.Receipt}
	_, err = k.host.Invoke(ctx, function, customhandler.Trigger{Function: function, Binding: "message"}.Queue(message))
	switch {
	case err == nil:
		err = k.queues.Delete(ctx, name, m)
	case m.DequeueCount >= maxDeliveries:
		if _, err = k.queues.Put(ctx, name+queue.PoisonSuffix, m.Body, 0); err == nil {
			err = k.queues.Delete(ctx, name, m)
		}
	default:
		_, err = k.queues.Update(ctx, name, m, 0)
	}
	if err != nil {
		k.t.Errorf("message %s of queue %s: %v", m.ID, name, err)
	}
}

// maxSettle is for how long the clock moves at most.
const maxSettle = 60 * 24 * time.Hour

// Settle delivers messages until none is left, and moves the clock over delays
// and the waits after failed attempts. The slots of timers come by [Kit.Advance]
// alone: it runs those that Settle passed over as slots that were missed.
func (k *Kit) Settle() {
	k.t.Helper()
	for until := k.clock.Now().Add(maxSettle); ; {
		k.deliverAll()
		at := k.network.next()
		if at.IsZero() || k.left() == 0 {
			return
		}
		if at.After(until) {
			k.t.Fatalf("messages are left after %v: %d", maxSettle, k.left())
		}
		k.clock.set(at)
	}
}

// maxRounds is how often messages may be delivered while the clock stands still.
const maxRounds = 3_000

// deliverAll delivers until no message is visible.
func (k *Kit) deliverAll() {
	k.t.Helper()
	for range maxRounds {
		if k.deliver() == 0 {
			return
		}
	}
	k.t.Fatalf("messages were delivered %d times without time between them: does a handler send a message for each one?", maxRounds)
}

// left returns how many messages there are.
func (k *Kit) left() (n int64) {
	k.t.Helper()
	for name := range k.triggers {
		ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second)
		count, err := k.queues.Count(ctx, name)
		cancel()
		if err != nil {
			k.t.Fatalf("count queue %q: %v", name, err)
		}
		n += count
	}
	return n
}

// Advance moves the clock by d, delivers the messages that become visible
// meanwhile, and runs the slots of timers that come.
func (k *Kit) Advance(d time.Duration) {
	k.t.Helper()
	for until := k.clock.Now().Add(d); ; {
		k.deliverAll()
		at := k.network.next()
		if slot := k.wakes(); at.IsZero() || !slot.IsZero() && slot.Before(at) {
			at = slot
		}
		if at.IsZero() || at.After(until) {
			k.clock.set(until)
			k.deliver()
			return
		}
		k.clock.set(at)
		k.tick()
	}
}
