package queues

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/customhandler"
	"kennel/internal/memory"
	"kennel/internal/program"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/internal/worker"
	"kennel/queue"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// order is the message of the tests.
type order struct {
	Kind string `json:"kind"`
	N    int    `json:"n"`
	Pad  string `json:"pad,omitempty"`
}

var errBroken = errors.New("broken")

// world is a storage account, and what the handlers of all processes did.
type world struct {
	queues *memory.Queues
	rows   *memory.Table
	blobs  *memory.Container

	attempts int // MaxAttempts of all queues

	mu      sync.Mutex
	done    map[int]int // by N; guarded by mu
	calls   map[int]int // guarded by mu
	numbers map[int]int // the greatest number of an attempt; guarded by mu
	words   map[int]int // calls of Dead; guarded by mu
}

func newWorld(o *memory.Options) *world {
	if o == nil {
		o = &memory.Options{}
	}
	o.Endless = true
	return &world{
		attempts: program.MaxAttempts,
		queues:   memory.NewQueues(o), rows: memory.NewTable(&memory.TableOptions{Options: *o}), blobs: memory.NewContainer(o),
		done: make(map[int]int), calls: make(map[int]int), numbers: make(map[int]int), words: make(map[int]int),
	}
}

// handle is the handler of a process, whose effects end with it.
func (w *world) handle(p *storetest.Process) func(context.Context, []byte) error {
	return func(ctx context.Context, body []byte) error {
		var o order
		if err := json.Unmarshal(body, &o); err != nil {
			return program.Unreadable(err)
		}
		a, _ := attempt.Current(ctx)
		w.mu.Lock()
		w.calls[o.N]++
		calls := w.calls[o.N]
		w.numbers[o.N] = max(w.numbers[o.N], a.Number)
		w.mu.Unlock()
		err := o.run(ctx, calls)
		if err == nil && !p.Dead() {
			w.mu.Lock()
			w.done[o.N]++
			w.mu.Unlock()
		}
		return err
	}
}

// run is the work of an order, of which this is the n-th call.
func (o order) run(ctx context.Context, n int) error {
	switch o.Kind {
	case "slow":
		select {
		case <-time.After(40 * time.Second): // longer than a lease
		case <-ctx.Done():
			return ctx.Err()
		}
	case "fails twice":
		if n <= 2 {
			return errBroken
		}
	case "fails often":
		if n <= maxHosted+3 {
			return errBroken
		}
	case "snoozes":
		if n <= 3 {
			return attempt.Snooze(20 * time.Second)
		}
	case "later":
		if n <= 2 {
			return attempt.RetryAfter(15*time.Second, errBroken)
		}
	case "panics":
		panic("oh")
	case "rejected":
		return attempt.Reject(errBroken)
	case "fails":
		return errBroken
	}
	return nil
}

// declared returns a program with two queues that share a storage queue and one
// of its own.
func (w *world) declared(p *storetest.Process) *program.Declared {
	d := &program.Declared{Name: "shop"}
	for _, q := range []program.Queue{{Name: "orders"}, {Name: "mails", StorageQueue: "jobs"}, {Name: "bills", StorageQueue: "jobs"}} {
		q.Handled, q.Work = 1, w.handle(p)
		q.Concurrency, q.MaxAttempts, q.Timeout = 8, w.attempts, time.Minute
		q.Retry = func(failed int, _ error) time.Duration { return time.Duration(failed) * time.Second }
		q.Dead = func(ctx context.Context, body []byte, dead program.Dead) error {
			var o order
			_ = json.Unmarshal(body, &o)
			w.mu.Lock()
			defer w.mu.Unlock()
			if !p.Dead() {
				w.words[o.N]++
			}
			return nil
		}
		d.Queues = append(d.Queues, &q)
	}
	return d
}

