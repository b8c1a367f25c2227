package gate_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

const crowdSize = 1000

// crowd is a thousand processes with a waiter each, started within the same
// 10 ms, before one blob that serves 500 requests a second, 50 ms away. Its
// gate was released and closed before.
type crowd struct {
	t       *testing.T
	store   *memory.Values
	signals gate.Signals // nil if there are none
	begin   time.Time
	stop    func()
	running sync.WaitGroup

	mu     sync.Mutex
	reads  []time.Duration // when requests were sent, since begin
	passed []time.Duration // when waiters passed, since begin
}

func newCrowd(t *testing.T, signals gate.Signals) *crowd {
	c := &crowd{t: t, signals: signals, begin: time.Now()}
	line := &memory.Line{PerSecond: 500, RoundTrip: 50 * time.Millisecond}
	c.store = memory.NewValues(&memory.Options{Fault: func(call memory.Call) memory.Fault {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reads = append(c.reads, time.Since(c.begin))
		return line.Fault(call)
	}})
	change(t, c.store, nil, true)
	change(t, c.store, nil, false)
	c.begin, c.reads = time.Now(), nil
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	rng := rand.New(rand.NewPCG(1, 2))
	for range crowdSize {
		g := newGates(t, c.store, &gate.Options{Signals: signals})
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

// busiest returns the most requests that were sent within any window, of those
// between two times, and their number per window on average.
func (c *crowd) busiest(from, to, window time.Duration) (most int, mean float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := slices.DeleteFunc(slices.Clone(c.reads), func(at time.Duration) bool { return at < from || at >= to })
	slices.Sort(sent)
	first := 0
	for i, at := range sent {
		for at-sent[first] >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most, float64(len(sent)) / float64(to-from) * float64(window)
}

// release releases the gate, lets all waiters pass, and returns when they did,
// since the release, in order.
func (c *crowd) release() []time.Duration {
	change(c.t, c.store, &gate.Options{Signals: c.signals}, true)
	past := c.store.Past("start")
	released := past[len(past)-1].At.Sub(c.begin)
	time.Sleep(40 * time.Second)
	c.stop()
	c.running.Wait()
	c.store.Wait()
	slices.Sort(c.passed)
	if len(c.passed) != crowdSize {
		c.t.Fatalf("%d waiters have passed, want %d", len(c.passed), crowdSize)
	}
	for i := range c.passed {
		c.passed[i] -= released
	}
	return c.passed
}

// figure prints a figure and compares it with its bar.
func (c *crowd) figure(what, format string, got, bar float64) {
	c.t.Logf("figure: %s | "+format+" | ≤ "+format, what, got, bar)
	if got > bar {
		c.t.Errorf("%s: "+format+", want at most "+format, what, got, bar)
	}
}

// A thousand processes that receive signals, most after 50 ms, some after ten
// times that: idle, at a release and after it.
func TestCrowdWithSignals(t *testing.T) {
	for _, lost := range []int{0, 100}[:storetest.Scale(1, 2)] { // every hundredth process gets no signals
		synctest.Test(t, func(t *testing.T) {
			rng, mu := rand.New(rand.NewPCG(3, 4)), sync.Mutex{}
			c := newCrowd(t, memory.NewSignals(&memory.SignalOptions{
				Connect: time.Second,
				Fault: func(listener int, _ gate.Signal) memory.SignalFault {
					mu.Lock()
					defer mu.Unlock()
					delay := time.Duration(math.Exp(-3+0.6*rng.NormFloat64()) * float64(time.Second))
					return memory.SignalFault{Delay: delay, Lost: lost > 0 && listener%lost == 0}
				},
			}))
			idle := time.Duration(storetest.Scale(2, 5)) * time.Minute
			time.Sleep(idle)
			_, mean := c.busiest(time.Minute, idle, time.Second)
			busiest, _ := c.busiest(time.Minute, idle, 100*time.Millisecond)
			passed := c.release()
			if lost > 0 {
				c.figure("1,000 idle processes of which ten get no signal: p99 of passing after a release, in seconds", "%.2f", passed[crowdSize*99/100-1].Seconds(), 2.5)
				c.figure("1,000 idle processes of which ten get no signal: the last that passes, in seconds", "%.2f", passed[crowdSize-1].Seconds(), 33.05)
				return
			}
			c.figure("1,000 idle processes that receive signals, started within 10 ms: reads a second", "%.0f", mean, 40)
			c.figure("1,000 idle processes that receive signals: reads in the busiest 100 ms, in which the blob serves 50", "%.0f", float64(busiest), 25)
			c.figure("1,000 idle processes that receive signals: p50 of passing after a release, in seconds", "%.2f", passed[crowdSize/2].Seconds(), 1.3)
			c.figure("1,000 idle processes that receive signals: the last that passes, in seconds", "%.2f", passed[crowdSize-1].Seconds(), 2.5)
		})
	}
}

// A thousand processes that poll.
func TestCrowdThatPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, nil)
		polls := time.Duration(storetest.Scale(25, 70)) * time.Second
		time.Sleep(polls)
		busiest, mean := c.busiest(10*time.Second, polls, 100*time.Millisecond)
		c.figure("1,000 processes that poll, started within 10 ms: reads in the busiest 100 ms, in multiples of the mean", "%.2f", float64(busiest)/mean, 2)
		passed := c.release()
		second, _ := c.busiest(10*time.Second, polls+5*time.Second, time.Second)
		c.figure("1,000 processes that poll: requests in the busiest second, a release included", "%.0f", float64(second), 500)
		c.figure("1,000 processes that poll: p50 of passing after a release, in seconds", "%.2f", passed[crowdSize/2].Seconds(), 1.5)
		c.figure("1,000 processes that poll: the last that passes, in seconds", "%.2f", passed[crowdSize-1].Seconds(), (often + often/10 + 50*time.Millisecond).Seconds())
	})
}
