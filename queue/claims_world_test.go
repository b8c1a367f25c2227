package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

// claimWorld is queues and stores in memory, and what happened to each message.
// Its processes publish, work, hold, dead-letter, redrive and sweep. The stores
// outlive them.
type claimWorld struct {
	t      testing.TB
	queues *memory.Queues
	claimStores
	process *storetest.Process // that sends the requests; nil: processes that are not killed
	bodies  map[string][]byte  // by id; read only

	mu      sync.Mutex
	put     map[string]bool // guarded by mu: a put was confirmed
	done    map[string]bool // guarded by mu
	steps   map[string]int  // guarded by mu: of its plan
	gone    int             // guarded by mu: second copies of a message that was done
	copied  int             // guarded by mu: claims that were copied
	history []string        // guarded by mu
}

// claimStep is what a receiver does with a message.
type claimStep int

const (
	claimDone   claimStep = iota // delete it
	claimHeld                    // put it again, for five days later
	claimDead                    // move it to the poison queue
	claimFailed                  // leave it to another receiver
)

func newClaimWorld(t testing.TB, fault func(store string) func(memory.Call) memory.Fault, bodies map[string][]byte) *claimWorld {
	w := &claimWorld{t: t, bodies: bodies, put: make(map[string]bool), done: make(map[string]bool), steps: make(map[string]int)}
	options := func(store string) memory.Options {
		return memory.Options{Fault: fault(store), OnMisuse: func(problem string) { t.Error(problem) }}
	}
	queues, blobs := options("queues"), options("blobs")
	w.queues = memory.NewQueues(&queues)
	w.claimStores = claimStores{memory.NewTable(&memory.TableOptions{Options: options("rows")}), memory.NewContainer(&blobs)}
	return w
}

// claims returns the claims of a process, which are stored in the table or as
// blobs.
func (w *claimWorld) claims(place string) *queue.Claims {
	var store table.Store = w.rows
	var blobs queue.Container = w.blobs
	if w.process != nil {
		store, blobs = w.process.Table(store), w.process.Container(blobs)
	}
	rows, err := table.New(store)
	if err != nil {
		w.t.Fatal(err)
	}
	claims, err := queue.NewClaims(rows, blobs)
	if err != nil {
		w.t.Fatal(err)
	}
	if place == "blob" {
		claims.InBlobs()
	}
	return claims
}

func (w *claimWorld) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, time.Now().Format("02T15:04:05 ")+fmt.Sprintf(format, args...))
}

// store returns the queues as the process sees them.
func (w *claimWorld) store() queue.Store {
	if w.process != nil {
		return w.process.Queues(w.queues)
	}
	return w.queues
}

// bounded bounds one request to a queue.
func bounded[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return do(ctx)
}

func (w *claimWorld) putText(ctx context.Context, name, text string, delay time.Duration) error {
	_, err := bounded(ctx, func(ctx context.Context) (queue.Message, error) { return w.store().Put(ctx, name, text, delay) })
	return err
}

func (w *claimWorld) delete(ctx context.Context, name string, m queue.Message) error {
	_, err := bounded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, w.store().Delete(ctx, name, m) })
	return err
}

// publish sends a message until its put is confirmed.
func (w *claimWorld) publish(ctx context.Context, c *queue.Claims, id string) error {
	for ctx.Err() == nil {
		text, err := c.Pack(ctx, queue.Envelope{ID: id, Time: time.Now()}, w.bodies[id])
		for tries := 0; err == nil && tries < 3; tries++ { // the same text may be put twice
			if err = w.putText(ctx, "work", text, 0); err == nil {
				w.note("%s: put", id)
				w.mu.Lock()
				w.put[id] = true
				w.mu.Unlock()
				return nil
			}
		}
		w.note("%s: publish: %v", id, err)
	}
	return ctx.Err()
}

// receive receives messages of a queue once and handles them. It returns how
// many there were.
func (w *claimWorld) receive(ctx context.Context, c *queue.Claims, name string, plan func(id string, n int) claimStep) (int, error) {
	messages, err := bounded(ctx, func(ctx context.Context) ([]queue.Message, error) {
		return w.store().Receive(ctx, name, 4, 10*time.Minute)
	})
	for _, m := range messages {
		if name == "work-poison" {
			err = errors.Join(err, w.redrive(ctx, c, m))
		} else {
			err = errors.Join(err, w.handle(ctx, c, m, plan))
		}
	}
	return len(messages), err
}

