package parts

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/apptest"
	"kennel/internal/customhandler"
	"kennel/internal/memory"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/storetest"
	"kennel/internal/worker"
	"kennel/queue"
	"kennel/work"
)

// outage is how long writes to queues fail in tests.
const outage = 20 * time.Minute

// failingQueues are queues whose writes fail while the switch is on: puts alone,
// or all.
func failingQueues(fault memory.Fault, writes ...string) (*memory.Queues, *atomic.Bool) {
	var fails atomic.Bool
	return memory.NewQueues(&memory.Options{Fault: func(c memory.Call) memory.Fault {
		if fails.Load() && slices.Contains(writes, c.Op) {
			return fault
		}
		return memory.Fault{Delay: 10 * time.Millisecond}
	}}), &fails
}

// failing are writes that fail, and how.
type failing struct {
	fault  memory.Fault
	writes []string
}

var outages = map[string]failing{
	"puts refused":    {memory.Fault{Err: memory.ErrBusy, Lost: true}, []string{"Put"}},
	"puts unanswered": {memory.Fault{Lost: true}, []string{"Put"}},
	"all refused":     {memory.Fault{Err: memory.ErrBusy, Lost: true}, []string{"Put", "Update", "Delete"}},
	"all unanswered":  {memory.Fault{Lost: true}, []string{"Put", "Update", "Delete"}},
}

// someOutages returns one of them, and all in make prove.
func someOutages() map[string]failing {
	if storetest.Proving() {
		return outages
	}
	name := slices.Sorted(maps.Keys(outages))[rand.N(len(outages))]
	return map[string]failing{name: outages[name]}
}

