package client

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"net/url"
	"time"
)

// Queue is a queue that the program declares, or one of its built-in parts, with
// a sample of its storage queue that was taken for the call.
type Queue struct {
	Queue           string     `json:"queue"`
	Own             bool       `json:"own"`    // the program declares it, and it takes messages
	Paused          *Pause     `json:"paused"` // nil: it is not
	Ready           int64      `json:"ready"`
	InFlight        int64      `json:"inFlight"`
	Delayed         int64      `json:"delayed"`
	OldestSeconds   float64    `json:"oldestSeconds"` // of the ready ones; 0 for none
	DeadLetters     int64      `json:"deadLetters"`
	StorageQueue    string     `json:"storageQueue"`    // whose messages the numbers count
	DrainedBy       []string   `json:"drainedBy"`       // the declared queues of which this is a former name; nil: it is none
	Concurrency     int        `json:"concurrency"`     // 0: the program does not work on it, or it is built in
	DonePerSecond   float64    `json:"donePerSecond"`   // messages, by all living instances
	FailedPerSecond float64    `json:"failedPerSecond"` // attempts
	LastOKAt        *time.Time `json:"lastOkAt"`        // by the process that answers; nil: none yet

	// Only [Client.Queue] returns these.
	MaxAttempts    int     `json:"maxAttempts"`
	TimeoutSeconds float64 `json:"timeoutSeconds"`
	Handled        bool    `json:"handled"` // the program works on it

	received
}

// QueueList is all queues of the program.
type QueueList struct {
	Items []Queue `json:"items"`

	received
}

// Queues returns all queues of the program, by name.
func (c *Client) Queues(ctx context.Context) (l QueueList, err error) {
	_, err = c.call(ctx, request{method: http.MethodGet, path: "/queues", repeats: always, limit: maxPage}, &l)
	return l, err
}

// Queue returns one queue.
func (c *Client) Queue(ctx context.Context, name string) (q Queue, err error) {
	if err := checkName("queue", name); err != nil {
		return q, err
	}
	r := request{method: http.MethodGet, path: "/queues/" + url.PathEscape(name), repeats: always}
	_, err = c.call(ctx, r, &q)
	return q, c.expect(r, err, "queue", q.Queue, name)
}

// QueueSendOptions are the optional parts of [Client.SendToQueue]. Nil and zero
// fields mean the defaults.
type QueueSendOptions struct {
	Delay       time.Duration // the message is not received before; less than 7 days
	ContentType string        // default: application/json
}

// QueuedMessage is a message that is stored.
type QueuedMessage struct {
	ID    string `json:"id"`    // the same in all attempts, and of its dead letter
	State string `json:"state"` // QueuedState

	received
}

// QueuedState is the value of [QueuedMessage.State].
const QueuedState = "queued"

// linesType is the content type of many messages.
const linesType = "application/x-ndjson"

// SendToQueue sends a message to a queue that the program declares. After an
// error that is ErrUnclear the message may have been sent, and the call is not
// repeated: a queue recognizes no duplicates, and both messages would be handled,
// with two IDs. Send it again if its handler can handle it twice.
// [Client.SendMessage] sends to Service Bus.
func (c *Client) SendToQueue(ctx context.Context, queue string, body []byte, options *QueueSendOptions) (m QueuedMessage, err error) {
	var opt QueueSendOptions
	if options != nil {
		opt = *options
	}
	opt.ContentType = cmp.Or(opt.ContentType, "application/json")
	kind, _, err := mime.ParseMediaType(opt.ContentType)
	switch {
	case checkName("queue", queue) != nil:
		return m, checkName("queue", queue)
	case err != nil:
		return m, invalidf("the content type %.100q cannot be read: %v", opt.ContentType, err)
	case kind == linesType:
		return m, invalidf("the content type %s is for many messages; use SendLinesToQueue", linesType)
	case opt.Delay < 0:
		return m, invalidf("the delay is %v; use 0 for none", opt.Delay)
	}
	r := request{
		method: http.MethodPost,
		path:   messagesPath(queue),
		upload: &upload{opt.ContentType, body},
		effect: "the message may have been sent",
	}
	if opt.Delay > 0 {
		r.path += "?delay=" + url.QueryEscape(opt.Delay.String())
	}
	if _, err := c.call(ctx, r, &m); err != nil {
		return QueuedMessage{}, err
	}
	if m.ID == "" {
		return QueuedMessage{}, c.unexpected(r, "it is not a message")
	}
	return m, nil
}

func messagesPath(queue string) string { return "/queues/" + url.PathEscape(queue) + "/messages" }
