package queue

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of a message with an [Envelope].
const (
	// MaxText is the length of a message's text in bytes. In base64, as the
	// Functions host may expect it, it is as long as a message can be.
	MaxText = MaxBody / 4 * 3

	// maxInline is the length of a body as JSON text or base64. It leaves room
	// for the other members with all their quotes escaped, also for a reason
	// that is added later.
	maxInline = MaxText - 4<<10

	maxReason = 1000 // bytes; twice as many in JSON
	maxID     = 256

	// maxOthers is what unknown members take at most, so that a copy of a message
	// always has room for its count.
	maxOthers = 1 << 10
)

// Envelope describes the work of a message. It travels with the body, or with
// the claim for it. A copy of a message, as in a redrive, has the same ID and
// Time.
type Envelope struct {
	ID          string    // of the work, given by the publisher: up to 256 bytes, unique
	Time        time.Time // when the work was published
	Attempts    int       // of the work so far; the store's DequeueCount starts again with each copy
	TraceParent string    // W3C trace context; "" if unknown

	// Queue is the declared queue of the message, where several share a storage
	// queue. Seen is the DequeueCount of the delivery that Attempts includes; 0 if
	// the message was put since.
	Queue string
	Seen  int64

	// Reason states why the message is a dead letter. Only its first 1,000
	// bytes are kept.
	Reason string

	// Raw reports that the body is the text of a message that is not an
	// envelope. It is one more form of a dead letter.
	Raw bool

	// Private reports that the body is for the work alone: who looks at the message
	// or its dead letter is shown its size and digest.
	Private bool

	payload

	// others are the members that this version does not know, such as headers
	// and until, which are reserved. Each copy of the message keeps them.
	others map[string]json.RawMessage
}

// payload is the body in the form in which it is sent or stored.
type payload struct {
	size   int
	digest [sha256.Size]byte // of the body
	zstd   bool              // the inline bytes, or those of the claim, are compressed
	isText bool              // the inline bytes are sent as JSON text, else as base64
	inline []byte            // unless there is a claim
	claim  *claim
}

// Size returns the length of the body in bytes.
func (e Envelope) Size() int { return e.size }

// SHA256 returns the digest of the body.
func (e Envelope) SHA256() [sha256.Size]byte { return e.digest }

// ClaimExpires returns when the body may be deleted if the message has a claim,
// else the zero time.
func (e Envelope) ClaimExpires() time.Time {
	if e.claim == nil {
		return time.Time{}
	}
	return e.claim.expires()
}

const envelopeVersion = 1

