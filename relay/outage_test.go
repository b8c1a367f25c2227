package relay_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

// TestFailureMode01Outage lets producers send through an outage of each kind.
func TestFailureMode01Outage(t *testing.T) {
	var worst outage
	for _, f := range []fault{refuse, hang, drop, storeDrop, storeHang, internal} {
		for _, interval := range []time.Duration{0, 10 * time.Second, time.Minute} {
			t.Run(fmt.Sprint(f, interval), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := &outage{fault: f, interval: interval}
					o.run(t)
					worst.failover = max(worst.failover, o.failover)
					worst.failback = max(worst.failback, o.failback)
					worst.slow = max(worst.slow, o.slow)
				})
			})
		}
	}
	t.Logf("figure: failover beyond the interval, worst of 6 kinds of outage and intervals of 0, 10 s and 1 min | %v | ≤ 6s", worst.failover.Round(time.Millisecond))
	t.Logf("figure: failback after the primary answers again, worst of these | %v | ≤ 21s", worst.failback.Round(time.Millisecond))
	t.Logf("figure: sends while failed over, p99, worst of these (healthy: %v) | %v | ≤ %v", busLatency, worst.slow.Round(time.Millisecond), 2*busLatency+50*time.Millisecond)
}

// outage is one outage and what its sends saw.
type outage struct {
	fault    fault
	interval time.Duration

	mu              sync.Mutex
	failover        time.Duration // beyond the interval
	failback        time.Duration
	slow            time.Duration // p99 while failed over
	whileFailedOver []time.Duration
}

func (o *outage) run(t *testing.T) {
	const lasts, producers, messages = 2 * time.Minute, 8, 40
	p := newPair(t, &relay.Options{Interval: &o.interval})
	defer p.close(t)
	slack := 5*time.Second + time.Second // an attempt and a second
	if o.interval == 0 {
		slack = 5*time.Second + 100*time.Millisecond
	}
	var all sync.WaitGroup
	for i := range producers {
		all.Go(func() {
			for n := range messages {
				began := time.Now()
				failedOver := len(p.Status()) > 0 && p.Status()[0].State == relay.FailedOver
				id := fmt.Sprintf("%d-%d", i, n)
				if _, err := p.send(2*time.Minute, "orders", text(id)); err != nil {
					t.Errorf("message %s: %v", id, err)
				}
				took := time.Since(began)
				o.mu.Lock()
				if failedOver {
					o.whileFailedOver = append(o.whileFailedOver, took)
				}
				o.failover = max(o.failover, took-max(o.interval, 0))
				o.mu.Unlock()
				time.Sleep(4 * time.Second)
			}
		})
	}
	time.Sleep(10 * time.Second)
	p.primary.set(always(o.fault))
	time.Sleep(lasts)
	p.primary.set(nil)
	back := time.Now()
	for p.Status()[0].State != relay.Healthy {
		time.Sleep(100 * time.Millisecond)
	}
	o.failback = time.Since(back)
	all.Wait()
	o.slow = p99(o.whileFailedOver)
	if o.failover > slack {
		t.Errorf("a send took %v longer than the interval, more than %v", o.failover, slack)
	}
	if o.failback > 21*time.Second {
		t.Errorf("failback took %v, want at most two pings and a second", o.failback)
	}
	if o.slow > 2*busLatency+50*time.Millisecond {
		t.Errorf("p99 while failed over is %v", o.slow)
	}
	stats := p.Stats()
	if stats.Failovers != 1 || stats.Failbacks != 1 {
		t.Errorf("%d failovers and %d failbacks, want one of each", stats.Failovers, stats.Failbacks)
	}
	if stats.Backlog == 0 || stats.Primary+stats.Backlog != messages*producers {
		t.Errorf("stats: %+v", stats)
	}
	copies, found := 0, ids(p.primary.got("orders"))
	for _, q := range queues {
		for id, n := range ids(p.secondary.got(q)) {
			found[id] += n
		}
	}
	for _, n := range found {
		copies += n - 1
	}
	if len(found) != messages*producers {
		t.Errorf("%d messages arrived, want %d", len(found), messages*producers)
	}
	if int64(copies) > stats.Ambiguous {
		t.Errorf("%d duplicates, more than %d ambiguous attempts", copies, stats.Ambiguous)
	}
}

// p99 returns the 99th percentile.
func p99(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[(len(all)*99+99)/100-1]
}
