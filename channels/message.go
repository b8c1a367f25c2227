package channels

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"kennel/internal/table"
	"kennel/internal/trace"
)

// ErrMessage reports that a message can never be carried out. The caller moves
// it to the dead-letter queue with the error as its reason.
var ErrMessage = errors.New("not a message that deletes a channel")

const (
	messageVersion = 1
	maxMessage     = 4 << 10 // bytes; in JSON a name of 200 bytes may take six times as many
)

// message names the channel to delete and its incarnation, so that it never
// applies to a later channel of the same name.
type message struct {
	Version     int    `json:"v"`
	Channel     string `json:"channel"`
	Incarnation string `json:"incarnation"`

	// TraceParent is the trace of the request that deleted the channel.
	TraceParent string `json:"traceparent,omitempty"`
}

func (r record) message(parent string) string {
	text, err := json.Marshal(message{messageVersion, r.channel, r.incarnation, parent})
	if err != nil {
		panic(err) // two texts and a number always marshal
	}
	return string(text)
}

// parseMessage accepts only the texts that message writes.
func parseMessage(text string) (message, error) {
	var m message
	if len(text) > maxMessage {
		return m, fmt.Errorf("%d bytes are more than %d: %w", len(text), maxMessage, ErrMessage)
	}
	// Decode the version first: it determines the other members.
	var head struct {
		Version *int `json:"v"`
	}
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return m, fmt.Errorf("decode JSON: %w: %w", err, ErrMessage)
	}
	switch {
	case head.Version == nil:
		return m, fmt.Errorf("it has no version: %w", ErrMessage)
	case *head.Version != messageVersion:
		return m, fmt.Errorf("version %d is unknown; this program knows %d: %w", *head.Version, messageVersion, ErrMessage)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return message{}, fmt.Errorf("decode JSON: %w: %w", err, ErrMessage)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return message{}, fmt.Errorf("more text follows its end: %w", ErrMessage)
	}
	if err := cmp.Or(CheckName(m.Channel), checkIncarnation(m.Incarnation)); err != nil {
		return message{}, fmt.Errorf("%w: %w", err, ErrMessage)
	}
	return m, nil
}

// put puts the message that names this incarnation. It may put it twice, which
// is harmless.
func (c *Channels) put(ctx context.Context, r record, delay time.Duration) (receipt string, err error) {
	text := r.message(trace.Parent(ctx))
	return table.RetryWrite(ctx, func(ctx context.Context) (string, error) {
		return c.outbox.Put(ctx, text, delay)
	})
}

// takeBack deletes a message that is not needed any more. If that fails, the
// receiver of the message finds the deletion done.
func (c *Channels) takeBack(ctx context.Context, receipt string) {
	ctx, cancel := context.WithTimeout(ctx, table.TryTimeout)
	defer cancel()
	_ = c.outbox.Delete(ctx, receipt)
}
