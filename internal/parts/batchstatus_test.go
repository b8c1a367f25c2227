package parts

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/work"
)

// TestPartitionMismatch: another number of staged functions, and messages in a
// queue that the setting does not have, are one problem.
func TestPartitionMismatch(t *testing.T) {
	queues := memory.NewQueues(nil)
	m := newMemoryBatches(t, queues, nil, "KENNEL_PARTITIONS=2")
	app := fstest.MapFS{}
	for _, name := range []string{"host.json", "ProcessWork/function.json", "ProcessWork1/function.json", "ProcessWorkExpress/function.json"} {
		app[name] = &fstest.MapFile{}
	}
	m.checkStaged(fstest.MapFS{"ProcessWork/function.json": {}})                            // a folder that is no app
	m.checkStaged(fstest.MapFS{"host.json": {}, "functions/ProcessWork/function.json": {}}) // the source
	m.checkStaged(app)
	if problems := m.Problems(); len(problems) > 0 {
		t.Errorf("problems %+v, want none", problems)
	}
	app["ProcessWork2/function.json"] = &fstest.MapFile{}
	m.checkStaged(app)
	put := func(queue string) {
		if _, err := queues.Put(t.Context(), queue, "x", 0); err != nil {
			t.Fatal(err)
		}
	}
	put("work-1")
	put("work-2")
	put("work-2-poison")
	samples, err := m.Sample(t.Context())
	if err != nil || len(samples) != 2 || samples["work-1"].Ready != 1 || samples["work-2"].Poison != 1 {
		t.Errorf("samples %+v, %v", samples, err)
	}
	problems := m.Problems()
	if len(problems) != 2 || problems[0].Code != instances.DeadLetters || problems[1].Code != instances.PartitionMismatch ||
		problems[1].What != "KENNEL_PARTITIONS is 2, and the app was packaged with 3. KENNEL_PARTITIONS is 2, and these queues have messages: work-2." {
		t.Errorf("problems %+v", problems)
	}
}

// TestLateBatch: a batch that is late is a problem after a sweep, until one
// finds that it is done.
func TestLateBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryBatches(t, memory.NewQueues(nil), nil)
		host := apiOf(t, m)
		sent := m.call(t, host, "POST", "/api/batches?processor=billing", apptest.Items(3))
		sweep := func() []instances.Problem {
			if err := m.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			return m.Problems()
		}
		time.Sleep(10 * time.Minute)
		if problems := sweep(); len(problems) > 0 {
			t.Errorf("before the target: %+v", problems)
		}
		time.Sleep(10 * time.Minute)
		problems := sweep()
		if len(problems) != 1 || problems[0].Code != instances.BatchLate || !strings.Contains(problems[0].What, sent.ID+" has results of 0 of 3 items, 5m0s after") {
			t.Errorf("after the target: %+v", problems)
		}
		time.Sleep(time.Hour)
		if problems := m.Problems(); len(problems) > 0 {
			t.Errorf("long after the last sweep: %+v", problems)
		}
		m.deliver(t)
		if problems := sweep(); len(problems) > 0 {
			t.Errorf("done: %+v", problems)
		}
	})
}

// TestHeldBatch: messages wait at the closed gate without using up attempts, a
// batch that is held is not late, and a release continues it at once.
func TestHeldBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryBatches(t, memory.NewQueues(nil), nil, "KENNEL_WORK_GATE=billing")
		host := apiOf(t, m)
		stop := m.runs(t)
		defer stop()
		sent := m.call(t, host, "POST", "/api/batches?processor=billing", apptest.Items(3))
		if sent.State != work.Held {
			t.Errorf("submitted while the gate is closed: %s", sent.Body)
		}
		delivered := make(chan struct{})
		go func() {
			defer close(delivered)
			m.deliver(t)
		}()
		time.Sleep(time.Hour)
		if held := m.call(t, host, "GET", "/api/batches/"+sent.ID, ""); held.State != work.Held || held.Done != 0 || held.LateBy != 0 {
			t.Errorf("after an hour at the gate: %s", held.Body)
		}
		var r instances.Report
		m.meter.Facts(&r)
		if w := instances.WorkSection.Of(r)[work.ExpressQueue]; w.Returned == 0 || w.Done+w.Retried+w.DeadLetters > 0 {
			t.Errorf("%+v, want messages that were put back", w)
		}
		if dead := m.queues.All(work.ExpressQueue + "-poison"); len(dead) > 0 {
			t.Errorf("%d dead letters", len(dead))
		}
		m.release(t)
		<-delivered
		done := m.call(t, host, "GET", "/api/batches/"+sent.ID, "")
		if done.State != work.Done || done.Done != 3 || done.LateBy != 0 {
			t.Errorf("after the release: %s", done.Body)
		}
	})
}

