package customhandler

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestRunningCalls proves that each call is given up exactly at its limit,
// unless it has ended, in whatever order the calls end; and that the timer is
// gone once no call runs.
func TestRunningCalls(t *testing.T) {
	const limit = time.Minute
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			began := time.Now()
			type call struct {
				runningCall
				lasts time.Duration
				over  time.Time // guarded by the bubble: read once all is idle
			}
			byRunning := make(map[*runningCall]*call)
			calls := &runningCalls{}
			calls.overdue = func(c *runningCall) { byRunning[c].over = time.Now() }
			var all []*call
			for range 40 {
				c := &call{lasts: time.Duration(random.Int64N(int64(2*limit))) | 1}
				all = append(all, c)
				byRunning[&c.runningCall] = c
			}
			for _, c := range all {
				time.Sleep(time.Duration(random.Int64N(int64(limit / 4))))
				c.until = time.Now().Add(limit)
				calls.add(&c.runningCall)
				time.AfterFunc(c.lasts, func() { calls.remove(&c.runningCall) })
			}
			time.Sleep(3 * limit)
			synctest.Wait()
			for i, c := range all {
				var want time.Time
				if c.lasts > limit {
					want = c.until
				}
				if !c.over.Equal(want) {
					t.Errorf("seed %d, call %d, which lasts %v: given up at %v, want %v", seed, i, c.lasts, c.over.Sub(began), want.Sub(began))
				}
			}
			if calls.oldest != nil || calls.newest != nil || calls.watched {
				t.Errorf("seed %d: after all calls %+v, want no call and no timer", seed, calls)
			}
		})
	}
}

// BenchmarkRunningCalls is the cost of the limit of a call.
func BenchmarkRunningCalls(b *testing.B) {
	calls := &runningCalls{overdue: func(*runningCall) { panic("given up") }}
	for b.Loop() {
		c := &runningCall{until: time.Now().Add(time.Hour)}
		calls.add(c)
		calls.remove(c)
	}
}
