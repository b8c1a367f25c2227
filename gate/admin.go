package gate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The longest texts of a Change, in characters.
const (
	MaxBy     = 200
	MaxReason = 1000
)

const (
	triesToRead  = 4 // until a store that answers nothing is reported
	shortestWait = 50 * time.Millisecond
	longestWait  = 2 * time.Second
)

// Change says who changes a gate and why.
type Change struct {
	By     string // required; up to MaxBy characters
	Reason string // up to MaxReason characters

	// Force puts an end to a stored text that cannot be used. The beginning of
	// that text is kept in the history, and its generation and history are,
	// too, as far as they can be read. Where the text can be used, Force
	// changes nothing.
	Force bool
}

// Changed is what became of a gate.
type Changed struct {
	// Changed is false if the gate was already as it should be: nothing was
	// written then.
	Changed bool

	// State is how the gate is now. If others have changed it since, it is not
	// what it was changed to.
	State State

	// Unsignalled is why others may hear of the change only when they poll,
	// nil if they were told.
	Unsignalled error
}

// Release releases a gate, and with it everybody who waits there. Releasing a
// released gate changes nothing, but sends its signal again.
//
// It fails with ErrInvalid, ErrCorrupt, with ErrUnknown if the store could not
// be read, so that nothing was changed, or with ErrUnclear. The end of ctx is
// one of the last two, and its cause.
func (g *Gates) Release(ctx context.Context, gate string, c Change) (Changed, error) {
	return g.change(ctx, gate, released, c)
}

// Close shuts a gate. Who has passed has passed. It fails like Release.
func (g *Gates) Close(ctx context.Context, gate string, c Change) (Changed, error) {
	return g.change(ctx, gate, closed, c)
}

// State asks the store for the state of a gate, with its history. It fails
// with ErrInvalid, ErrCorrupt, or with ErrUnknown and, if that is why, the end
// of ctx.
func (g *Gates) State(ctx context.Context, gate string) (State, error) {
	if err := CheckName(gate); err != nil {
		return State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.opt.ChangeTimeout)
	defer cancel()
	var said error
	for try := range triesToRead {
		if try > 0 && g.pause(ctx, shortestWait<<try) != nil {
			break
		}
		var f Flag
		switch f, said = g.load(ctx, gate); {
		case said == nil:
			s, err := parse(gate, f.Text)
			if err != nil {
				return State{}, fmt.Errorf("read gate %q: %w", gate, err)
			}
			return s, nil
		case errors.Is(said, ErrNotFound):
			return State{Gate: gate}, nil
		}
	}
	return State{}, fmt.Errorf("read gate %q: %w: %w", gate, ErrUnknown, said)
}

func (g *Gates) change(ctx context.Context, gate, to string, by Change) (Changed, error) {
	if err := CheckName(gate); err != nil {
		return Changed{}, err
	}
	if err := by.check(); err != nil {
		return Changed{}, err
	}
	c := &change{
		gate: gate, to: to, by: by.By, reason: by.Reason, force: by.Force,
		op: rand.Text(), at: time.Now().UTC().Truncate(time.Millisecond), atLeast: g.highest(gate),
	}
	limited, cancel := context.WithTimeout(ctx, g.opt.ChangeTimeout)
	defer cancel()
	did, err := g.drive(limited, c)
	if err != nil {
		return Changed{}, fmt.Errorf("%s gate %q: %w", to, gate, err)
	}
	done := Changed{Changed: did == changed, State: c.state}
	if s, ok := c.signal(did); ok {
		done.Unsignalled = g.signal(ctx, s)
	}
	return done, nil
}

// drive sends what the change wants to send until it is done.
func (g *Gates) drive(ctx context.Context, c *change) (verdict, error) {
	tries, wait := 0, shortestWait
	for {
		old, next, write, err := c.request()
		if err != nil {
			return again, err
		}
		var did verdict
		var f Flag
		var said error
		if write {
			f, said = g.replace(ctx, c.gate, old, next)
			did = c.replaced(f, said)
		} else {
			f, said = g.load(ctx, c.gate)
			if did, err = c.loaded(f, said); err != nil {
				return again, err
			}
		}
		switch did {
		case changed, asItWas:
			return did, nil
		case again:
			continue
		case unclear:
			if tries++; tries == triesToRead && c.pending == nil {
				return again, fmt.Errorf("%w, and it was not changed: %w", ErrUnknown, said)
			}
		}
		if err := g.pause(ctx, wait); err != nil {
			if c.pending != nil {
				return again, fmt.Errorf("%w: %w; the store said last: %w", ErrUnclear, err, said)
			}
			return again, fmt.Errorf("%w, and it was not changed: %w; the store said last: %w", ErrUnknown, err, said)
		}
		wait = min(2*wait, longestWait)
	}
}

func (g *Gates) load(ctx context.Context, gate string) (Flag, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opt.CallTimeout)
	defer cancel()
	return g.store.Load(ctx, gate, "")
}

func (g *Gates) replace(ctx context.Context, gate string, old, next Flag) (Flag, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opt.CallTimeout)
	defer cancel()
	return g.store.Replace(ctx, gate, old, next)
}

// signal tells everybody of a change, this process first. It does so even if
// the caller has gone away, because the change is made.
func (g *Gates) signal(ctx context.Context, s Signal) error {
	listener{g}.Heard(s)
	if g.opt.Signals == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.CallTimeout)
	defer cancel()
	err := g.opt.Signals.Publish(ctx, s)
	if err != nil {
		g.opt.Log.WarnContext(ctx, "a gate was changed, and the signal could not be sent: others see it when they poll",
			"gate", s.Gate, "generation", s.Generation, "within", g.opt.PollRarely.String(), "error", err.Error())
	}
	return err
}

// plausible is how often a gate may have been released since the last look.
// Whoever sends a signal that tells of more shall not use up all generations.
const plausible = 1_000_000

// highest returns the highest generation that this process has seen.
func (g *Gates) highest(gate string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.watchers[gate]; w != nil {
		return min(w.state.Generation, w.stored.Generation+plausible)
	}
	return 0
}

func (c Change) check() error {
	switch by, reason := utf8.RuneCountInString(c.By), utf8.RuneCountInString(c.Reason); {
	case by == 0 || by > MaxBy:
		return fmt.Errorf("%w: the name of who changes the gate has %d characters: give 1 to %d", ErrInvalid, by, MaxBy)
	case reason > MaxReason:
		return fmt.Errorf("%w: the reason has %d characters: give up to %d", ErrInvalid, reason, MaxReason)
	case !utf8.ValidString(c.By) || !utf8.ValidString(c.Reason):
		return fmt.Errorf("%w: who changes the gate and why has to be UTF-8", ErrInvalid)
	case strings.ContainsFunc(c.By, unicode.IsControl):
		return fmt.Errorf("%w: the name of who changes the gate holds control characters", ErrInvalid)
	case strings.ContainsFunc(c.Reason, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return fmt.Errorf("%w: the reason holds control characters other than new lines and tabs", ErrInvalid)
	}
	return nil
}

// pause waits for a random time below bound, or until ctx ends.
func (g *Gates) pause(ctx context.Context, bound time.Duration) error {
	timer := time.NewTimer(g.jitter(bound))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
