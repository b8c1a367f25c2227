package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// QueueLinesOptions are the optional parts of [Client.SendLinesToQueue]. Nil and
// zero fields mean the defaults.
type QueueLinesOptions struct {
	// Bodies: each line is a message itself, in JSON, and Delay holds for all.
	// By default a line is {"body":…,"delay":"30s"}, with or without a delay.
	Bodies bool
	Delay  time.Duration

	Progress func(SentLines) // gets the result so far, after each request
}

// SentLines is what became of lines.
type SentLines struct {
	Sent   int          // messages
	Failed []FailedLine // in the order of the lines

	// Lines is the number of the last line whose result is known, as are those of
	// all before it.
	Lines int
}

// FailedLine is a line that was not sent, or with the code change_unclear may
// have been sent.
type FailedLine struct {
	Line    int    `json:"line"` // in the whole input, from 1; empty lines count
	Code    string `json:"code"`
	Message string `json:"message"`
	Member  string `json:"member,omitempty"` // of the message, such as address.city; "": none is at fault
}

// Limits of a request with many messages, as the app has them.
const (
	maxLineCount = 1000
	maxLineBytes = 4 << 20 // of all lines, with their ends
)

// SendLinesToQueue sends a message for each line of in that is not empty, to a
// queue that the program declares. A line that cannot be sent is in the result,
// and the others are sent. The lines go in requests of up to 1,000 lines and
// 4 MiB, one after the other.
//
// An error ends the call, and the result has what is known by then. The error
// names the lines of the request that failed; if it is ErrUnclear, any of them
// may have been sent, because such a request is not repeated, as with
// [Client.SendToQueue]. No line after them was sent. A request of which storage
// took no line is such an error too, if there are others.
func (c *Client) SendLinesToQueue(ctx context.Context, queue string, in io.Reader, options *QueueLinesOptions) (SentLines, error) {
	s := lineSender{c: c, queue: queue, in: bufio.NewReaderSize(in, 64<<10)}
	if options != nil {
		s.opt = *options
	}
	switch {
	case checkName("queue", queue) != nil:
		return s.result, checkName("queue", queue)
	case s.opt.Delay < 0:
		return s.result, invalidf("the delay is %v; use 0 for none", s.opt.Delay)
	case s.opt.Delay > 0 && !s.opt.Bodies:
		return s.result, invalidf("the delay %v is only for lines that are bodies; write it into each line", s.opt.Delay)
	}
	if s.opt.Progress == nil {
		s.opt.Progress = func(SentLines) {}
	}
	err := s.run(ctx)
	return s.result, err
}

// A lineSender sends the lines of one call.
type lineSender struct {
	c      *Client
	queue  string
	in     *bufio.Reader
	opt    QueueLinesOptions
	result SentLines

	number int  // of the line that was read last
	ended  bool // the input has no other line

	page     bytes.Buffer // the lines to send next
	numbers  []int        // their numbers in the input
	failed   []FailedLine // of those read for the page, the ones that are not sent
	leftOver []byte       // the line of this number does not fit into the page
}

func (s *lineSender) run(ctx context.Context) error {
	for !s.ended || s.leftOver != nil {
		if err := s.fill(); err != nil {
			return fmt.Errorf("read line %d: %w", s.number+1, err)
		}
		if err := s.flush(ctx); err != nil {
			return err
		}
		s.opt.Progress(s.result)
	}
	return nil
}

// fill reads lines until the page is full or the input ends.
func (s *lineSender) fill() error {
	s.page.Reset()
	s.numbers, s.failed = nil, nil
	if s.leftOver != nil {
		s.add(s.leftOver)
		s.leftOver = nil
	}
	for len(s.numbers)+len(s.failed) < maxLineCount {
		text, isLong, err := s.readLine()
		if errors.Is(err, io.EOF) {
			s.ended = true
			return nil
		}
		if err != nil {
			return err
		}
		s.number++
		text = bytes.TrimSpace(text)
		switch {
		case isLong:
			s.fail("message_too_large", "The line is too long. A message has up to 1 MiB.")
			continue
		case len(text) == 0:
			continue
		case s.opt.Bodies && !json.Valid(text): // not sent, because it could end the object around it
			s.fail("bad_message", "The line is not valid JSON.")
			continue
		case s.opt.Bodies:
			text = s.withDelay(text)
		}
		if s.page.Len()+len(text) >= maxLineBytes {
			s.leftOver = text
			return nil
		}
		s.add(text)
	}
	return nil
}

