package gate

import (
	"context"
	"crypto/rand"
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
	maxReadTries = 4                     // until a store that does not answer is reported
	minPause     = 50 * time.Millisecond // bound of the first random wait between two tries, which doubles …
	maxPause     = 2 * time.Second       // … up to this
)

// Change names who changes a gate and why.
type Change struct {
	By     string // required; up to MaxBy characters
	Reason string // up to MaxReason characters

	// Force replaces a document that cannot be used. The gate starts over with
	// one entry in its history, which keeps the beginning of the old text; its
	// next release is greater than every one before. If the document can be
	// used, Force has no effect.
	Force bool
}

// Changed is the result of a change.
type Changed struct {
	// Changed is false if the gate was already as requested: nothing was
	// written then.
	Changed bool

	// State is the gate as the store had it last. It differs from what was
	// requested if another administrator has changed the gate since.
	State State

	// Signalled reports whether the change was announced. SignalErr is why
	// that failed: other processes then see the change when they poll. Both
	// are zero if there was nothing to announce, or no Signals.
	Signalled bool
	SignalErr error
}

// Release releases a gate, and admits all its waiters. Releasing a released
// gate changes nothing, but sends its signal again.
//
// It fails with ErrInvalid, ErrCorrupt, with ErrUnknown if the store could not
// be read, so that nothing was changed, or with ErrUnclear. The end of ctx is
// one of the last two, and its cause.
func (g *Gates) Release(ctx context.Context, gate string, c Change) (Changed, error) {
	return g.change(ctx, gate, released, c)
}

// Close closes a gate. It does not call back waiters that have passed. It
// fails like Release.
func (g *Gates) Close(ctx context.Context, gate string, c Change) (Changed, error) {
	return g.change(ctx, gate, closed, c)
}

// State reads the state of a gate from the store, with its history. It fails
// with ErrInvalid, ErrCorrupt, or with ErrUnknown and, if that is why, the end
// of ctx.
func (g *Gates) State(ctx context.Context, gate string) (State, error) {
	if err := CheckName(gate); err != nil {
		return State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.opt.ChangeTimeout)
	defer cancel()
	var lastErr error
	for try := range maxReadTries {
		if try > 0 {
			if err := g.pause(ctx, minPause<<try); err != nil {
				lastErr = fmt.Errorf("%w; the store's last answer: %w", err, lastErr)
				break
			}
		}
		var v Value
		if v, lastErr = g.load(ctx, gate, ""); lastErr != nil {
			continue
		}
		s, err := StateOf(gate, v)
		g.noteRead(gate, err)
		if err != nil {
			return State{}, fmt.Errorf("read gate %q: %w", gate, err)
		}
		return s, nil
	}
	return State{}, fmt.Errorf("read gate %q: %w: %w", gate, ErrUnknown, lastErr)
}

func (g *Gates) change(ctx context.Context, gate, to string, by Change) (Changed, error) {
	if err := CheckName(gate); err != nil {
		return Changed{}, err
	}
	if err := by.check(); err != nil {
		return Changed{}, err
	}
	c := &change{gate: gate, to: to, by: by.By, reason: by.Reason, force: by.Force, op: rand.Text()}
	limited, cancel := context.WithTimeout(ctx, g.opt.ChangeTimeout)
	defer cancel()
	did, err := g.drive(limited, c)
	if err != nil {
		return Changed{}, fmt.Errorf("%s gate %q: %w", to, gate, err)
	}
	g.learn(gate, c.held.Version, c.state)
	done := Changed{Changed: did == changed, State: c.state}
	// A release that changed nothing is announced again: the process that made
	// it may have been killed before it sent the signal.
	if g.opt.Signals != nil && (did == changed || to == released) {
		done.SignalErr = g.publish(ctx, Signal{Gate: gate, Generation: c.state.Generation})
		done.Signalled = done.SignalErr == nil
	}
	return done, nil
}

// drive sends the requests of a change until it is done.
func (g *Gates) drive(ctx context.Context, c *change) (verdict, error) {
	tries, bound := 0, minPause
	for {
		old, next, write, err := c.request()
		if err != nil {
			return again, err
		}
		var did verdict
		var v Value
		var answer error
		if write {
			v, answer = g.replace(ctx, c.gate, old, next)
			did = c.replaced(v, answer)
		} else {
			v, answer = g.load(ctx, c.gate, "")
			did, err = c.loaded(v, answer)
			if answer == nil {
				g.noteRead(c.gate, c.corrupt)
			}
			if err != nil {
				return again, err
			}
		}
		switch did {
		case changed, asItWas:
			return did, nil
		case again:
			continue
		case unclear:
			if tries++; tries == maxReadTries && c.pending == nil {
				return again, fmt.Errorf("%w, and it was not changed: %w", ErrUnknown, answer)
			}
		}
		if err := g.pause(ctx, bound); err != nil {
			if c.pending != nil {
				return again, fmt.Errorf("%w: %w; the store's last answer: %w", ErrUnclear, err, answer)
			}
			return again, fmt.Errorf("%w, and it was not changed: %w; the store's last answer: %w", ErrUnknown, err, answer)
		}
		bound = min(2*bound, maxPause)
	}
}

// learn passes the store's answer on to the waiters of this process.
func (g *Gates) learn(gate, version string, s State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.noteDocument(gate, nil)
	if w := g.watches[gate]; w != nil {
		g.admit(w, w.learn(version, s))
		w.plan(time.Now())
	}
}

// publish announces a change. It does so even if the caller closed the
// connection, because the change is made.
func (g *Gates) publish(ctx context.Context, s Signal) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.CallTimeout)
	defer cancel()
	err := g.opt.Signals.Publish(ctx, s)
	g.noteSending(err)
	if err != nil {
		g.opt.Log.WarnContext(ctx, "cannot send the signal of a gate; others see the change when they poll",
			"gate", s.Gate, "generation", s.Generation, "within", (g.opt.PollRarely + g.opt.PollRarely/10).String(), "error", err.Error())
	}
	return err
}

func (c Change) check() error {
	switch by, reason := utf8.RuneCountInString(c.By), utf8.RuneCountInString(c.Reason); {
	case by == 0 || by > MaxBy:
		return invalid("the name of who changes the gate has %d characters: use 1 to %d", by, MaxBy)
	case reason > MaxReason:
		return invalid("the reason has %d characters: use up to %d", reason, MaxReason)
	case !utf8.ValidString(c.By) || !utf8.ValidString(c.Reason):
		return invalid("the name of who changes the gate and the reason must be UTF-8")
	case strings.ContainsFunc(c.By, unicode.IsControl):
		return invalid("the name of who changes the gate has control characters")
	case strings.ContainsFunc(c.Reason, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return invalid("the reason has control characters other than new lines and tabs")
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
