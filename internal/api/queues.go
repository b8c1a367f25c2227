package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/internal/control"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/internal/program"
	"kennel/internal/queues"
	"kennel/internal/table"
	"kennel/queue"
)

// QueueResource serves the queues of a program: those that it declares, and the
// built-in ones.
type QueueResource struct {
	Own     *queues.Queues  // nil: the program declares none
	Pauses  *control.Pauses // of the declared ones; nil without any
	Members *observe.Members
	People
}

// maxSent is the longest message of a call.
const maxSent = 1 << 20

func (q QueueResource) Routes() []edge.Route {
	const function = "Queues"
	return []edge.Route{
		{Function: function, Pattern: "GET /api/queues", Quota: &edge.Quota{}, Handler: q.serve(q.list)},
		{Function: function, Pattern: "GET /api/queues/{queue}", Quota: &edge.Quota{}, Handler: q.serve(q.show)},
		{Function: function, Pattern: "POST /api/queues/{queue}/messages", Query: []string{"delay"}, Body: true, MaxBody: maxLines, Handler: q.serve(q.send)},
		{Function: function, Pattern: "POST /api/queues/{queue}/pause", Body: true, Quota: &edge.Quota{}, Handler: q.serveChange(q.pause)},
		{Function: function, Pattern: "POST /api/queues/{queue}/resume", Body: true, Quota: &edge.Quota{}, Handler: q.serveChange(q.resume)},
	}
}

func (q QueueResource) serve(do func(*http.Request) (edge.Reply, error)) http.Handler {
	return Serve(queueFailures, func(r *http.Request) (edge.Reply, error) { return edge.Limited(r, do) })
}

func (q QueueResource) serveChange(do func(*http.Request) (edge.Reply, error)) http.Handler {
	return Serve(queuePauseFailures, func(r *http.Request) (edge.Reply, error) { return edge.Limited(r, do) })
}

// The errors of a call for a queue.
var (
	errNoQueue      = errors.New("the program has no such queue")
	errQueueBuiltIn = errors.New("the queue is built in")
)

var queueFailures = []Failure{
	{errNoQueue, http.StatusNotFound, "queue_not_found", "The program declares no queue of this name. GET /api/queues lists them.", ""},
	{errQueueBuiltIn, http.StatusConflict, "queue_built_in", "The queue belongs to a built-in part, which alone puts messages into it.", ""},
	{queues.ErrTooLarge, http.StatusRequestEntityTooLarge, "message_too_large", "The message is too long. Send up to 1 MiB, or put the content into a store of yours and send its address.", ""},
	{queue.ErrLimit, http.StatusRequestEntityTooLarge, "message_too_large", "Storage cannot hold the message.", ""},
	{queue.ErrUnclear, http.StatusServiceUnavailable, "change_unclear", "Storage did not confirm the message, which may have been sent. Sending it again may send it twice.", "5"},
	storageUnavailable,
}

// queuePauseFailures are those of pauses.
var queuePauseFailures = []Failure{
	queueFailures[0],
	{errQueueBuiltIn, http.StatusConflict, "queue_built_in", "The queue belongs to a built-in part. Only queues that the program declares can be paused.", ""},
	{table.ErrUnclear, http.StatusServiceUnavailable, "change_unclear", unconfirmed, "5"},
	{table.ErrRefused, http.StatusServiceUnavailable, edge.CodeUnavailable, edge.Rejected, "5"},
	storageUnavailable,
}

// queueItem is a queue in an answer.
type queueItem struct {
	Queue         string         `json:"queue"`
	Own           bool           `json:"own"`
	Paused        *control.Pause `json:"paused"` // null: it is not
	Ready         int64          `json:"ready"`
	InFlight      int64          `json:"inFlight"`
	Delayed       int64          `json:"delayed"`
	OldestSeconds float64        `json:"oldestSeconds"`
	DeadLetters   int64          `json:"deadLetters"`
	StorageQueue  string         `json:"storageQueue"` // whose messages the numbers count
	Concurrency   int            `json:"concurrency"`  // 0: the program does not work on it, or the queue is built in
	LastOkAt      *time.Time     `json:"lastOkAt"`     // by this process, or null
	*queueDetails
}

// queueDetails is what a single queue has besides.
type queueDetails struct {
	MaxAttempts    int     `json:"maxAttempts"`
	TimeoutSeconds float64 `json:"timeoutSeconds"`
	Handled        bool    `json:"handled"` // by a living instance
}