func (s *lineSender) add(text []byte) {
	s.page.Write(text)
	s.page.WriteByte('\n')
	s.numbers = append(s.numbers, s.number)
}

func (s *lineSender) fail(code, message string) {
	s.failed = append(s.failed, FailedLine{Line: s.number, Code: code, Message: message})
}

// withDelay makes a line of the API of a body.
func (s *lineSender) withDelay(body []byte) []byte {
	text := slices.Concat([]byte(`{"body":`), body)
	if s.opt.Delay > 0 {
		text = fmt.Appendf(text, `,"delay":"%v"`, s.opt.Delay)
	}
	return append(text, '}')
}

// readLine returns the next line without its end, and whether it is too long for
// a request; then it has only its beginning. The error after the last line is
// io.EOF.
func (s *lineSender) readLine() (text []byte, isLong bool, err error) {
	const around = 256 // bytes of the object around a body
	for {
		part, err := s.in.ReadSlice('\n')
		if isLong = isLong || len(text)+len(part) > maxLineBytes-around; !isLong {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(text) > 0 || isLong):
			return text, isLong, nil // the last line has no end
		default:
			return text, isLong, err
		}
	}
}

// flush sends the page.
func (s *lineSender) flush(ctx context.Context) error {
	if len(s.numbers) > 0 {
		if err := s.send(ctx); err != nil {
			return fmt.Errorf("%s: %w", describeLines(s.numbers), err)
		}
	}
	slices.SortFunc(s.failed, func(a, b FailedLine) int { return cmp.Compare(a.Line, b.Line) })
	s.result.Failed = append(s.result.Failed, s.failed...)
	if s.result.Lines = s.number; s.leftOver != nil {
		s.result.Lines--
	}
	isOwn := func(f FailedLine) bool { return slices.Contains(ownFaults, f.Code) }
	more := !s.ended || s.leftOver != nil
	if len(s.numbers) > 0 && len(s.failed) >= len(s.numbers) && more && !slices.ContainsFunc(s.failed, isOwn) {
		return fmt.Errorf("%s: none was sent, and no line after them was tried: %s: %s", describeLines(s.numbers), s.failed[0].Code, s.failed[0].Message)
	}
	return nil
}

// ownFaults are the codes of lines that fail whatever the state of storage is.
var ownFaults = []string{"bad_message", "bad_delay", "message_too_large"}

func describeLines(numbers []int) string {
	first, last := numbers[0], numbers[len(numbers)-1]
	if first == last {
		return fmt.Sprintf("line %d", first)
	}
	return fmt.Sprintf("lines %d to %d", first, last)
}

// send sends the lines of the page and adds the answer to the result.
func (s *lineSender) send(ctx context.Context) error {
	r := request{
		method: http.MethodPost,
		path:   messagesPath(s.queue),
		upload: &upload{linesType, slices.Clone(s.page.Bytes())}, // a request may still read it after an error
		effect: "the messages may have been sent",
		limit:  maxPage,
	}
	var answer struct {
		Sent   int          `json:"sent"`
		Failed []FailedLine `json:"failed"`

		received
	}
	if _, err := s.c.call(ctx, r, &answer); err != nil {
		return err
	}
	if answer.Sent+len(answer.Failed) != len(s.numbers) {
		return s.c.unexpected(r, "it has %d sent and %d failed of %d messages", answer.Sent, len(answer.Failed), len(s.numbers))
	}
	for i, f := range answer.Failed {
		if f.Line < 1 || f.Line > len(s.numbers) {
			return s.c.unexpected(r, "it has a line %d of %d", f.Line, len(s.numbers))
		}
		answer.Failed[i].Line = s.numbers[f.Line-1]
	}
	s.result.Sent += answer.Sent
	s.failed = append(s.failed, answer.Failed...)
	return nil
}
