package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kennel/internal/names"
)

// PoisonSuffix turns the name of a queue into that of its dead-letter queue. The
// Functions host uses the same.
const PoisonSuffix = names.PoisonSuffix

// When a message becomes a dead letter:
//
//   - It cannot be read: its codec returns ErrMessage, or its claim is gone
//     and no copy of it was done.
//   - Its last attempt failed: the attempt with the number MaxAttempts. The codec
//     keeps the number of failed attempts in the body; without that, each
//     delivery counts. Attempts that a stop ended, that had no memory, or
//     whose errors wrap ErrNoAttempt do not count.
//   - Its attempts kill their processes, see kills.
//
// A message that expires before is gone. The Functions host has a rule of its
// own, maxDequeueCount in host.json, for the queues that it receives from.

// fate is what becomes of a message after an attempt that returned.
type fate int

const (
	fateDone      fate = iota // the work: delete the message, even if the lease was lost meanwhile: then the delete fails, or no receiver has it yet
	fateElsewhere             // another receiver has the message
	fateCopyDone              // delete it without work
	fateDead                  // move it to the dead letters
	fateReturned              // put it back, and count no attempt
	fateFreeRetry             // receive it again later, and count no attempt
	fateRetry                 // receive it again later
	fateAgain                 // what the handler decided by Again
)

// attemptEnd is an attempt that returned.
type attemptEnd struct {
	err       error
	last      bool // it has the number MaxAttempts
	leaseLost bool
	stopping  bool // the ctx of the handlers ended
	copyDone  bool // another copy of the message was done here
}

func fateOf(a attemptEnd) fate {
	switch {
	case a.err == nil:
		return fateDone
	case a.leaseLost:
		return fateElsewhere
	case isAgain(a.err):
		return fateAgain
	case errors.Is(a.err, ErrClaimGone) && a.copyDone:
		return fateCopyDone
	case errors.Is(a.err, ErrMessage), errors.Is(a.err, ErrClaimGone):
		return fateDead
	case a.stopping, errors.Is(a.err, errNotBegun):
		return fateReturned // the stop ended the attempt, or it failed at the same time
	case errors.Is(a.err, ErrNoAttempt):
		return fateFreeRetry
	case a.last:
		return fateDead
	}
	return fateRetry
}

// maxDeliveries, times MaxAttempts, is how often a message whose codec cannot
// record attempts is received at most while none of them returns.
const maxDeliveries = 4

// kills reports whether a message is dead before another attempt, because it was
// received more often than MaxAttempts, and none of the attempts has returned in
// this process: it probably kills each process that works on it.
func kills(deliveries, failed, maxAttempts int64, recorded bool) bool {
	if recorded {
		return failed >= maxAttempts
	}
	return deliveries > maxDeliveries*maxAttempts
}

// ErrNoAttempt reports that the work of a message could not be done, or its
// outcome not be stored, for a reason that is not the message: storage failed. A
// [Handler] wraps it. The message is received again after a wait that grows up
// to a minute, and no attempt is used up, however long that takes.
var ErrNoAttempt = errors.New("storage failed")

// again is an error of a handler that decides itself when its message is received
// again.
type again struct {
	body string        // to store; "": the present one
	wait time.Duration // until it is received again
	err  error         // nil: no attempt has failed
}

func (a *again) Error() string {
	if a.err == nil {
		return "the message is received again after " + a.wait.String()
	}
	return a.err.Error()
}

func (a *again) Unwrap() error { return a.err }

// Again returns an error after which a message is received again after wait, with
// another body if it is not empty. It is for handlers that count attempts in
// their messages: the listener counts none, and makes no dead letter of it. The
// message counts as retried if err is not nil, else as returned. A wait of more
// than MaxVisibility is cut.
func Again(body string, wait time.Duration, err error) error {
	return &again{body, min(max(wait, 0), MaxVisibility), err}
}

func isAgain(err error) bool {
	_, ok := errors.AsType[*again](err)
	return ok
}

// errNotBegun reports that the listener was stopped before there was memory for
// the body of a message.
var errNotBegun = errors.New("there was no memory for the body")

// DeadLetter is a message that goes to the dead-letter queue, whole, with the
// reason. A move is a put and then a delete, so after a crash or a lost reply a
// dead letter may be there twice: with the same Queue and Message.
type DeadLetter struct {
	Queue    string    // where it came from
	Message  string    // Message.ID there
	Reason   string    // why it is moved
	Attempts int64     // that were made
	At       time.Time // of the move
	Text     string    // Message.Body
}

// storedLetter is a DeadLetter as it is stored.
type storedLetter struct {
	Version  int       `json:"v"`
	Queue    string    `json:"queue"`
	Message  string    `json:"message"`
	Reason   string    `json:"reason"`
	Attempts int64     `json:"attempts,omitempty"`
	At       time.Time `json:"at"`
	Text     string    `json:"text"`
}

const letterVersion = 1

// Encode returns the body of a message that ReadDeadLetter decodes. If the text
// leaves no space for the reason, even without its end, the body is the text
// alone, as the Functions host stores it.
func (d DeadLetter) Encode() (body string) {
	for _, reason := range []int{1000, 100} { // bytes
		s := storedLetter{letterVersion, d.Queue, d.Message, d.Reason, d.Attempts, d.At.UTC(), d.Text}
		if len(s.Reason) > reason {
			s.Reason = s.Reason[:reason] + " …"
		}
		text, err := json.Marshal(s)
		if err == nil && checkBody(string(text)) == nil {
			return string(text)
		}
	}
	return d.Text
}

// ReadDeadLetter decodes the body of a message in a dead-letter queue. An error
// means that it has another format: another codec or the Functions host put it
// there.
func ReadDeadLetter(body string) (DeadLetter, error) {
	var s storedLetter
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		return DeadLetter{}, fmt.Errorf("read a dead letter: %w", err)
	}
	if s.Version != letterVersion || s.Queue == "" || s.Message == "" {
		return DeadLetter{}, errors.New("read a dead letter: it has another format")
	}
	return DeadLetter{s.Queue, s.Message, s.Reason, s.Attempts, s.At, s.Text}, nil
}
