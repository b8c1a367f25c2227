package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

// A send takes at most the interval, one attempt and a second, whenever the
// attempts end and however long they may take.
func TestFailoverWithinOneAttempt(t *testing.T) {
	worst := -time.Hour
	for _, attempt := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second} {
		for _, f := range []fault{refuse, hang, storeHang, drop} {
			for interval := 500 * time.Millisecond; interval < 20*time.Second; interval += 700 * time.Millisecond {
				synctest.Test(t, func(t *testing.T) {
					p := newPair(t, relay.Options{Interval: &interval}.WithTimes(attempt, 0))
					defer p.close(t)
					p.primary.set(always(f))
					began := time.Now()
					r, err := p.send(5*time.Minute, "orders", text("a"))
					beyond := time.Since(began) - interval - attempt
					if err != nil || !r.Backlog || beyond > time.Second {
						t.Errorf("%v, interval %v, attempt %v: %+v, %v, %v after both", f, interval, attempt, r, err, beyond)
					}
					worst = max(worst, beyond)
				})
			}
		}
	}
	t.Logf("figure: failover beyond the interval and one attempt of 1 s, 2 s or 5 s, worst of 4 kinds of outage and 28 intervals | %v | ≤ 1s", worst.Round(time.Millisecond))
}

// A failed attempt at the start of the interval and none since do not show that
// the primary fails: the next send tries it.
func TestOneFailureIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: new(10 * time.Second)})
		defer p.close(t)
		for i := range 10 {
			p.primary.set(always(drop))
			p.send(50*time.Millisecond, "orders", text(fmt.Sprint(i)))
			p.primary.set(nil)
			time.Sleep(12 * time.Second)
			if r, err := p.send(time.Minute, "orders", text(fmt.Sprint(i))); err != nil || r.Backlog {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}
