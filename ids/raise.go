package ids

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"
)

// Raised is the result of Raise.
type Raised struct {
	Next    int64 // the next free number of the sequence
	Changed bool  // false if it was high enough before
}

// Raise makes the next free number of a sequence at least atLeast, whether the
// sequence is new, in use or missing. It never lowers it. With force it also
// replaces a stored text that is not a number.
//
// Instances with reserved numbers issue these first, also the ones below
// atLeast. Raise retries lost races, and failures of the store, until ctx ends.
// After an error the sequence may have been raised; repeating Raise is safe.
func Raise(ctx context.Context, store Store, sequence string, atLeast int64, force bool) (Raised, error) {
	if err := CheckName(sequence); err != nil {
		return Raised{}, err
	}
	if atLeast < 0 || atLeast > MaxExact {
		return Raised{}, fmt.Errorf("raise sequence %q to %d: use a number from 0 to %d", sequence, atLeast, int64(MaxExact))
	}
	r := raise{atLeast: atLeast, force: force, writer: rand.Text() + "/raise"}
	wait := backoff{growth: 2, max: maxOutageWait}
	for {
		err := r.send(ctx, store, sequence)
		switch {
		case r.done:
			return r.result, nil
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrRefused):
			return Raised{}, fmt.Errorf("raise sequence %q: %w", sequence, err)
		case err == nil:
			continue
		}
		select {
		case <-time.After(mathrand.N(wait.next(minWait))):
		case <-ctx.Done():
			return Raised{}, fmt.Errorf("raise sequence %q to %d (it may have been raised; it is safe to repeat): %w", sequence, atLeast, err)
		}
	}
}

// raise is the protocol of Raise. Like a claim it does no I/O.
type raise struct {
	atLeast int64
	force   bool
	writer  string

	write  *write // to send next; nil: load
	done   bool
	result Raised
}

// send sends the next request.
func (r *raise) send(ctx context.Context, store Store, sequence string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if r.write == nil {
		m, err := load(ctx, store, sequence)
		return r.loaded(m, err)
	}
	_, err := replace(ctx, store, sequence, r.write.old, r.write.next)
	return r.replaced(err)
}

// loaded takes the answer to a Load.
func (r *raise) loaded(m Mark, err error) error {
	to := Mark{Text: formatNext(r.atLeast), Writer: r.writer}
	hist := history{cut: cut{number: r.atLeast}}
	switch {
	case errors.Is(err, ErrNotFound):
	case errors.Is(err, ErrMissing):
		to.Known = true
	case err != nil:
		return err
	default:
		to.Known = m.Known
		next, err := parseNext(m.Text)
		peak := next
		if err == nil {
			peak, err = parsePeak(m, next)
		}
		if err == nil {
			hist, err = parseHistory(m, next)
		}
		switch {
		case err != nil && !r.force:
			return err
		case err != nil:
			hist = history{}
		case m.Writer == r.writer, next >= r.atLeast:
			// Ours arrived although its reply was lost, or nothing is to do.
			r.done, r.result = true, Raised{next, m.Writer == r.writer}
			return nil
		case peak > r.atLeast:
			to.Peak = formatNext(peak)
		}
	}
	if m.Copied {
		hist = hist.forked(r.writer[:idLen])
	}
	hist.raised(r.atLeast).describe(&to)
	r.write = &write{old: m, next: to}
	return nil
}

// replaced takes the answer to the write.
func (r *raise) replaced(err error) error {
	r.write = nil // after any error, only a Load shows the outcome
	if err == nil {
		r.done, r.result = true, Raised{r.atLeast, true}
	}
	return err
}
