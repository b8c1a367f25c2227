package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"kennel/internal/customhandler"
	"kennel/internal/observe"
	"kennel/internal/trace"
	"kennel/queue"
)

// Letterbox is where the functions of a queue put the messages that can never
// be carried out.
type Letterbox struct {
	Count  *observe.LetterCount
	Encode func(context.Context, queue.DeadLetter) (text string, err error)
	Put    func(ctx context.Context, text string) error
	Log    *slog.Logger
}

// errUnfit reports a message that does not fit into a dead letter with its
// reason.
var errUnfit = errors.New("the message does not fit with its reason")

// PlainLetter returns the text of a dead letter, or errUnfit.
func PlainLetter(_ context.Context, d queue.DeadLetter) (string, error) {
	text := d.Encode()
	if text == d.Text || len(text) > queue.MaxText {
		return "", errUnfit
	}
	return text, nil
}

// Move puts a message among the dead letters and returns nil, so that the host
// deletes it from its queue. If that fails, the message is in both.
func (b Letterbox) Move(ctx context.Context, m customhandler.QueueMessage, reason error) error {
	// The message may have lost bytes on its way here because they are not text.
	// Then, or if it does not fit, the host moves the original, after the last
	// delivery.
	if strings.ContainsRune(m.Text, utf8.RuneError) {
		return reason
	}
	// Dead letters of the same message are taken for copies of it, so one whose
	// id the host does not name gets an id of its own.
	text, err := b.Encode(ctx, queue.DeadLetter{Queue: b.Count.Queue, Message: cmp.Or(m.ID, rand.Text()), Reason: reason.Error(), Attempts: m.DequeueCount, At: time.Now(), Text: m.Text})
	if errors.Is(err, errUnfit) {
		return reason
	}
	if err == nil {
		err = b.Put(ctx, text)
	}
	if err != nil {
		return fmt.Errorf("move a message to the dead-letter queue (%v): %w", reason, err)
	}
	b.Count.Added(reason, 0)
	trace.Current(ctx).Text(trace.Outcome, "dead_letter")
	trace.Current(ctx).Fail(reason.Error())
	b.Log.WarnContext(ctx, "message put among the dead letters", "queue", b.Count.Queue+queue.PoisonSuffix, "message", m.ID, "reason", reason)
	return nil
}

// Failed counts the message that the host is about to move, because its last
// delivery failed.
func (b Letterbox) Failed(m customhandler.QueueMessage, err error) {
	if err != nil && m.DequeueCount >= observe.MaxDeliveries {
		b.Count.Added(err, observe.MoveTimeout)
	}
}
