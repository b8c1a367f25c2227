package client

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"net/http"
	"net/url"
	"time"
)

// DeadLetterQueue is a queue of messages that could not be processed.
type DeadLetterQueue struct {
	Queue    string `json:"queue"`    // such as "work-0-poison"
	Source   string `json:"source"`   // where its messages came from, and go back to
	Messages int64  `json:"messages"` // about how many it has

	received
}

// DeadLetter is a message that could not be processed.
type DeadLetter struct {
	ID         string    `json:"id"` // the same for all copies of the message
	Reason     string    `json:"reason"`
	Attempts   *int64    `json:"attempts"` // nil: unknown
	MovedBy    string    `json:"movedBy"`  // MovedByKennel or MovedByHost
	InsertedAt time.Time `json:"insertedAt"`
	ExpiresAt  time.Time `json:"expiresAt"`

	// Body is the body of the message, or its beginning if it is Cut. If
	// Encoding is "base64", it is not text. Size is the length of the whole in
	// bytes.
	Body     string `json:"body"`
	Encoding string `json:"encoding"` // "text" or "base64"
	Size     int    `json:"size"`
	Cut      bool   `json:"cut"`
	Problem  string `json:"problem"` // why there is no body; "" if there is
	SHA256   string `json:"sha256"`  // of the whole body, in hex, if its queue is private; Body is empty then

	TraceParent string `json:"traceparent"` // W3C trace context; "" if unknown

	received
}

// The values of [DeadLetter.MovedBy].
const (
	MovedByKennel = "kennel"
	MovedByHost   = "host" // the Functions host, which records no reason
)

// DeadLetterSelection selects dead letters of a queue: All, or those with the
// IDs.
type DeadLetterSelection struct {
	All bool     `json:"all,omitempty"`
	IDs []string `json:"ids,omitempty"`

	Limit         int     `json:"limit,omitempty"`         // of a call: up to 1,000, which is the default
	RatePerSecond float64 `json:"ratePerSecond,omitempty"` // 0: as fast as possible
	DryRun        bool    `json:"dryRun,omitempty"`        // only count the dead letters that would be selected

	// Before excludes dead letters that are newer: those that failed again. It
	// is the value of the previous call's result; the default is the beginning
	// of this call.
	Before time.Time `json:"before,omitzero"`
}

// MovedDeadLetters is the result of a redrive or a deletion.
type MovedDeadLetters struct {
	Matched int              `json:"matched"` // dead letters that were found
	Moved   int              `json:"moved"`   // by a redrive
	Deleted int              `json:"deleted"` // by a deletion
	More    bool             `json:"more"`    // there may be others
	Before  time.Time        `json:"before"`  // for DeadLetterSelection.Before of the next call
	Left    []LeftDeadLetter `json:"left"`    // the first of those that stayed

	received
}

// LeftDeadLetter is a dead letter that could not be moved or deleted.
type LeftDeadLetter struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// DeadLetterQueues lists the queues that have dead letters.
func (c *Client) DeadLetterQueues(ctx context.Context) ([]DeadLetterQueue, error) {
	r := request{method: http.MethodGet, path: "/deadletters", repeats: always, limit: maxPage}
	queues, _, err := front[DeadLetterQueue](ctx, c, r)
	return queues, err
}

// DeadLetters returns up to 32 dead letters at the front of a queue, the oldest
// ones as a rule, and whether there are others: more can only be read once
// these are gone.
func (c *Client) DeadLetters(ctx context.Context, queue string) (letters []DeadLetter, more bool, err error) {
	if err := checkName("queue", queue); err != nil {
		return nil, false, err
	}
	return front[DeadLetter](ctx, c, request{method: http.MethodGet, path: letterPath(queue, ""), repeats: always, limit: maxPage})
}

// front reads a list that has one page.
func front[T any, P interface {
	*T
	keeper
}](ctx context.Context, c *Client, r request) (items []T, more bool, err error) {
	var page struct {
		Items   []json.RawMessage `json:"items"`
		More    bool              `json:"more"`
		Partial bool              `json:"partial"`
		received
	}
	if _, err := c.call(ctx, r, &page); err != nil {
		return nil, false, err
	}
	if page.Partial {
		c.opt.Partial(r.path)
	}
	items = make([]T, len(page.Items))
	for i, text := range page.Items {
		if err := decodeJSON(text, P(&items[i])); err != nil {
			return nil, false, c.unexpected(r, "%w", err)
		}
	}
	return items, page.More, nil
}

