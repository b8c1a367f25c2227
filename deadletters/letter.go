package deadletters

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"kennel/queue"
)

// letter is a message of a queue of dead letters, decoded as far as that is
// possible without a request.
type letter struct {
	queue.Message
	id       string
	form     form
	inBase64 bool             // the message is the base64 of a text
	letter   queue.DeadLetter // of the form written
	envelope queue.Envelope   // of the form packed
}

// form is how a message became a dead letter.
type form int

const (
	asItWas form = iota // moved as it is: by the host or another program
	written             // as a queue.DeadLetter
	packed              // as an envelope: with the reason, or moved as it is
)

// decode decodes a message. It tries the text of the message and then, if it is
// the base64 of a text, that text. No JSON is base64.
func decode(source string, m queue.Message) letter {
	x := letter{Message: m}
	texts := []string{m.Body}
	if text, ok := fromBase64(m.Body); ok && utf8.Valid(text) {
		texts = append(texts, string(text))
	}
	for i, text := range texts {
		x.inBase64 = i > 0
		// A letter that names another queue is a message of another program that
		// happens to look like one, and must stay whole.
		if d, err := queue.ReadDeadLetter(text); err == nil && d.Queue == source {
			x.form, x.letter = written, d
			x.id = identity("letter", d.Queue, d.Message)
			return x
		}
		if e, err := queue.Parse(text); err == nil {
			x.form, x.envelope = packed, e
			x.id = envelopeIdentity(e.ID)
			return x
		}
	}
	x.id = identity("message", m.ID)
	return x
}

// An ID that is in the log and in answers, and is easy to type. One of identity
// has no capital letter and no hyphen.
var plainID = regexp.MustCompile(`^[A-Za-z0-9-]*[A-Z-][A-Za-z0-9-]*$`)

// envelopeIdentity returns the ID of a letter in an envelope: that of its message,
// by which the log and the answer to its sender name it.
func envelopeIdentity(message string) string {
	if len(message) <= 64 && plainID.MatchString(message) {
		return message
	}
	return identity("envelope", message)
}

// identity returns the ID of a letter: 80 bits of a digest, in letters and
// digits that are easy to type.
func identity(parts ...string) string {
	digest := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(digest[:10]))
}

// fromBase64 decodes base64 like the Functions host, which ignores white space.
func fromBase64(body string) (content []byte, ok bool) {
	content, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	return content, err == nil && len(content) > 0
}

// describe returns the listed parts of the letter, without its body.
func (x letter) describe() Letter {
	d := Letter{ID: x.id, MovedBy: ByKennel, InsertedAt: x.Inserted.UTC(), ExpiresAt: x.Expires.UTC()}
	attempts := int64(x.envelope.Attempts)
	switch {
	case x.form == written:
		attempts = x.letter.Attempts
		d.Reason, d.Attempts = x.letter.Reason, &attempts
	case x.form == packed && (x.envelope.Reason != "" || x.envelope.Raw):
		d.Reason, d.Attempts, d.TraceParent = x.envelope.Reason, &attempts, x.envelope.TraceParent
	default:
		d.MovedBy, d.Reason, d.TraceParent = ByHost, movedAsItWas, x.envelope.TraceParent
		if _, ok := fromBase64(x.Body); !ok && x.form == asItWas {
			d.Reason = movedNotBase64
		}
	}
	return d
}

// Reasons of letters without one. The host calls no function for a message that
// it cannot decode, so the log of the app has nothing about it.
const (
	movedAsItWas   = "The Functions host or another program moved the message as it was, without a reason. See the log of the app."
	movedNotBase64 = "The Functions host or another program moved the message as it was, without a reason. It is not base64 of text, which the host needs to call a function: correct its sender."
)

// kept is why a letter stays where it is, or why its body is not shown.
type kept string

func (k kept) Error() string { return string(k) }

// The reasons of kept letters.
const (
	bodyGone    kept = "The body of the message is gone: it was stored apart and was removed or expired."
	bodyUnknown kept = "The body of the message is stored apart, in a place that this app does not know."
	bodyDamaged kept = "The body of the message is damaged."
	bodyUnread  kept = "The body of the message is stored apart and could not be read. Try again; see the log of the app."
	unstorable  kept = "The message is too long or has characters that a queue cannot store."
	unconfirmed kept = "Storage did not confirm the request, so it may have been carried out. Try again; a second copy is harmless."
	notAllowed  kept = "Storage refused the request. See the log of the app."
	takenAway   kept = "Another program received or deleted the letter at the same time."
)

// body returns the body of the message that became this letter.
func (l *Letters) body(ctx context.Context, source string, x letter) ([]byte, error) {
	switch {
	case x.form == written:
		return []byte(x.letter.Text), nil
	case x.form == packed:
		claims, err := l.claims(source, x.envelope)
		if err != nil {
			return nil, err
		}
		return claims.Body(ctx, x.envelope)
	}
	// Whether the sender meant text or base64 is not stored. A word that is also
	// base64 of bytes that are not text looks the same either way.
	if content, ok := fromBase64(x.Body); ok {
		return content, nil
	}
	return []byte(x.Body), nil
}

// claims returns where the body of a message is stored. The zero Claims read
// bodies in messages.
func (l *Letters) claims(source string, e queue.Envelope) (*queue.Claims, error) {
	if e.ClaimExpires().IsZero() {
		return &queue.Claims{}, nil
	}
	claims, err := l.opt.Claims(source)
	if err == nil && claims == nil {
		err = bodyUnknown
	}
	return claims, err
}

// original returns the message as it was before it became this letter, to be
// put again.
func (l *Letters) original(ctx context.Context, source string, x letter) (string, error) {
	text := x.letter.Text
	if x.form == packed {
		var err error
		if text, err = l.repacked(ctx, source, x); err != nil {
			return "", err
		}
	}
	switch {
	case x.form == asItWas:
		return x.Body, nil
	case x.inBase64:
		return base64.StdEncoding.EncodeToString([]byte(text)), nil
	}
	return text, nil
}

// repacked returns the text of a message from the envelope of its letter. It
// finds out that a claim is gone: the work could not be done without it.
func (l *Letters) repacked(ctx context.Context, source string, x letter) (string, error) {
	e := x.envelope
	if e.Raw {
		body, err := l.body(ctx, source, x)
		return string(body), err
	}
	claims, err := l.claims(source, e)
	if err != nil {
		return "", err
	}
	if until := time.Now().Add(queue.ClaimTime); !e.ClaimExpires().IsZero() && e.ClaimExpires().Before(until) {
		select {
		case l.extending <- struct{}{}:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		e, err = claims.Extend(ctx, e, until)
		<-l.extending
	} else {
		err = claims.Check(ctx, e)
	}
	if err != nil {
		return "", err
	}
	e.Reason, e.Attempts, e.Seen = "", 0, 0
	return e.Text()
}

// reasonOf returns why a letter stays where it is after an error from its body.
func reasonOf(err error) kept {
	if k, ok := errors.AsType[kept](err); ok {
		return k
	}
	switch {
	case errors.Is(err, queue.ErrClaimGone):
		return bodyGone
	case errors.Is(err, queue.ErrMessage):
		return bodyDamaged
	case errors.Is(err, queue.ErrLimit):
		return unstorable
	}
	return bodyUnread
}