// stored is the form of an envelope in a message. Exactly one of text, base64
// and claim is present.
type stored struct {
	Version     int       `json:"v"`
	ID          string    `json:"id"`
	Time        time.Time `json:"time"`
	Attempts    int       `json:"attempts,omitempty"`
	TraceParent string    `json:"traceparent,omitempty"`
	Queue       string    `json:"queue,omitempty"`
	Seen        int64     `json:"seen,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Raw         bool      `json:"raw,omitempty"`
	Private     bool      `json:"private,omitempty"`
	Size        int       `json:"size"`
	SHA256      []byte    `json:"sha256"` // of the body, uncompressed
	Zstd        bool      `json:"zstd,omitempty"`
	Text        *string   `json:"text,omitempty"`
	Base64      []byte    `json:"base64,omitempty"`
	Claim       *claim    `json:"claim,omitempty"`
}

// Text returns the text of a message. An envelope that was parsed, and whose
// exported fields were changed, needs no new claim.
func (e Envelope) Text() (string, error) {
	s := stored{
		Version: envelopeVersion, ID: e.ID, Time: e.Time.UTC(), Attempts: e.Attempts, TraceParent: e.TraceParent, Queue: e.Queue, Seen: e.Seen,
		Reason: shorten(e.Reason), Raw: e.Raw, Private: e.Private, Size: e.size, SHA256: e.digest[:], Zstd: e.zstd, Claim: e.claim,
	}
	switch {
	case e.claim != nil:
	case e.isText:
		text := string(e.inline)
		s.Text = &text
	default:
		s.Base64 = e.inline
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := cmp.Or(s.check(), encoder.Encode(s))
	if err == nil && len(e.others) > 0 {
		text.Truncate(text.Len() - len("}\n"))
		text.WriteByte(',')
		begin := text.Len()
		err = encoder.Encode(e.others)
		text.Bytes()[begin] = ' ' // instead of its brace
	}
	if err == nil && text.Len() > MaxText {
		err = fmt.Errorf("%d bytes are more than %d", text.Len(), MaxText)
	}
	if err != nil {
		return "", fmt.Errorf("encode message: %w: %w", err, ErrLimit)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// Parse returns the envelope of a message without its body. It makes no
// request. Its error is ErrMessage.
func Parse(text string) (Envelope, error) {
	s, others, err := parse(text)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	e := Envelope{
		ID: s.ID, Time: s.Time.UTC(), Attempts: s.Attempts, TraceParent: s.TraceParent, Queue: s.Queue, Seen: s.Seen, Reason: s.Reason, Raw: s.Raw, Private: s.Private,
		others:  others,
		payload: payload{size: s.Size, digest: [sha256.Size]byte(s.SHA256), zstd: s.Zstd, inline: s.Base64, claim: s.Claim},
	}
	if s.Text != nil {
		e.isText, e.inline = true, []byte(*s.Text)
	}
	return e, nil
}

// parse returns the members of a message that this version knows, and the
// others.
func parse(text string) (s stored, others map[string]json.RawMessage, err error) {
	if len(text) > MaxText {
		return s, nil, fmt.Errorf("%d bytes are more than %d", len(text), MaxText)
	}
	if err = decode(text, &s, true); err != nil { // most messages have no others, which cost a second look
		lenient := stored{}
		if others, err = othersOf(text); err == nil {
			err = decode(text, &lenient, false)
			s = lenient
		}
	}
	if size := sizeOf(others); err == nil && size > maxOthers {
		err = fmt.Errorf("it has %d bytes of members that are unknown here, more than %d", size, maxOthers)
	}
	// The version determines the other members, so it is checked first.
	var head struct {
		Version *int `json:"v"`
	}
	if err == nil {
		head.Version = &s.Version
	} else if err := json.Unmarshal([]byte(text), &head); err != nil {
		return s, nil, fmt.Errorf("decode JSON: %w", err)
	}
	switch {
	case head.Version == nil || *head.Version == 0:
		return s, nil, errors.New("it has no version")
	case *head.Version != envelopeVersion:
		return s, nil, fmt.Errorf("version %d is unknown; this program knows %d", *head.Version, envelopeVersion)
	case err != nil:
		return s, nil, fmt.Errorf("decode JSON: %w", err)
	}
	return s, others, nil
}

// decode decodes the one JSON value of a text.
func decode(text string, s *stored, strict bool) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	if strict {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(s); err != nil {
		return err
	}
	if _, end := decoder.Token(); end != io.EOF {
		return errors.New("more text follows its end")
	}
	return nil
}

// sizeOf returns the length of unknown members.
func sizeOf(others map[string]json.RawMessage) (n int) {
	for name, value := range others {
		n += len(name) + len(value) + len(`"":,`)
	}
	return n
}

// members are the names of those that this version knows.
var members = []string{
	"v", "id", "time", "attempts", "traceparent", "queue", "seen", "reason", "raw", "size", "sha256", "zstd", "text", "base64", "claim",
}

// othersOf returns the members of a message that this version does not know. A
// name that differs from a known one by its case alone is an error: the decoder
// has taken it for that.
func othersOf(text string) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, err
	}
	for _, name := range members {
		delete(all, name)
	}
	for name := range all {
		if slices.ContainsFunc(members, func(known string) bool { return strings.EqualFold(known, name) }) {
			return nil, fmt.Errorf("member %.80q has other letters than the known one", name)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// check applies the rules of the format, which hold for texts of this program
// and for received ones.
func (s stored) check() error {
	bodies := 0
	for _, present := range []bool{s.Text != nil, len(s.Base64) > 0, s.Claim != nil} {
		if present {
			bodies++
		}
	}
	size := len(s.Base64)
	switch {
	case s.Text != nil:
		size = len(*s.Text)
	case s.Claim != nil:
		size = s.Claim.Bytes
	}
	switch {
	case s.ID == "" || len(s.ID) > maxID || !isPlain(s.ID):
		return fmt.Errorf("id %.80q: use 1 to %d bytes without control characters", s.ID, maxID)
	case len(s.TraceParent) > maxID || !isPlain(s.TraceParent):
		return fmt.Errorf("traceparent %.80q: use up to %d bytes without control characters", s.TraceParent, maxID)
	case s.Time.IsZero() || s.Time.Year() < 1 || s.Time.Year() > 9999:
		return fmt.Errorf("time %v: use the time of the publication", s.Time)
	case len(s.Queue) > maxID || !isPlain(s.Queue):
		return fmt.Errorf("queue %.80q: use up to %d bytes without control characters", s.Queue, maxID)
	case s.Seen < 0:
		return fmt.Errorf("it was seen %d times", s.Seen)
	case s.Attempts < 0 || s.Attempts > 1<<30:
		return fmt.Errorf("%d attempts", s.Attempts)
	case s.Size < 0 || s.Size > MaxContent:
		return fmt.Errorf("body of %d bytes: use up to %d", s.Size, MaxContent)
	case len(s.SHA256) != sha256.Size:
		return fmt.Errorf("sha256 of %d bytes, want %d", len(s.SHA256), sha256.Size)
	case bodies != 1:
		return fmt.Errorf("it has %d of text, base64 and claim, want one", bodies)
	case s.Zstd && s.Text != nil:
		return errors.New("its text cannot be compressed")
	case !s.Zstd && size != s.Size:
		return fmt.Errorf("the body has %d bytes, want %d", size, s.Size)
	}
	if s.Claim != nil {
		return s.Claim.check()
	}
	return nil
}

// isPlain reports whether a text needs no escapes but for quotes.
func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || notXML(r) })
}

// shorten returns the part of a reason that is kept.
func shorten(reason string) string {
	reason = strings.Map(func(r rune) rune {
		if notXML(r) {
			return utf8.RuneError
		}
		return r
	}, reason)
	if len(reason) <= maxReason {
		return reason
	}
	end := maxReason
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// fill puts a body into the envelope. It returns the bytes to store if the body
// needs a claim, else nil.
func (e *Envelope) fill(body []byte, c *coders) (content []byte) {
	e.payload = payload{size: len(body), digest: sha256.Sum256(body)}
	content = body
	if len(body) >= minCompress && !bytes.HasPrefix(body, zstdMagic) {
		if small := c.compress(body); len(small) < len(body) {
			content, e.zstd = small, true
		}
	}
	asBase64 := base64.StdEncoding.EncodedLen(len(content))
	switch {
	case len(body) <= maxInline && isText(body) && quotedLen(body) <= min(asBase64, maxInline):
		e.zstd, e.isText, e.inline = false, true, body
	case asBase64 <= maxInline:
		e.inline = content
	default:
		return content
	}
	return nil
}

// isText reports whether a body may travel as JSON text.
func isText(body []byte) bool {
	return utf8.Valid(body) && !bytes.ContainsFunc(body, notXML)
}

// quotedLen returns the maximum length of a text in JSON.
func quotedLen(text []byte) int {
	n := len(text)
	for _, b := range text {
		switch b {
		case '"', '\\', '\t', '\n', '\r':
			n++
		case 0xe2: // perhaps U+2028 or U+2029, which take six bytes
			n += 3
		}
	}
	return n
}

// body returns the body from the bytes that were sent or stored for it.
func (e Envelope) body(content []byte, c *coders) ([]byte, error) {
	body := content
	if e.zstd {
		var err error
		if body, err = c.decompress(content, e.size); err != nil {
			return nil, err
		}
	}
	if len(body) != e.size {
		return nil, fmt.Errorf("the body has %d bytes, want %d", len(body), e.size)
	}
	if sha256.Sum256(body) != e.digest {
		return nil, errors.New("the body has another digest than the one that was packed")
	}
	return body, nil
}
