package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/names"
	"kennel/internal/observe"
)

// TestMeter: running messages are hands, and what has ended counts with its
// time.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &observe.Meter{}
		facts := func() (r instances.Report) {
			m.Facts(&r)
			return r
		}
		work := m.Queue("work-0", func(context.Context, customhandler.QueueMessage) (observe.Ending, error) {
			time.Sleep(3 * time.Second)
			return observe.Done, nil
		})
		for range 4 {
			go work(t.Context(), customhandler.QueueMessage{Inserted: time.Now().Add(-2 * time.Second)})
		}
		synctest.Wait()
		if r := facts(); instances.HandsOf(r) != 4 || instances.RunningSection.Of(r)["work-0"] != 4 || r.Served.Count != 0 {
			t.Errorf("%+v, want four hands", r)
		}
		time.Sleep(4 * time.Second)
		m.HTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })).ServeHTTP(nil, nil)
		want := instances.Work{Done: 4, Ages: []int64{0, 0, 4, 0, 0, 0, 0, 0, 0, 0}, AgeSeconds: 8, HandSeconds: 12, Latencies: []int64{0, 0, 4, 0, 0, 0, 0, 0, 0, 0}}
		if got := instances.WorkSection.Of(facts()); len(got) != 1 || !cmp.Equal(got["work-0"], want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		if r := facts(); instances.HandsOf(r) != 0 || len(instances.RunningSection.Of(r)) != 0 || r.Served != (instances.Served{Count: 5, Seconds: 13}) {
			t.Errorf("%+v, want five invocations of 13 s", r)
		}
	})
}

// TestEndings: each message counts by what became of it, as the functions of the
// queues report it.
func TestEndings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := memory.NewQueues(nil)
		b := newMemoryBatches(t, queues, nil)
		c := inMemory(t, &bytes.Buffer{})
		c.meter = b.meter
		cleanUp := c.meter.Queue(names.CleanupQueue, c.cleanUp)
		parcels := b.parcels("work-0")
		broken := c.meter.Queue("broken", func(context.Context, customhandler.QueueMessage) (observe.Ending, error) {
			return observe.Done, errors.New("broken")
		})
		panics := c.meter.Queue("panics", func(context.Context, customhandler.QueueMessage) (observe.Ending, error) { panic("oh") })
		held := c.meter.Queue("held", func(context.Context, customhandler.QueueMessage) (observe.Ending, error) {
			time.Sleep(time.Minute) // which is no work
			return observe.PutBack, nil
		})
		for _, invocation := range []struct {
			run     func(context.Context, customhandler.QueueMessage) error
			message customhandler.QueueMessage
			fails   bool
		}{
			{cleanUp, customhandler.QueueMessage{Text: "not JSON", ID: "1", DequeueCount: 1}, false},
			{parcels, customhandler.QueueMessage{Text: "not JSON", ID: "1", DequeueCount: 1}, false},
			{broken, customhandler.QueueMessage{DequeueCount: observe.MaxDeliveries - 1}, true},
			{broken, customhandler.QueueMessage{DequeueCount: observe.MaxDeliveries}, true},
			{held, customhandler.QueueMessage{DequeueCount: 1}, false},
			{func(ctx context.Context, m customhandler.QueueMessage) (err error) {
				defer func() { err = fmt.Errorf("%v", recover()) }() // as the host's server does
				return panics(ctx, m)
			}, customhandler.QueueMessage{DequeueCount: 1}, true},
		} {
			if err := invocation.run(t.Context(), invocation.message); (err != nil) != invocation.fails {
				t.Errorf("%+v: %v", invocation.message, err)
			}
		}
		if n := b.meter.Messages(); n != 6 {
			t.Errorf("%d messages for the bill, want 6", n)
		}
		var r instances.Report
		b.meter.Facts(&r)
		none := make([]int64, 10) // their times are unknown
		want := map[string]instances.Work{
			names.CleanupQueue: {DeadLetters: 1, Ages: none, Latencies: none},
			"work-0":           {DeadLetters: 1, Ages: none, Latencies: none},
			"broken":           {Retried: 1, DeadLetters: 1, Ages: none, Latencies: none}, // the host moves it after the last delivery
			"held":             {Returned: 1, Ages: none, Latencies: none},
			"panics":           {Retried: 1, Ages: none, Latencies: none},
		}
		if diff := cmp.Diff(want, instances.WorkSection.Of(r)); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
	})
}