// submitted submits a batch that is spread over the partitions.
func (m *memoryBatches) submitted(t *testing.T, items string) work.Batch {
	t.Helper()
	opened, err := m.open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, _, err := opened.batches.Submit(ctx, work.Submission{Processor: "billing", Body: strings.NewReader(items)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ends waits until a batch is done and its queues are empty, and returns how
// long that took.
func (m *memoryBatches) ends(t *testing.T, id string, limit time.Duration) time.Duration {
	t.Helper()
	opened, err := m.open()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for time.Since(began) < limit {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		b, err := opened.batches.Get(ctx, id)
		cancel()
		if err == nil && b.State == work.Done && b.Done == b.Items {
			return time.Since(began)
		}
		time.Sleep(time.Second)
	}
	t.Errorf("the batch is not done %v after the outage", limit)
	return limit
}

// noLetters checks that no queue of batches has dead letters.
func noLetters(t *testing.T, queues *memory.Queues) {
	t.Helper()
	for _, name := range append(WorkQueues(4), names.CleanupQueue) {
		if dead := queues.All(name + queue.PoisonSuffix); len(dead) > 0 {
			t.Errorf("%d dead letters of %s, such as %.300s", len(dead), name, dead[0].Body)
		}
	}
}

// TestOutageOfWorker lets the writes of queues fail for 20 minutes while a worker
// works on a batch and on the deletion of a channel. Nothing becomes a dead
// letter, and both are done soon after. A message that cannot be read becomes
// one then.
func TestOutageOfWorker(t *testing.T) {
	t.Parallel()
	for name, o := range someOutages() {
		synctest.Test(t, func(t *testing.T) {
			queues, fails := failingQueues(o.fault, o.writes...)
			f := newFakeWorker(t, queues, memory.NewTable(nil), nil)
			c := f.channel(t, "news")
			b := f.batches.submitted(t, apptest.Items(2000))
			f.put(t, worker.InBase64(apptest.DeletionOf(c)))
			fails.Store(true)
			time.Sleep(outage)
			noLetters(t, queues)
			fails.Store(false)
			took := f.batches.ends(t, b.ID, 5*time.Minute)
			if d, err := f.channels.Deletion(t.Context(), c.Name, c.Incarnation); err != nil || d.State != channels.Done {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
			time.Sleep(5 * time.Minute)
			noLetters(t, queues)
			if n := len(queues.All(names.CleanupQueue)); n > 0 {
				t.Errorf("%s: %d messages are left", name, n)
			}
			t.Logf("%s: done %v after the outage", name, took)
			if _, err := queues.Put(t.Context(), work.ExpressQueue, worker.InBase64("hello"), 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			dead := queues.All(work.ExpressQueue + queue.PoisonSuffix)
			if len(dead) != 1 {
				t.Fatalf("%s: %d dead letters, want the message that cannot be read", name, len(dead))
			}
			text, _ := worker.TextOf(dead[0].Body)
			if e, err := queue.Parse(text); err != nil || !e.Raw || !strings.Contains(e.Reason, work.ErrMessage.Error()) {
				t.Errorf("%s: dead letter %.300s, %v", name, text, err)
			}
			f.end(t)
		})
	}
}

// fakeHost delivers messages as the Functions host does with this app's
// host.json.
type fakeHost struct {
	t       *testing.T
	queues  *memory.Queues
	running sync.WaitGroup
}

// serve calls the function of a queue until ctx ends.
func (h *fakeHost) serve(ctx context.Context, name string, do func(context.Context, customhandler.QueueMessage) error) {
	slots := make(chan struct{}, 24)
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, 30*time.Second)
		messages, _ := h.queues.Receive(one, name, 16, 10*time.Minute)
		cancel()
		for _, m := range messages {
			slots <- struct{}{}
			h.running.Go(func() {
				defer func() { <-slots }()
				h.deliver(ctx, name, m, do)
			})
		}
		time.Sleep(2 * time.Second)
	}
}

func (h *fakeHost) deliver(ctx context.Context, name string, m queue.Message, do func(context.Context, customhandler.QueueMessage) error) {
	text, err := worker.TextOf(m.Body)
	if err != nil {
		h.t.Error(err)
	}
	if m.DequeueCount <= observe.MaxDeliveries {
		one, cancel := context.WithTimeout(ctx, 4*time.Minute+30*time.Second)
		err = do(one, customhandler.QueueMessage{Text: text, ID: m.ID, DequeueCount: m.DequeueCount, Inserted: m.Inserted})
		cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	switch {
	case err == nil && m.DequeueCount <= observe.MaxDeliveries:
		_ = h.queues.Delete(ctx, name, m)
	case m.DequeueCount >= observe.MaxDeliveries:
		if _, err := h.queues.Put(ctx, name+queue.PoisonSuffix, m.Body, 0); err == nil {
			_ = h.queues.Delete(ctx, name, m)
		}
	default:
		_, _ = h.queues.Update(ctx, name, m, 30*time.Second)
	}
}

// TestOutageOfHost is TestOutageOfWorker for the functions of an app, with the
// deliveries of the host. The writes of tables fail too.
func TestOutageOfHost(t *testing.T) {
	t.Parallel()
	for name, o := range someOutages() {
		synctest.Test(t, func(t *testing.T) {
			queues, fails := failingQueues(o.fault, o.writes...)
			m := newMemoryBatches(t, queues, &memory.Options{Fault: func(c memory.Call) memory.Fault {
				if fails.Load() && c.Op == "Submit" { // of results: a parcel puts no message
					return o.fault
				}
				return memory.Fault{}
			}})
			b := m.submitted(t, apptest.Items(2000))
			ctx, stop := context.WithCancel(t.Context())
			host := &fakeHost{t: t, queues: queues}
			var serving sync.WaitGroup
			for _, name := range WorkQueues(m.partitions) {
				serving.Go(func() { host.serve(ctx, name, m.parcels(name)) })
			}
			fails.Store(true)
			time.Sleep(outage)
			fails.Store(false)
			took := m.ends(t, b.ID, 11*time.Minute) // the host's own lease is of ten minutes
			noLetters(t, queues)
			t.Logf("%s: done %v after the outage", name, took)
			if _, err := queues.Put(t.Context(), work.ExpressQueue, worker.InBase64("hello"), 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if dead := queues.All(work.ExpressQueue + queue.PoisonSuffix); len(dead) != 1 {
				t.Errorf("%s: %d dead letters, want the message that cannot be read", name, len(dead))
			}
			stop()
			serving.Wait()
			host.running.Wait()
		})
	}
}

// TestHeldByHost: each delivery by the host of a message at a closed gate puts one
// copy back, so that the messages do not become more.
func TestHeldByHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var puts atomic.Int64
		queues := memory.NewQueues(&memory.Options{Fault: func(c memory.Call) memory.Fault {
			if c.Op == "Put" {
				puts.Add(1)
			}
			return memory.Fault{}
		}})
		m := newMemoryBatches(t, queues, nil, "KENNEL_WORK_GATE=billing")
		defer m.runs(t)()
		b := m.submitted(t, apptest.Items(3))
		ctx, stop := context.WithCancel(t.Context())
		host := &fakeHost{t: t, queues: queues}
		var serving sync.WaitGroup
		serving.Go(func() { host.serve(ctx, work.ExpressQueue, m.parcels(work.ExpressQueue)) })
		time.Sleep(time.Hour)
		if n := puts.Load(); n > 22 { // one in three minutes
			t.Errorf("one message was put %d times in an hour", n)
		}
		m.release(t)
		m.ends(t, b.ID, 5*time.Minute)
		noLetters(t, queues)
		stop()
		serving.Wait()
		host.running.Wait()
	})
}

// TestNoAttempt: only what a message itself is the reason for uses up attempts.
func TestNoAttempt(t *testing.T) {
	ofJobs := slices.Concat(ofBatch, ofDeletion)
	for _, own := range slices.Concat(worker.OfMessage, ofJobs) {
		if err := worker.NoAttempt(fmt.Errorf("collect: %w", own), ofJobs...); err == nil || strings.Contains(err.Error(), queue.ErrNoAttempt.Error()) {
			t.Errorf("%v: %v", own, err)
		}
	}
	if worker.NoAttempt(nil) != nil {
		t.Error("work that is done has an error")
	}
}
