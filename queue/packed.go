package queue

import (
	"context"
	"errors"
	"time"
)

// Packed is the Codec of messages that Claims has packed. Their envelope has the
// identity, and counts the attempts that failed. A dead letter is an envelope
// with the reason; the text of a message that is no envelope becomes its body.
type Packed struct{ Claims *Claims }

// Decode implements [Codec].
func (p Packed) Decode(ctx context.Context, m Message) (Content[[]byte], error) {
	e, body, err := p.Claims.Unpack(ctx, m.Body)
	if err != nil {
		return Content[[]byte]{ID: e.ID}, err
	}
	return Content[[]byte]{Body: body, ID: e.ID, Done: func(ctx context.Context) error { return p.Claims.Remove(ctx, e) }}, nil
}

// Size implements [Sizer]: the body, and what is stored for it.
func (p Packed) Size(m Message) int {
	e, err := Parse(m.Body)
	if err != nil {
		return 0 // Decode returns the error
	}
	if e.claim == nil {
		return e.size
	}
	return e.size + e.claim.Bytes
}

// TraceParent implements [Tracer].
func (p Packed) TraceParent(m Message) string {
	e, _ := Parse(m.Body) // Decode returns the error
	return e.TraceParent
}

// Attempts implements [Codec].
func (p Packed) Attempts(m Message) (failed int64, next string) {
	e, err := Parse(m.Body)
	if err != nil {
		return 0, m.Body // Decode returns the error
	}
	failed = int64(e.Attempts)
	e.Attempts++
	if next, err = e.Text(); err != nil {
		next = m.Body
	}
	return failed, next
}

// DeadLetter implements [Codec].
func (p Packed) DeadLetter(ctx context.Context, d DeadLetter) (string, error) {
	e, err := Parse(d.Text)
	if err != nil {
		raw := Envelope{ID: d.Message, Time: d.At, Raw: true, Reason: d.Reason, Attempts: int(d.Attempts)}
		return p.Claims.Pack(ctx, raw, []byte(d.Text))
	}
	switch extended, err := p.Claims.Extend(ctx, e, time.Now().Add(ClaimTime)); {
	case err == nil:
		e = extended
	case !errors.Is(err, ErrClaimGone): // else this may be the reason
		return "", err
	}
	e.Reason, e.Attempts = d.Reason, int(d.Attempts)
	return e.Text()
}