// items returns all queues, by name, with these samples and pauses.
func (q QueueResource) items(samples map[string]instances.QueueSample, pauses map[string]*control.Pause) []queueItem {
	all := make(map[string]queueItem)
	own := make(map[string]bool)
	item := func(name, storage string) queueItem {
		s := samples[storage]
		return queueItem{Queue: name, StorageQueue: storage, Ready: s.Ready, InFlight: s.InFlight, Delayed: s.Delayed, OldestSeconds: s.OldestSeconds, DeadLetters: s.Poison}
	}
	if q.Own != nil {
		for _, d := range q.Own.Declared() {
			one := item(d.Name, d.Storage())
			one.Own, one.Paused, own[d.Storage()] = true, pauses[d.Name], true
			if d.Handled > 0 {
				one.Concurrency = d.Concurrency
			}
			if at := q.Own.LastDone(d.Storage()); !at.IsZero() {
				one.LastOkAt = &at
			}
			all[d.Name] = one
		}
		for _, d := range q.Own.Declared() {
			for _, former := range d.FormerNames { // drained still
				if _, declared := all[former]; !declared {
					one := item(former, former)
					one.Own, own[former] = true, true
					all[former] = one
				}
			}
		}
	}
	for storage := range samples {
		if _, known := all[storage]; !known && !own[storage] {
			all[storage] = item(storage, storage)
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b queueItem) int { return strings.Compare(a.Queue, b.Queue) })
}

// read samples the queues and reads their pauses.
func (q QueueResource) read(ctx context.Context) (samples map[string]instances.QueueSample, pauses map[string]*control.Pause, err error) {
	if samples, err = q.Members.SampleAll(ctx); err == nil && q.Pauses != nil {
		pauses, err = q.Pauses.Read(ctx)
	}
	return samples, pauses, err
}

// list serves GET /api/queues.
func (q QueueResource) list(r *http.Request) (edge.Reply, error) {
	samples, pauses, err := q.read(r.Context())
	if err != nil {
		return edge.Reply{}, err
	}
	answer := struct {
		Items []queueItem `json:"items"`
	}{append([]queueItem{}, q.items(samples, pauses)...)} // [] for none
	return edge.Reply{Status: http.StatusOK, Body: answer}, nil
}

// show serves GET /api/queues/{queue}.
func (q QueueResource) show(r *http.Request) (edge.Reply, error) {
	if name := r.PathValue("queue"); q.declared(name) == nil && q.Members.LetterCount(name) == nil {
		return edge.Reply{}, errNoQueue
	}
	samples, pauses, err := q.read(r.Context())
	if err != nil {
		return edge.Reply{}, err
	}
	return edge.Reply{Status: http.StatusOK, Body: q.item(r.Context(), r.PathValue("queue"), samples, pauses)}, nil
}

// item returns one queue with its details.
func (q QueueResource) item(ctx context.Context, name string, samples map[string]instances.QueueSample, pauses map[string]*control.Pause) queueItem {
	all := q.items(samples, pauses)
	one := queueItem{Queue: name, StorageQueue: name} // a built-in one that is not used yet
	if at := slices.IndexFunc(all, func(item queueItem) bool { return item.Queue == one.Queue }); at >= 0 {
		one = all[at]
	}
	one.queueDetails = &queueDetails{Handled: true} // by its part, or by the queue whose former name it is
	if d := q.declared(one.Queue); d != nil {
		handled, _ := q.Own.HandledBy(ctx, d, d.Storage())
		*one.queueDetails = queueDetails{d.MaxAttempts, d.Timeout.Seconds(), handled}
	}
	return one
}

// declared returns a queue that the program declares; nil if it does not.
func (q QueueResource) declared(name string) *program.Queue {
	if q.Own == nil {
		return nil
	}
	for _, d := range q.Own.Declared() {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// send serves POST /api/queues/{queue}/messages.
func (q QueueResource) send(r *http.Request) (edge.Reply, error) {
	delay, err := delayOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	kind := ""
	if text := r.Header.Get("Content-Type"); text != "" {
		var params map[string]string
		if kind, params, err = mime.ParseMediaType(text); err != nil {
			return edge.Reply{}, edge.BadRequest("bad_message", "The header Content-Type cannot be read.")
		}
		if charset, given := params["charset"]; given && (kind == "application/json" || kind == "application/x-ndjson") && !strings.EqualFold(charset, "utf-8") {
			return edge.Reply{}, edge.BadRequest("bad_message", fmt.Sprintf("The charset of the message is %.64q. JSON is in UTF-8.", charset))
		}
	}
	d := q.declared(r.PathValue("queue"))
	switch {
	case d != nil:
	case q.Members.LetterCount(r.PathValue("queue")) != nil:
		return edge.Reply{}, errQueueBuiltIn
	default:
		return edge.Reply{}, errNoQueue
	}
	if err := customhandler.RequireBody(r); err != nil {
		return edge.Reply{}, err
	}
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return edge.Reply{}, err
	case kind == "application/x-ndjson":
		return q.sendLines(r.Context(), d, body)
	case len(body) > maxSent:
		return edge.Reply{}, queues.ErrTooLarge
	}
	if err := q.check(d, kind, body); err != nil {
		return edge.Reply{}, err
	}
	id, err := q.Own.Send(r.Context(), d.Name, body, delay)
	if err != nil {
		return edge.Reply{}, err
	}
	return edge.Reply{Status: http.StatusAccepted, Body: sentTo{ID: id, State: "queued"}}, nil
}

// sentTo is the answer to a message.
type sentTo struct {
	ID        string  `json:"id"`
	Key       *string `json:"key"`
	Duplicate bool    `json:"duplicate"`
	State     string  `json:"state"`
}

// check returns why a queue does not take a message.
func (q QueueResource) check(d *program.Queue, kind string, body []byte) error {
	if !d.Raw && kind != "application/json" {
		return edge.BadRequest("bad_message", "The messages of this queue are JSON. Send Content-Type: application/json.")
	}
	if !d.Raw {
		// Its handler would get another message than the one that was sent.
		var value json.RawMessage
		if err := customhandler.DecodeJSON(string(body), &value); err != nil {
			return edge.BadRequest("bad_message", fmt.Sprintf("The message is not the JSON that a queue takes: %.300v.", err))
		}
	}
	err := q.Own.Check(d.Name, body)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return &edge.BadMember{Code: "bad_message", Message: fmt.Sprintf("The queue does not take the message: %.300s.", customhandler.ExplainJSON(wrong)), Member: wrong.Field}
	}
	if err != nil {
		return edge.BadRequest("bad_message", fmt.Sprintf("The queue does not take the message: %.300s.", customhandler.ExplainJSON(err)))
	}
	return nil
}

