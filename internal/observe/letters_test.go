package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/queue"
)

const poisonQueue = "work" + queue.PoisonSuffix

// TestDeadLetterCount: a process reports the letter that it puts, and the one
// that the host is about to move, at once; and none soon after they are gone.
func TestDeadLetterCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		queues := memory.NewQueues(&memory.Options{Fault: func(memory.Call) memory.Fault {
			if down.Load() {
				return memory.Fault{Err: errors.New("no connection"), Lost: true}
			}
			return memory.Fault{}
		}})
		d := &LetterCount{Queue: "work"}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.Recount(ctx, queues) })
		defer func() { cancel(); running.Wait() }()
		check := func(when string, want int64, since time.Time, reason string) {
			t.Helper()
			got := d.Problems()
			if want == 0 && len(got) > 0 || want > 0 && (len(got) != 1 || got[0].Count != want || got[0].Subject != "work" || !got[0].Since.Equal(since) || !strings.Contains(got[0].What, reason)) {
				t.Errorf("%s: problems %+v, want %d letters since %v and %q", when, got, want, since, reason)
			}
		}
		put := func() queue.Message {
			t.Helper()
			m, err := queues.Put(t.Context(), poisonQueue, "x", 0)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		sample := func() {
			t.Helper()
			if _, err := SampleQueue(t.Context(), queues, d); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour + 10*time.Second) // so that no later step is at the instant of a count
		check("at first", 0, time.Time{}, "")
		if got := queues.Calls(); got != 0 {
			t.Errorf("%d requests of a process that knows of no letter, want none", got)
		}

		// We put it, and another process removes it.
		m := put()
		began := time.Now()
		d.Added(errors.New("not JSON"), 0)
		check("put", 1, began, "The last reason that this process knows: not JSON.")
		time.Sleep(5 * time.Minute)
		check("still there", 1, began, "not JSON")
		if err := queues.Delete(t.Context(), poisonQueue, m); err != nil {
			t.Fatal(err)
		}
		down.Store(true)
		time.Sleep(time.Minute)
		check("storage does not respond", 1, began, "not JSON")
		down.Store(false)
		time.Sleep(31 * time.Second)
		check("removed by another process", 0, time.Time{}, "")

		d.Added(errors.New("panic: it is\nbroken\ngoroutine 7 [running]:\nmain.main()"), 0)
		check("a panic", 1, time.Now(), "The last reason that this process knows: panic: it is broken.")
		time.Sleep(time.Second)
		sample()
		check("gone", 0, time.Time{}, "")

		// The host moves it, a while after its last delivery has failed.
		began = time.Now()
		d.Added(errors.New("too long"), MoveTimeout)
		sample()
		check("not moved yet", 1, began, "too long")
		m = put()
		sample()
		check("moved", 1, began, "too long")
		queues.Delete(t.Context(), poisonQueue, m)
		time.Sleep(MoveTimeout)
		sample()
		check("removed", 0, time.Time{}, "")

		// Others put them.
		for range 3 {
			put()
		}
		began = time.Now()
		sample()
		check("sampled", 3, began, "Dead letters in queue work-poison: 3.")
		if what := d.Problems()[0].What; strings.Contains(what, "too long") {
			t.Errorf("%s, want no reason of a letter that is gone", what)
		}
	})
}

func TestSampleQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := memory.NewQueues(nil)
		d := &LetterCount{Queue: "work"}
		check := func(when string, want instances.QueueSample) {
			t.Helper()
			calls := queues.Calls()
			want.At = time.Now().UTC()
			if got, err := SampleQueue(t.Context(), queues, d); got != want || err != nil {
				t.Errorf("%s: %+v, %v, want %+v", when, got, err, want)
			}
			if got := queues.Calls() - calls; got != 3 {
				t.Errorf("%s: %d requests, want 3", when, got)
			}
		}
		put := func(name string, n int, delay time.Duration) {
			for range n {
				queues.Put(t.Context(), name, "x", delay)
			}
		}
		check("no queue", instances.QueueSample{})
		put("work", 5, 0)
		put("work", 2, time.Hour)
		put(poisonQueue, 4, 0)
		time.Sleep(90 * time.Second)
		queues.Receive(t.Context(), "work", 3, time.Hour)
		check("some", instances.QueueSample{Ready: 2, InFlight: 5, OldestSeconds: 90, Poison: 4})
		put("work", 30, 0)
		check("more than a peek shows", instances.QueueSample{Ready: 37, OldestSeconds: 90, Poison: 4})
	})
}

// TestMaxDeliveries: the host moves a message after as many deliveries as the
// handler expects.
func TestMaxDeliveries(t *testing.T) {
	text, err := os.ReadFile("../../host.json")
	if err != nil {
		t.Fatal(err)
	}
	var host struct {
		Extensions struct {
			Queues map[string]any
		}
	}
	if err := json.Unmarshal(text, &host); err != nil {
		t.Fatal(err)
	}
	if set := host.Extensions.Queues["maxDequeueCount"]; fmt.Sprint(set) != fmt.Sprint(MaxDeliveries) {
		t.Errorf("host.json has maxDequeueCount %v; that of the handler is %d", set, MaxDeliveries)
	}
}