// open returns the queues of a process, hosted or a worker.
func (w *world) open(t testing.TB, p *storetest.Process, hosted bool, options *Options) *Queues {
	t.Helper()
	var opt Options
	if options != nil {
		opt = *options
	}
	if !hosted {
		opt.Listening = worker.NewTestListening(30*time.Second, 5*time.Second, time.Second, opt.Signals)
	}
	rows, err := table.New(p.Table(w.rows))
	if err != nil {
		t.Fatal(err)
	}
	store := struct {
		queue.Store
		queue.Peeker
	}{p.Queues(w.queues), w.queues}
	q, err := New(w.declared(p), store, func(name string) (*queue.Claims, error) { return queue.NewKeptClaims(rows, p.Container(w.blobs), name) }, &opt)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// live runs a process until ctx ends or it is killed.
func (w *world) live(ctx context.Context, t testing.TB, p *storetest.Process, q *Queues) {
	var running sync.WaitGroup
	running.Go(func() { _ = q.Run(ctx) })
	if q.listeners != nil {
		_ = q.Work(ctx) // an error if a handler is left, as after a kill
	} else {
		w.host(ctx, t, p, q)
	}
	running.Wait()
}

// untilEmpty is live until its queues are empty, or ctx ends.
func (w *world) untilEmpty(ctx context.Context, t testing.TB, p *storetest.Process, q *Queues) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		defer cancel()
		for len(w.queues.All("orders"))+len(w.queues.All("jobs")) > 0 {
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
				return
			}
		}
	})
	w.live(ctx, t, p, q)
}

// host delivers messages by the rules of the Functions host.
func (w *world) host(ctx context.Context, t testing.TB, p *storetest.Process, q *Queues) {
	const batch, lease, maxDeliveries = 16, 30 * time.Second, 20
	store := p.Queues(w.queues)
	var running sync.WaitGroup
	for name := range q.letters {
		invoke := q.hosted(name)
		running.Go(func() {
			for ctx.Err() == nil && !p.Dead() {
				one, cancel := context.WithTimeout(ctx, 10*time.Second)
				messages, err := store.Receive(one, name, batch, lease)
				cancel()
				if err != nil || len(messages) == 0 {
					select {
					case <-time.After(2 * time.Second):
					case <-ctx.Done():
					}
					continue
				}
				var invocations sync.WaitGroup
				for _, m := range messages {
					invocations.Go(func() { w.invoke(ctx, t, p, name, m, maxDeliveries, lease, invoke) })
				}
				invocations.Wait()
			}
		})
	}
	running.Wait()
}

func (w *world) invoke(ctx context.Context, t testing.TB, p *storetest.Process, name string, m queue.Message, maxDeliveries int64, lease time.Duration, invoke func(context.Context, customhandler.QueueMessage) error) {
	if m.DequeueCount > maxDeliveries {
		t.Errorf("the host moves a message to its dead letters at delivery %d", m.DequeueCount)
	}
	store := p.Queues(w.queues)
	text, err := worker.TextOf(m.Body)
	if err != nil {
		text = m.Body
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	delivered := customhandler.QueueMessage{Text: text, ID: m.ID, DequeueCount: m.DequeueCount, Inserted: m.Inserted}
	// The host renews the lease meanwhile.
	renewing, stop := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	var mu sync.Mutex
	renewal.Go(func() {
		for {
			select {
			case <-time.After(lease / 2):
			case <-renewing.Done():
				return
			}
			one, cancel := context.WithTimeout(renewing, 5*time.Second)
			if renewed, err := store.Update(one, name, m, lease); err == nil {
				mu.Lock()
				m = renewed
				mu.Unlock()
			}
			cancel()
		}
	})
	err = invoke(ctx, delivered)
	stop()
	renewal.Wait()
	one, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	switch {
	case p.Dead():
	case err == nil:
		_ = store.Delete(one, name, m)
	case m.DequeueCount >= maxDeliveries:
		t.Errorf("the host moves a message to its dead letters: %v", err)
	default:
		_, _ = store.Update(one, name, m, time.Second)
	}
}

// letters returns the dead letters of a storage queue, by N.
func (w *world) letters(t testing.TB) map[int][]queue.Envelope {
	t.Helper()
	all := make(map[int][]queue.Envelope)
	rows, err := table.New(w.rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"orders", "jobs"} {
		claims, err := queue.NewKeptClaims(rows, w.blobs, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range w.queues.All(name + queue.PoisonSuffix) {
			text, err := worker.TextOf(m.Body)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			e, body, err := claims.Unpack(ctx, text)
			cancel()
			if errors.Is(err, queue.ErrClaimGone) && strings.Contains(e.Reason, "claim of the message is gone") {
				continue // a second copy, of a put whose reply was lost: the first one was done and took the claim
			}
			if err != nil {
				t.Errorf("dead letter %s: %v", text, err)
				continue
			}
			var o order
			if err := json.Unmarshal(body, &o); err != nil {
				o.N = -1
			}
			all[o.N] = append(all[o.N], e)
		}
	}
	return all
}

func (o order) text() []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprint("an order is no JSON: ", err))
	}
	return text
}

func inBase64(text string) string { return worker.InBase64(text) }
