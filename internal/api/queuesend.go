package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/program"
	"kennel/internal/queues"
)

// maxSent is the longest message of a call.
const maxSent = 1 << 20

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
	d, err := q.sendable(r.PathValue("queue"))
	if err != nil {
		return edge.Reply{}, err
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
