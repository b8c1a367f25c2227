package gate_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

const crowdSize = 1000

// crowd is a thousand processes with a waiter each, started within the same
// 10 ms, before one blob that serves 500 requests a second, 50 ms away.
type crowd struct {
	t       *testing.T
	store   *memory.Gates
	signals *memory.Signals // nil if there are none
	begin   time.Time
	stop    func()
	running sync.WaitGroup

	mu     sync.Mutex
	loads  []time.Duration // when requests were sent, since begin
	passed []time.Duration // when waiters passed, since begin
}

func newCrowd(t *testing.T, name string, signals *memory.Signals) *crowd {
	c := &crowd{t: t, signals: signals}
	line := &memory.Line{PerSecond: 500, RoundTrip: 50 * time.Millisecond}
	c.store = memory.NewGates(&memory.Options{Fate: func(call memory.Call) memory.Fate {
		c.mu.Lock()
		c.loads = append(c.loads, time.Since(c.begin))
		c.mu.Unlock()
		return line.Fate(call)
	}})
	c.begin = time.Now()
	c.release()
	if _, err := newGates(t, c.store, nil).Close(t.Context(), "start", gate.Change{By: "ann"}); err != nil {
		t.Error(err)
	}
	c.begin, c.loads = time.Now(), nil
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range crowdSize {
		o := &gate.Options{Instance: fmt.Sprintf(name, i)}
		if signals != nil {
			o.Signals = signals
		}
		g := newGates(t, c.store, o)
		late := time.Duration(rng.Int64N(int64(10 * time.Millisecond)))
		c.running.Go(func() { time.Sleep(late); g.Run(ctx) })
		c.running.Go(func() { time.Sleep(late); c.wait(ctx, g) })
	}
	return c
}

// wait waits and comes back until it has passed.
func (c *crowd) wait(ctx context.Context, g *gate.Gates) {
	for after := int64(gate.Now); ctx.Err() == nil; {
		w, err := g.Wait(ctx, "start", after, gate.MaxWait)
		if w.Passed {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.passed = append(c.passed, time.Since(c.begin))
			return
		}
		if err != nil && ctx.Err() == nil {
			c.t.Error(err)
		}
		after = w.Generation
	}
}

// release opens the gate and returns when that was.
func (c *crowd) release() time.Duration {
	o := &gate.Options{}
	if c.signals != nil {
		o.Signals = c.signals
	}
	if _, err := newGates(c.t, c.store, o).Release(c.t.Context(), "start", gate.Change{By: "ann"}); err != nil {
		c.t.Error(err)
	}
	past := c.store.Past("start")
	return past[len(past)-1].At.Sub(c.begin)
}

func (c *crowd) end() {
	c.stop()
	c.running.Wait()
	c.store.Wait()
}

