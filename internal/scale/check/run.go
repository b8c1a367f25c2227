package check

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kennel/internal/instances"
	"kennel/internal/scale"
	"kennel/internal/table"
)

const (
	// every is the interval of checks.
	every = time.Minute

	// minPause is the time between two checks, at least, so that one that is a
	// little early counts. A process that did not make the last check waits for
	// standbyPause, so that the same process goes on.
	minPause     = 45 * time.Second
	standbyPause = 90 * time.Second

	// runTimeout limits one check.
	runTimeout = 30 * time.Second
)

// Loop checks until ctx ends. If another process checks, it only looks every few
// minutes whether that one still does, so that many processes cost little.
func (c *Check) Loop(ctx context.Context) error {
	pause := standbyPause
	for wait := rand.N(every); table.Pause(ctx, wait) == nil; {
		ran, err := c.run(ctx, pause)
		if err != nil && ctx.Err() == nil {
			c.opt.Log.WarnContext(ctx, "cannot check scaling; trying again later", "error", err.Error())
		}
		if wait, pause = every, minPause; !ran && err == nil {
			wait, pause = 2*every+rand.N(2*every), standbyPause
		}
	}
	return nil
}

// Run checks, unless a check began or ended lately. It reports whether it did.
func (c *Check) Run(ctx context.Context) (ran bool, err error) { return c.run(ctx, minPause) }

// run checks, unless the last check wrote its row within a time.
func (c *Check) run(ctx context.Context, pause time.Duration) (ran bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	last, at, err := c.load(ctx)
	if err != nil {
		return false, err
	}
	if at.Sub(last.writtenAt) < pause {
		if last.rules != nil {
			c.inUse.Store(last.rules)
		}
		return false, nil
	}
	skew := time.Since(at)
	if last.version, err = c.claim(ctx, last); err != nil {
		return false, notOther(err)
	}
	facts, err := c.read(ctx)
	if err != nil {
		return false, fmt.Errorf("read the queues and instances: %w", err)
	}
	reading := c.readingOf(at, facts)
	correct(&reading, skew)
	for _, s := range reading.Samples {
		if s.Ready > 0 && !s.Held {
			c.opt.Wake(s.Queue)
		}
	}
	rules, err := c.rules.load(ctx)
	if err != nil {
		return false, err
	}
	c.inUse.Store(&rules)
	advice, state := scale.Advise(rules, last.state, reading)
	last.state, last.rules, last.record = state, &rules, c.record(reading, advice, facts, last.record.Outcome)
	if last.version, err = c.keep(ctx, last); err != nil {
		return false, notOther(err)
	}
	c.opt.Log.DebugContext(ctx, "scaling checked", "instances", advice.Instances, "running", reading.Instances, "reason", advice.Reason)
	return true, errors.Join(c.apply(ctx, last, advice.Instances), c.sweep(ctx, at))
}

// Problems returns the problems that the rules are invalid and that the target
// denies a right, if this process met them lately.
func (c *Check) Problems() []instances.Problem {
	var all []instances.Problem
	for _, p := range c.rules.invalid.All() {
		all = append(all, instances.Problem{Code: instances.RulesInvalid, Since: p.Since, Count: 1,
			What: fmt.Sprintf("The last valid rules of scaling are used instead of those that are stored: %v.", p.Cause)})
	}
	for target, p := range c.denied.All() {
		all = append(all, instances.Problem{Code: instances.ScaleDenied, Subject: target, Since: p.Since, Count: p.Count,
			What: fmt.Sprintf("The advice on scaling has no effect: %s.", p.Cause)})
	}
	return all
}