// RedriveDeadLetters puts dead letters back into the queue from which they
// came, with one call that takes up to a minute. A message that was put back
// twice, by a repeated call or after a crash, is the same message and does no
// harm. The code source_missing reports that the queue does not exist.
func (c *Client) RedriveDeadLetters(ctx context.Context, queue string, s DeadLetterSelection) (MovedDeadLetters, error) {
	return c.moveLetters(ctx, queue, "/redrive", s, always, "dead letters may have been redriven")
}

// DeleteDeadLetters deletes dead letters, with one call that takes up to a
// minute. A call for all with a Limit is not repeated after a lost answer,
// because it might delete more than that.
func (c *Client) DeleteDeadLetters(ctx context.Context, queue string, s DeadLetterSelection) (MovedDeadLetters, error) {
	return c.deleteLetters(ctx, queue, s, s.Limit)
}

// deleteLetters deletes dead letters. limit is the caller's.
func (c *Client) deleteLetters(ctx context.Context, queue string, s DeadLetterSelection, limit int) (MovedDeadLetters, error) {
	again := always
	if s.All && limit > 0 {
		again = ifUnchanged
	}
	return c.moveLetters(ctx, queue, "/delete", s, again, "dead letters may have been deleted")
}

// moveTime is how long the app may take for a redrive or a deletion.
const moveTime = time.Minute

func (c *Client) moveLetters(ctx context.Context, queue, verb string, s DeadLetterSelection, again repeats, effect string) (m MovedDeadLetters, err error) {
	if err := checkName("queue", queue); err != nil {
		return m, err
	}
	if s.All == (len(s.IDs) > 0) {
		return m, invalidf("select either all dead letters or some by their ids")
	}
	if err := checkTexts(s.IDs...); err != nil {
		return m, err
	}
	if s.DryRun {
		again, effect = always, ""
	}
	r := request{method: http.MethodPost, path: letterPath(queue, verb), body: s, repeats: again, effect: effect, takes: moveTime}
	_, err = c.call(ctx, r, &m)
	return m, err
}

// RepeatRedrive calls RedriveDeadLetters as long as there are other dead letters
// and some are moved, and yields the result of each call. Dead letters that
// come back meanwhile, because they failed again, are not moved again. With
// RatePerSecond a call takes about five seconds, and longer if it meets dead
// letters that cannot be moved. Limit is that of all calls together; 0 means no
// limit. An error ends it. If it is ended between two calls, another redrive with
// the last Before continues it.
func (c *Client) RepeatRedrive(ctx context.Context, queue string, s DeadLetterSelection) iter.Seq2[MovedDeadLetters, error] {
	return repeatMove(s, func(s DeadLetterSelection) (MovedDeadLetters, int, error) {
		m, err := c.RedriveDeadLetters(ctx, queue, s)
		return m, m.Moved, err
	})
}

// RepeatDelete calls DeleteDeadLetters like RepeatRedrive.
func (c *Client) RepeatDelete(ctx context.Context, queue string, s DeadLetterSelection) iter.Seq2[MovedDeadLetters, error] {
	limit := s.Limit
	return repeatMove(s, func(s DeadLetterSelection) (MovedDeadLetters, int, error) {
		m, err := c.deleteLetters(ctx, queue, s, limit)
		return m, m.Deleted, err
	})
}

const (
	maxMoved = 1000            // of one call
	turnTime = 5 * time.Second // of one call with a rate
)

// repeatMove repeats move, which returns how many dead letters it moved.
func repeatMove(s DeadLetterSelection, move func(DeadLetterSelection) (MovedDeadLetters, int, error)) iter.Seq2[MovedDeadLetters, error] {
	return func(yield func(MovedDeadLetters, error) bool) {
		limit := s.Limit
		for {
			most := maxMoved
			if limit > 0 {
				most = min(limit, maxMoved)
			}
			s.Limit = min(limit, maxMoved)
			if s.RatePerSecond > 0 {
				s.Limit = int(min(math.Ceil(s.RatePerSecond*turnTime.Seconds()), float64(most)))
			}
			m, moved, err := move(s)
			if !yield(m, err) || err != nil || s.DryRun || !m.More || moved == 0 {
				return
			}
			if limit > 0 {
				if limit -= moved; limit <= 0 {
					return
				}
			}
			if !m.Before.IsZero() {
				s.Before = m.Before
			}
		}
	}
}

func letterPath(queue, verb string) string { return "/deadletters/" + url.PathEscape(queue) + verb }