func (w *claimWorld) handle(ctx context.Context, c *queue.Claims, m queue.Message, plan func(id string, n int) claimStep) error {
	e, body, err := c.Unpack(ctx, m.Body)
	w.mu.Lock()
	done, n := w.done[e.ID], w.steps[e.ID]
	if err == nil {
		w.steps[e.ID]++
	}
	w.mu.Unlock()
	switch {
	case errors.Is(err, queue.ErrClaimGone):
		if !done {
			w.t.Errorf("%s: the claim is gone before the work is done; it expires %v", e.ID, e.ClaimExpires())
		}
		w.mu.Lock()
		w.gone++
		w.mu.Unlock()
		return w.delete(ctx, "work", m)
	case errors.Is(err, queue.ErrMessage):
		w.t.Errorf("%s: %v", e.ID, err)
		return err
	case err != nil:
		return err
	}
	if !bytes.Equal(body, w.bodies[e.ID]) {
		w.t.Errorf("%s: got another body of %d bytes, want %d", e.ID, len(body), len(w.bodies[e.ID]))
	}
	switch step := plan(e.ID, n); step {
	case claimDone:
		w.note("%s: done", e.ID)
		w.mu.Lock()
		w.done[e.ID] = true
		w.mu.Unlock()
		if err := w.delete(ctx, "work", m); err != nil {
			return err // not confirmed: another receiver may get the message
		}
		return c.Remove(ctx, e)
	case claimHeld:
		e.Attempts++
		return w.move(ctx, c, e, m, "work", "work", 5*24*time.Hour)
	case claimDead:
		e.Reason = "planned"
		return w.move(ctx, c, e, m, "work", "work-poison", 0)
	}
	return nil
}

func (w *claimWorld) redrive(ctx context.Context, c *queue.Claims, m queue.Message) error {
	e, err := queue.Parse(m.Body)
	if err != nil || e.Reason == "" {
		w.t.Errorf("dead letter %.300s: %v", m.Body, err)
		return err
	}
	e.Reason = ""
	err = w.move(ctx, c, e, m, "work-poison", "work", 0)
	if errors.Is(err, queue.ErrClaimGone) { // another copy was done
		w.mu.Lock()
		done := w.done[e.ID]
		w.mu.Unlock()
		if !done {
			w.t.Errorf("%s: the claim of a dead letter is gone before the work is done", e.ID)
		}
		return w.delete(ctx, "work-poison", m)
	}
	return err
}

// move puts a copy of a message and then deletes it. The copy names the claim,
// so the claim stays.
func (w *claimWorld) move(ctx context.Context, c *queue.Claims, e queue.Envelope, m queue.Message, from, to string, delay time.Duration) error {
	before := e.ClaimExpires()
	e, err := c.Extend(ctx, e, time.Now().Add(queue.ClaimTime))
	if err != nil {
		return err
	}
	text, err := e.Text()
	if err == nil {
		err = w.putText(ctx, to, text, delay)
	}
	w.note("%s: moved to %s: %v", e.ID, to, err)
	if err != nil {
		return err
	}
	if !e.ClaimExpires().Equal(before) {
		w.mu.Lock()
		w.copied++
		w.mu.Unlock()
	}
	return w.delete(ctx, from, m)
}

// check fails unless each message was done and nothing is left.
func (w *claimWorld) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.bodies {
		if !w.done[id] {
			w.t.Errorf("%s was put: %v, but is not done", id, w.put[id])
		}
	}
	for _, name := range []string{"work", "work-poison"} {
		if all := w.queues.All(name); len(all) > 0 {
			w.t.Errorf("%d messages are left in %s, the first: %.300s", len(all), name, all[0].Body)
		}
	}
	if n := w.left(); n > 0 {
		w.t.Errorf("%d rows and blobs are left: %q", n, w.blobs.Names())
	}
	if w.t.Failed() {
		for _, line := range w.history {
			w.t.Log(line)
		}
	}
}

// someBodies returns bodies of both kinds: in the message, and with a claim.
func someBodies(random *rand.Rand, n int) map[string][]byte {
	kinds := [][]byte{claimBody(random, 10, 1), claimBody(random, 34_000, 1)}
	bodies := make(map[string][]byte)
	for i := range n {
		bodies[fmt.Sprint("m", i)] = kinds[i%len(kinds)]
	}
	return bodies
}