// busiest returns the most requests that were sent within any window, of those
// from and up to given times.
func (c *crowd) busiest(from, to, window time.Duration) (most int) {
	sent := c.between(from, to)
	first := 0
	for i, at := range sent {
		for at-sent[first] >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// load is what reached the store for a while.
type load struct {
	mean    float64 // requests per second
	busiest int     // in the busiest 100 ms
}

// most is one and a half times the mean of 100 ms, in whole requests.
func (l load) most() int { return int(math.Ceil(1.5*l.mean/10 - 0.01)) }

// idle measures the load while nothing happens, when every look but the first
// is for a version that was seen before.
func (c *crowd) idle(from, to time.Duration) load {
	sent := len(c.between(from, to))
	const underWay = 100
	if seen, all := c.store.Unchanged(), int64(len(c.between(0, to))); seen < all-crowdSize-underWay {
		c.t.Errorf("%d of %d answers were without a body, want all but the first of each", seen, all)
	}
	return load{float64(sent) / (to - from).Seconds(), c.busiest(from, to, 100*time.Millisecond)}
}

func (c *crowd) between(from, to time.Duration) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sent []time.Duration
	for _, at := range c.loads {
		if at >= from && at < to {
			sent = append(sent, at)
		}
	}
	slices.Sort(sent)
	return sent
}

// A thousand waiters that hear signals: idle, at a release and after it.
func TestCrowdThatHearsSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A median of 50 ms, now and then ten times as much; every hundredth
		// is lost.
		rng, mu := rand.New(rand.NewPCG(3, 4)), sync.Mutex{}
		c := newCrowd(t, "instance-%d", memory.NewSignals(&memory.SignalOptions{
			Connect: time.Second,
			Fate: func(listener int, _ gate.Signal) memory.SignalFate {
				mu.Lock()
				defer mu.Unlock()
				delay := time.Duration(math.Exp(-3+0.6*rng.NormFloat64()) * float64(time.Second))
				return memory.SignalFate{Delay: delay, Lost: listener%100 == 0}
			},
		}))
		time.Sleep(5 * time.Minute)
		idle := c.idle(time.Minute, 5*time.Minute)
		t.Logf("figure: 1,000 idle waiters, started within 10 ms, that hear signals | %.0f conditional reads/s | ≤ 40", idle.mean)
		t.Logf("figure: … the busiest 100 ms | %d reads, %.2f × the mean | ≤ 1.5 ×, rounded up", idle.busiest, float64(idle.busiest)/idle.mean*10)
		if idle.mean > 40 || idle.busiest > idle.most() {
			t.Errorf("idle waiters make %.1f requests a second, %d in the busiest 100 ms", idle.mean, idle.busiest)
		}

		released := c.release()
		time.Sleep(time.Minute)
		after := c.busiest(released, released+time.Minute, time.Second)
		t.Logf("figure: … requests in the busiest second after a release | %d | ≤ 500", after)
		if after > 500 {
			t.Errorf("%d requests in the busiest second after a release, want at most 500", after)
		}
		c.end()
		slices.Sort(c.passed)
		if len(c.passed) != crowdSize {
			t.Fatalf("%d waiters have passed, want %d", len(c.passed), crowdSize)
		}
		p50, p99, worst := c.passed[crowdSize/2]-released, c.passed[crowdSize*99/100-1]-released, c.passed[crowdSize-1]-released
		t.Logf("figure: … passing after a release, 1 %% of the signals lost | p50 %v, p99 %v, worst %.1f s | ≤ 150 ms, 500 ms, 33.05 s",
			p50.Round(time.Millisecond), p99.Round(time.Millisecond), worst.Seconds())
		if p50 > 150*time.Millisecond || p99 > 500*time.Millisecond || worst > 33050*time.Millisecond {
			t.Errorf("passing took p50 %v, p99 %v, at worst %v", p50, p99, worst)
		}
	})
}

// A thousand waiters that only poll, before a gate that was released and shut
// before, so that looks are conditional.
func TestCrowdThatPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, "instance-%d", nil)
		time.Sleep(70 * time.Second)
		idle := c.idle(10*time.Second, 70*time.Second)
		t.Logf("figure: 1,000 waiters, started within 10 ms, that poll: the busiest 100 ms | %d reads, %.2f × the mean | ≤ 1.5 ×", idle.busiest, float64(idle.busiest)/idle.mean*10)
		if idle.busiest > idle.most() {
			t.Errorf("%d requests in the busiest 100 ms, %.1f a second on average: they come together", idle.busiest, idle.mean)
		}

		released := c.release()
		time.Sleep(5 * time.Second)
		second := c.busiest(10*time.Second, released+5*time.Second, time.Second)
		t.Logf("figure: … requests in the busiest second, a release included | %d | ≤ 500", second)
		if second > 500 {
			t.Errorf("%d requests in the busiest second, want at most 500", second)
		}
		c.end()
		slices.Sort(c.passed)
		if len(c.passed) != crowdSize {
			t.Fatalf("%d waiters have passed, want %d", len(c.passed), crowdSize)
		}
		worst := c.passed[crowdSize-1] - released
		t.Logf("figure: … passing after a release | p50 %.2f s, worst %.2f s | worst ≤ 2.80 s", (c.passed[crowdSize/2] - released).Seconds(), worst.Seconds())
		if worst > often+often/10+50*time.Millisecond {
			t.Errorf("passing took %v at worst", worst)
		}
	})
}

// Names that count nothing leave the turns to chance, and chance is not as
// even: that many would come together whatever their names were made of.
func TestCrowdWithRandomNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, "%x-instance", nil)
		time.Sleep(40 * time.Second)
		idle := c.idle(10*time.Second, 40*time.Second)
		t.Logf("figure: … the same with names without numbers | %d reads, %.2f × the mean | ≤ 1.75 × (chance)", idle.busiest, float64(idle.busiest)/idle.mean*10)
		if float64(idle.busiest) > 0.175*idle.mean {
			t.Errorf("%d requests in the busiest 100 ms, %.1f a second on average: that is no chance", idle.busiest, idle.mean)
		}
		c.end()
	})
}