// TestWorkGate: a gate in use is read from memory, and noticed when it opens and
// closes; one that is not in use is not read.
func TestWorkGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryBatches(t, memory.NewQueues(nil), nil, "KENNEL_WORK_GATE=billing")
		if _, err := m.open(); err != nil {
			t.Fatal(err)
		}
		stop := m.runs(t)
		defer stop()
		opened := func() bool {
			at, err := m.gate.Opened(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return !at.IsZero()
		}
		if opened() {
			t.Error("a gate without a document is open")
		}
		m.release(t)
		if !opened() {
			t.Error("a release by this process is not known")
		}
		for range 1000 {
			opened()
		}
		time.Sleep(time.Second)
		before := m.flags.Calls()
		for range 1000 {
			opened()
		}
		if n := m.flags.Calls() - before; n > 0 {
			t.Errorf("%d requests for a gate that is watched", n)
		}
		m.closeElsewhere(t)
		time.Sleep(5 * time.Second) // two polls
		if opened() {
			t.Error("another process closed the gate, which is not noticed")
		}
		time.Sleep(10 * time.Minute)
		before = m.flags.Calls()
		time.Sleep(time.Hour)
		if n := m.flags.Calls() - before; n > 0 {
			t.Errorf("%d requests for a gate that is not in use", n)
		}
	})
}

// TestHeldSample: a sample marks the queues of parcels with messages that are
// ready while the work gate is closed, or cannot be read. The gate is read only
// then, and is not watched for it.
func TestHeldSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		m := newMemoryBatches(t, memory.NewQueues(nil), &memory.Options{Fault: func(memory.Call) memory.Fault {
			if fails.Load() {
				return memory.Fault{Lost: true, Err: errors.New("storage is down")}
			}
			return memory.Fault{}
		}}, "KENNEL_WORK_GATE=billing")
		if _, err := m.open(); err != nil {
			t.Fatal(err)
		}
		stop := m.runs(t)
		defer stop()
		put := func(queue string) {
			if _, err := m.queues.Put(t.Context(), queue, "message", 0); err != nil {
				t.Fatal(err)
			}
		}
		held := func() string {
			samples, err := m.Sample(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(samples, func(_ string, s instances.QueueSample) bool { return !s.Held })
			return strings.Join(slices.Sorted(maps.Keys(samples)), " ")
		}
		if got := held(); got != "" || m.flags.Calls() != 0 {
			t.Errorf("held %q, %d reads of the gate, want none: no parcel waits", got, m.flags.Calls())
		}
		put("work-0")
		put(work.ExpressQueue)
		if got := held(); got != "work-0 work-express" {
			t.Errorf("held %q, want the queues of parcels", got)
		}
		before := m.flags.Calls()
		time.Sleep(time.Hour)
		if n := m.flags.Calls() - before; n > 0 {
			t.Errorf("the gate was read %d times without a sample", n)
		}
		m.release(t)
		if got := held(); got != "" {
			t.Errorf("held %q after the release", got)
		}
		fails.Store(true)
		if got := held(); got != "work-0 work-express" {
			t.Errorf("held %q, want the queues of parcels: the gate cannot be read", got)
		}
	})
}
