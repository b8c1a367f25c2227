package gate

import (
	"context"
	"strings"
	"time"
	"unicode"
)

// Signal tells that a gate has been changed: after the store has confirmed it,
// never before. One that is not whole says only that something has happened.
type Signal struct {
	Gate       string // "": any
	Generation int64
	Released   bool   // false: it has been shut since that generation's release
	Life       string // tells the gate from one of the same name that was deleted; "" if unknown

	// The change that has led there: when it was made, by whom and why. By and
	// Reason are as long as in a Change at most.
	At     time.Time
	By     string
	Reason string
}

// maxLife bounds what a signal makes this process keep; ours have 26
// characters, all of them letters and digits.
const maxLife = 64

// whole says that a signal tells everything there is to know of a change, and
// nothing that no change could have been.
func (s Signal) whole() bool {
	year := s.At.UTC().Year()
	return s.Generation > 0 && s.Generation <= MaxGeneration && len(s.Life) <= maxLife && !strings.ContainsFunc(s.Life, unicode.IsControl) &&
		!s.At.IsZero() && year >= 1 && year <= 9999 &&
		Change{By: s.By, Reason: s.Reason}.check() == nil
}

// Signals carries signals from process to process, and all that is in them.
// They may get lost, arrive twice or in another order: waiting costs more time
// then, and nothing else. One that cannot be read is handed over empty.
type Signals interface {
	// Publish sends a signal to everybody who listens, this process included.
	// It is called concurrently, and not again after an error.
	Publish(ctx context.Context, s Signal) error

	// Listen hands every signal to the listener, one call at a time, until ctx
	// ends, and then returns nil. It reconnects by itself. An error says that
	// this process cannot listen at all, as for lack of rights; Listen may be
	// called again later.
	Listen(ctx context.Context, l Listener) error
}

// Listener is what a Signals tells of signals. Its methods do not block.
type Listener interface {
	// Up says that signals published from now on will be heard.
	Up()

	// Down says that signals may be missed from now on. Listening begins like
	// that.
	Down(why error)

	// Heard hands over a signal.
	Heard(s Signal)
}