// delayOf reads how long a message is not received.
func delayOf(r *http.Request) (time.Duration, error) {
	text := customhandler.Query(r, "delay")
	if text == "" && !edge.HasQuery(r, "delay") {
		return 0, nil
	}
	return readDelay(text)
}

func readDelay(text string) (time.Duration, error) {
	delay, err := time.ParseDuration(text)
	if err != nil || delay < 0 || delay > queues.MaxDelay {
		return 0, edge.BadRequest("bad_delay", fmt.Sprintf("delay is %.40q. Use a time such as 30s or 1h30m, less than 7 days.", text))
	}
	return delay, nil
}

// Limits of a call with many messages.
const (
	maxLines = 4 << 20 // bytes
	maxMany  = 1000    // messages

	maxSending = 16 // of them at the same time, so that all are sent within the time of a call
)

// failedLine is a message that was not sent.
type failedLine struct {
	Line    int    `json:"line"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Member  string `json:"member,omitempty"` // of the message, such as address.city
}

// sendLines sends many messages, each by itself.
func (q QueueResource) sendLines(ctx context.Context, d *program.Queue, body []byte) (edge.Reply, error) {
	answer := struct {
		Sent       int          `json:"sent"`
		Duplicates int          `json:"duplicates"`
		Failed     []failedLine `json:"failed"`
	}{Failed: []failedLine{}}
	var lines [][]byte
	var numbers []int // of lines, of which some are empty
	number := 0
	for text := range bytes.Lines(body) {
		number++
		if text = bytes.TrimSpace(text); len(text) > 0 {
			lines, numbers = append(lines, text), append(numbers, number)
		}
	}
	if len(lines) > maxMany {
		return edge.Reply{}, edge.BadRequest("bad_message", fmt.Sprintf("There are %d messages, more than %d. Nothing was sent. Use several calls.", len(lines), maxMany))
	}
	errs := make([]error, len(lines))
	slots := make(chan struct{}, maxSending)
	var sending sync.WaitGroup
	for i, text := range lines {
		message, delay, err := q.readLine(d, text) // here, because it calls the program
		if errs[i] = err; err != nil {
			continue
		}
		slots <- struct{}{}
		sending.Go(func() {
			_, errs[i] = q.Own.Send(ctx, d.Name, message, delay)
			<-slots
		})
	}
	sending.Wait()
	for i, err := range errs {
		if err != nil {
			answer.Failed = append(answer.Failed, failedOf(numbers[i], err))
			continue
		}
		answer.Sent++
	}
	return edge.Reply{Status: http.StatusAccepted, Body: answer}, nil
}

// readLine returns the message of a line, which the queue takes.
func (q QueueResource) readLine(d *program.Queue, text []byte) (message []byte, delay time.Duration, err error) {
	var one struct {
		Body  json.RawMessage `json:"body"`
		Delay string          `json:"delay"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&one); err != nil || one.Body == nil || decoder.InputOffset() < int64(len(text)) {
		return nil, 0, edge.BadRequest("bad_message", `The line is not like {"body":…,"delay":"30s"}.`)
	}
	if one.Delay != "" {
		if delay, err = readDelay(one.Delay); err != nil {
			return nil, 0, err
		}
	}
	if len(one.Body) > maxSent {
		return nil, 0, queues.ErrTooLarge
	}
	return one.Body, delay, q.check(d, "application/json", one.Body)
}

// failedOf returns why a line was not sent.
func failedOf(line int, err error) failedLine {
	if bad, ok := errors.AsType[*customhandler.Error](err); ok {
		return failedLine{line, bad.Code, bad.Message, ""}
	}
	if bad, ok := errors.AsType[*edge.BadMember](err); ok {
		return failedLine{line, bad.Code, bad.Message, bad.Member}
	}
	for _, f := range queueFailures {
		if f.is == nil || errors.Is(err, f.is) {
			return failedLine{line, f.Code, f.Message, ""}
		}
	}
	return failedLine{line, edge.CodeUnavailable, "", ""} // cannot occur: the last row matches
}
