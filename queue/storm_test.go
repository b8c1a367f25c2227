package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestStorm refuses 30 % of all requests for a minute, while messages are
// published and worked on, some of them longer than their lease. No message and
// no lease is lost, each request is sent at most twice as often as needed, and
// the rate is back within ten seconds.
func TestStorm(t *testing.T) {
	const (
		begin, end = time.Minute, 2 * time.Minute
		lease      = 30 * time.Second
	)
	perSecond := storetest.Scale(10, 40)
	seed := storetest.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		random := chance.New(seed, "storm", 0)
		var mu sync.Mutex
		sent, refused := make(map[string]int), make(map[string]int)
		queues := newQueues(t, func(c memory.Call) memory.Fault {
			f := distant(c)
			if now := sinceBubble(); now < begin || now >= end {
				return f
			}
			mu.Lock()
			defer mu.Unlock()
			sent[c.Op]++
			if random.Below(10) < 3 {
				refused[c.Op]++
				f.Err, f.Lost = memory.ErrBusy, true
			}
			return f
		})
		var ran runs
		finished := make(map[int]int) // messages by the second of their end
		l := listen(t, queues, func(ctx context.Context, d queue.Delivery[string]) error {
			ran.begin(d.Body)
			work := 100 * time.Millisecond
			if d.Body[len(d.Body)-2:] == "00" {
				work = 3 * lease
			}
			err := takes(work)(ctx, d)
			mu.Lock()
			defer mu.Unlock()
			finished[int(sinceBubble()/time.Second)]++
			return err
		}, &queue.ListenerOptions{Lease: lease, MaxIdle: time.Second, Hands: 64})
		p := newPublisher(t, queues, nil)
		var publishing sync.WaitGroup
		messages := 0
		for sinceBubble() < 3*time.Minute {
			for range perSecond {
				body := fmt.Sprint("item ", messages)
				messages++
				publishing.Go(func() {
					for p.Publish(t.Context(), "work", body, 0) != nil {
						// Nothing is promised before a put succeeds.
					}
				})
			}
			time.Sleep(time.Second)
		}
		publishing.Wait()
		await(t, 10*time.Minute, drained(queues, "work"))
		l.end()
		s := l.state()
		if s.LeasesLost > 0 || s.Returned > 0 {
			t.Errorf("%+v: leases were lost", s)
		}
		worst := 0.0
		for op, n := range sent {
			if n >= 100 { // of fewer, by chance more than half are refused
				worst = max(worst, float64(n)/float64(n-refused[op]))
			}
		}
		var rate float64
		for second := int((end + 10*time.Second) / time.Second); second < 180; second++ {
			rate += float64(finished[second]) / float64(180-int((end+10*time.Second)/time.Second))
		}
		lost := 0
		for _, body := range items(messages) {
			if ran.of(body) == 0 {
				lost++
			}
		}
		t.Logf("figure: 30 %% of requests refused for 60 s: messages lost (%d messages) | %d | 0", messages, lost)
		t.Logf("figure: 30 %% of requests refused for 60 s: leases lost (%d renewals) | %d | 0", s.Requests["update"], s.LeasesLost)
		t.Logf("figure: 30 %% of requests refused for 60 s: requests of one kind sent, at most | %.2f × those needed | ≤ 2 ×", worst)
		t.Logf("figure: 30 %% of requests refused for 60 s: rate from 10 s after the end | %.0f %% of the rate before | ≥ 90 %%", 100*rate/float64(perSecond))
		if lost > 0 || worst > 2 || rate < 0.9*float64(perSecond) {
			t.Errorf("%d lost, %.2f × requests, %.1f messages a second after the storm", lost, worst, rate)
		}
	})
}
