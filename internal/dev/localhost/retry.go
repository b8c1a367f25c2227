package localhost

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
)

// A retryPolicy is "retry" of function.json, or of host.json for all functions
// without their own. The host repeats a failed invocation in the process. A
// queue message keeps its dequeue count meanwhile, so it is tried 1 + count
// times for each delivery.
type retryPolicy struct {
	count     int           // of repeats; unlimited if it is unlimitedRetries
	low, high time.Duration // the first delay, and the maximum; equal for fixedDelay
}

const unlimitedRetries = -1

// readRetry reads the policy in a file; nil if there is none.
func readRetry(file section) *retryPolicy {
	if _, ok := file.get("retry"); !ok {
		return nil
	}
	s := file.section("retry")
	required := []string{"maxRetryCount"}
	delay := func(name string) time.Duration {
		required = append(required, name)
		return s.duration(name, 0, 0, 24*24*time.Hour)
	}
	p := &retryPolicy{count: s.number("maxRetryCount", 0, unlimitedRetries, 1<<31-1)}
	switch strings.ToLower(s.text("strategy", "exponentialBackoff")) {
	case "fixeddelay":
		p.low = delay("delayInterval")
		p.high = p.low
	case "exponentialbackoff":
		if p.low, p.high = delay("minimumInterval"), delay("maximumInterval"); p.low > p.high {
			s.problem("minimumInterval", "at most maximumInterval")
		}
	default:
		s.problem("strategy", "fixedDelay or exponentialBackoff")
	}
	for _, name := range required {
		if _, ok := s.get(name); !ok {
			s.problem(name, "set")
		}
	}
	return p
}

// delay returns the pause before a repeat, which is counted from 1: the lowest
// one, then that plus about 1, 2, 4 … times itself, up to the highest.
func (p *retryPolicy) delay(repeat int) time.Duration {
	d := float64(p.low)
	if repeat > 1 {
		spread := 0.8 + 0.4*rand.Float64()
		d += spread * float64(p.low) * float64(uint64(1)<<min(repeat-2, 62))
	}
	return time.Duration(min(d, float64(p.high)))
}

// pause waits before a repeat. It returns false if the host stops meanwhile,
// which ends the repeats.
func (h *Host) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.stopping:
	case <-ctx.Done():
	}
	return false
}
