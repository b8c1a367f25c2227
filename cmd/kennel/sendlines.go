package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/client"
)

const (
	parallelLines  = 16 // are sent at a time
	maxFailedLines = 20 // then no other line is sent
)

// A lineRun sends each line of a text as a message.
type lineRun struct {
	con     *console
	app     *app
	entity  string
	o       sendOptions
	ordered bool               // one after another, up to the first that fails
	stop    context.CancelFunc // begins no other line

	mu               sync.Mutex // guards the fields below
	out              *progress
	began            time.Time
	last             int    // line that was begun
	said             string // the reason why lines are sent again
	primary, backlog int    // lines by where they are
	failures         int    // lines
	failed           []*failedLines
	unclear, halted  bool  // failed lines may have been sent; there are too many
	writeErr         error // of standard output
}

// failedLines are lines that failed for the same reason.
type failedLines struct {
	reason string
	lines  []int
	text   string
	err    error
}

// line is a line of a text, from 1.
type line struct {
	number int
	body   []byte
}

func (con *console) sendLines(ctx context.Context, app *app, entity string, in io.Reader, o sendOptions) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	r := &lineRun{
		con: con, app: app, entity: entity, o: o, ordered: o.message.SessionID != "", stop: stop,
		out: con.progress(), began: time.Now(),
	}
	app.notice = r.notice
	workers := parallelLines
	if r.ordered {
		workers = 1
	}
	lines := make(chan line)
	var sending sync.WaitGroup
	for range workers {
		sending.Go(func() {
			for l := range lines {
				if r.begin(running, l) {
					r.send(ctx, l)
				}
			}
		})
	}
	err := readLines(running, in, lines)
	close(lines)
	sending.Wait()
	r.out.end()
	return r.report(ctx, err)
}

// readLines passes on the lines that are not empty, until ctx ends.
func readLines(ctx context.Context, in io.Reader, to chan<- line) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxMessage)
	for number := 1; ctx.Err() == nil && scanner.Scan(); number++ {
		if len(scanner.Bytes()) == 0 {
			continue
		}
		select {
		case to <- line{number, bytes.Clone(scanner.Bytes())}:
		case <-ctx.Done():
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line has more than %d bytes, which no namespace of the app accepts", maxMessage)
	}
	return scanner.Err()
}

// begin reports whether a line is to be sent: not after ctx ended.
func (r *lineRun) begin(ctx context.Context, l line) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	r.last = max(r.last, l.number)
	return true
}

// send sends a line.
func (r *lineRun) send(ctx context.Context, l line) {
	m := r.o.message
	m.ID = fmt.Sprintf("%s-%d", m.ID, l.number)
	m.Body = l.body
	sent, err := r.app.SendMessage(ctx, r.entity, m)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.fail(ctx, l.number, err)
		return
	}
	if sent.SentTo == client.SentToBacklog {
		r.backlog++
	} else {
		r.primary++
	}
	r.write(struct {
		Line      int    `json:"line"`
		MessageID string `json:"messageId"`
		SentTo    string `json:"sentTo"`
	}{l.number, sent.MessageID, sent.SentTo})
	r.out.report(r.describe(time.Since(r.began)))
}

// fail records a line that was not sent. The caller holds r.mu.
func (r *lineRun) fail(ctx context.Context, number int, err error) {
	f, _ := classify(ctx, r.app.failed(err))
	r.write(struct {
		Line  int     `json:"line"`
		Error failure `json:"error"`
	}{number, f})
	reason := reasonOf(err)
	i := slices.IndexFunc(r.failed, func(f *failedLines) bool { return f.reason == reason })
	if i < 0 {
		i = len(r.failed)
		r.failed = append(r.failed, &failedLines{reason: reason, text: f.Message, err: err})
	}
	r.failed[i].lines = append(r.failed[i].lines, number)
	r.unclear = r.unclear || errors.Is(err, client.ErrUnclear)
	if r.failures++; r.ordered || r.failures >= maxFailedLines || !concernsOne(err) {
		r.halted = true
		r.stop()
	}
}

// oneLineCodes are the codes of errors that another message may not have.
var oneLineCodes = []string{"message_too_large", "bad_message", "bus_busy", "bus_unavailable", "bus_full"}

// concernsOne reports whether another line may be sent although one failed with
// err.
func concernsOne(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return errors.Is(err, client.ErrUnclear) || ok && slices.Contains(oneLineCodes, refused.Code)
}

// write writes a result in JSON, if that is wanted. The caller holds r.mu.
func (r *lineRun) write(result any) {
	if !r.o.asJSON {
		return
	}
	text, err := json.Marshal(result)
	if err == nil {
		err = r.con.writeLine(string(text))
	}
	if err != nil && r.writeErr == nil {
		r.writeErr = fmt.Errorf("write a result: %w", err)
		r.stop()
	}
}

// notice reports why a line is sent again, once for each reason.
func (r *lineRun) notice(n client.Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reason := reasonOf(n.Err); reason != r.said {
		r.said = reason
		r.out.say("%s; retrying", printable(clause(r.app.explain(n.Err))))
	}
}

// describe returns the progress after a time.
func (r *lineRun) describe(elapsed time.Duration) string {
	return r.sent() + rateOf(r.primary+r.backlog, elapsed)
}

// sent returns how many lines were sent, and where they are.
func (r *lineRun) sent() string {
	text := fmt.Sprintf("%s sent to %s", counted(r.primary+r.backlog, "message"), printable(r.entity))
	if r.backlog > 0 {
		text += fmt.Sprintf(": %d to the primary, %d to the backlog", r.primary, r.backlog)
	}
	return text
}

// report prints the result. readErr is why not all lines were read.
func (r *lineRun) report(ctx context.Context, readErr error) error {
	if !r.o.asJSON {
		if err := r.con.writeLine(r.sent()); err != nil {
			return err
		}
	}
	cause := errors.Join(r.writeErr, readErr)
	if ctx.Err() != nil {
		cause = ctx.Err()
	}
	if len(r.failed) == 0 && cause == nil {
		return nil
	}
	var parts []string
	if r.failures > 0 {
		parts = append(parts, counted(r.failures, "line")+" not sent:")
	}
	for _, f := range r.failed {
		slices.Sort(f.lines)
	}
	slices.SortFunc(r.failed, func(a, b *failedLines) int { return a.lines[0] - b.lines[0] })
	for _, f := range r.failed {
		parts = append(parts, fmt.Sprintf("  %s: %s", lineNumbers(f.lines), oneLine(f.text)))
	}
	if cause != nil {
		parts = append(parts, cause.Error())
	}
	if cause != nil || r.halted {
		parts = append(parts, fmt.Sprintf("line %d is the last one that was tried", r.last))
	}
	if r.primary+r.backlog > 0 || r.unclear {
		parts = append(parts, repeatWith("the lines", r.entity, r.o.message.ID))
	}
	if cause == nil && len(r.failed) == 1 {
		cause = r.failed[0].err // decides the code in JSON
	}
	return explained{strings.Join(parts, "\n"), cause}
}

// lineNumbers returns sorted numbers of lines, such as "lines 1-16, 20".
func lineNumbers(lines []int) string {
	var parts []string
	for i := 0; i < len(lines); {
		end := i
		for end+1 < len(lines) && lines[end+1] == lines[end]+1 {
			end++
		}
		text := fmt.Sprint(lines[i])
		if end > i {
			text += fmt.Sprintf("-%d", lines[end])
		}
		parts = append(parts, text)
		i = end + 1
	}
	if len(lines) == 1 {
		return "line " + parts[0]
	}
	return "lines " + strings.Join(parts, ", ")
}
