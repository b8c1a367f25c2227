package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"kennel/client"
)

func TestQueues(t *testing.T) {
	const queue = `{"queue":"emails","own":true,"ready":3,"inFlight":1,"delayed":2,"oldestSeconds":1.5,"deadLetters":4,"storageQueue":"emails","concurrency":32,"lastOkAt":"2026-11-27T20:00:00Z","maxAttempts":20,"timeoutSeconds":300,"handled":true}`
	const builtIn = `{"queue":"work-0","own":false,"lastOkAt":null}`
	a, c := playing(t, ok(`{"items":[`+queue+`,`+builtIn+`]}`), ok(queue), ok(builtIn))
	l, err := c.Queues(t.Context())
	if err != nil || len(l.Items) != 2 || !l.Items[0].Own || l.Items[0].DeadLetters != 4 || l.Items[1].LastOKAt != nil {
		t.Errorf("got %+v, %v", l, err)
	}
	if q, err := c.Queue(t.Context(), "emails"); err != nil || q.Queue != "emails" || q.MaxAttempts != 20 || !q.Handled || q.LastOKAt.Hour() != 20 || string(q.JSON()) != queue {
		t.Errorf("got %+v, %v", q, err)
	}
	if _, err := c.Queue(t.Context(), "emails"); err == nil {
		t.Error("got no error for the answer of another queue")
	}
	if _, err := c.Queue(t.Context(), ".."); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	same(t, "asked", []string{"GET /queues", "GET /queues/emails", "GET /queues/emails"}, a.asked)
}

func TestSendToQueue(t *testing.T) {
	const stored = `{"id":"4TQ3","key":null,"duplicate":false,"state":"queued"}`
	stores := answer{http.StatusAccepted, "application/json", stored, nil}
	a, c := playing(t, stores, stores, answer{http.StatusAccepted, "application/json", `{}`, nil})
	m, err := c.SendToQueue(t.Context(), "emails", []byte(`{"to":"ann"}`), nil)
	if err != nil || m.ID != "4TQ3" || m.State != client.QueuedState || string(m.JSON()) != stored {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := c.SendToQueue(t.Context(), "a b", []byte("x"), &client.QueueSendOptions{Delay: 90 * time.Minute, ContentType: "text/plain"}); err != nil {
		t.Error(err)
	}
	if _, err := c.SendToQueue(t.Context(), "emails", nil, nil); !errors.Is(err, client.ErrUnclear) {
		t.Errorf("the answer is no message: %v, want ErrUnclear", err)
	}
	same(t, "asked", []string{`POST /queues/emails/messages {"to":"ann"}`, "POST /queues/a%20b/messages?delay=1h30m0s x", "POST /queues/emails/messages"}, a.asked)
	same(t, "types", []string{"application/json", "text/plain"}, []string{a.headers[0].Get("Content-Type"), a.headers[1].Get("Content-Type")})

	for what, options := range map[string]client.QueueSendOptions{
		"delay": {Delay: -time.Second}, "type": {ContentType: "text/plain\r\nx: y"}, "lines": {ContentType: "application/x-ndjson; charset=utf-8"},
	} {
		if _, err := c.SendToQueue(t.Context(), "emails", nil, &options); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	if _, err := c.SendToQueue(t.Context(), "", nil, nil); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("no queue: %v, want ErrInvalid", err)
	}
}

// TestSendToQueueAgain checks that a message is sent again only if it was not
// sent.
func TestSendToQueueAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := answer{http.StatusAccepted, "application/json", `{"id":"a","state":"queued"}`, nil}
		a, c := playing(t, appError(429, "too_many_requests", after("2")), appError(503, "stopping", after("1")), stored)
		if _, err := c.SendToQueue(t.Context(), "emails", nil, nil); err != nil {
			t.Error(err)
		}
		same(t, "asked", 3, len(a.asked))
	})
	for name, lost := range map[string]any{
		"a lost answer":   &net.OpError{Op: "read", Err: errReset},
		"of the host":     answer{502, "", "", after("1")},
		"storage unclear": appError(503, "change_unclear", after("1")),
	} {
		a, c := playing(t, lost)
		if _, err := c.SendToQueue(t.Context(), "emails", nil, nil); !errors.Is(err, client.ErrUnclear) {
			t.Errorf("%s: %v, want ErrUnclear", name, err)
		}
		_, err := c.SendLinesToQueue(t.Context(), "emails", strings.NewReader("1\n2\n"), &client.QueueLinesOptions{Bodies: true})
		if !errors.Is(err, client.ErrUnclear) {
			t.Errorf("%s: %v, want ErrUnclear", name, err)
		}
		expectError(t, name, err, "lines 1 to 2: ")
		same(t, name, 2, len(a.asked))
	}
}

// linesApp is a queue as the app has it: it counts lines that are not empty,
// fails those with "bad", and those after the first if full.
func linesApp(t *testing.T, bodies *[]string, full bool) *client.Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/x-ndjson" || len(body) > 4<<20 {
			t.Errorf("got %d bytes of %s, %v", len(body), r.Header.Get("Content-Type"), err)
		}
		*bodies = append(*bodies, string(body))
		result := struct {
			Sent   int                 `json:"sent"`
			Failed []client.FailedLine `json:"failed"`
		}{}
		line := 0
		for text := range bytes.Lines(body) {
			if len(bytes.TrimSpace(text)) == 0 {
				continue
			}
			switch line++; {
			case bytes.Contains(text, []byte("bad")):
				result.Failed = append(result.Failed, client.FailedLine{Line: line, Code: "bad_message", Message: "bad"})
			case full && len(*bodies) > 1:
				result.Failed = append(result.Failed, client.FailedLine{Line: line, Code: "storage_unavailable", Message: "Later."})
			default:
				result.Sent++
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		json.NewEncoder(w).Encode(result)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSendLinesToQueue checks how lines are cut into requests, and that a failed
// line has its number in the whole input.
func TestSendLinesToQueue(t *testing.T) {
	var bodies []string
	c := linesApp(t, &bodies, false)
	var in strings.Builder
	for i := 1; i <= 2500; i++ {
		switch i {
		case 3, 1500: // empty lines count as lines
			in.WriteString(" \r\n")
		case 4, 2001:
			in.WriteString(`{"body":"bad"}` + "\n")
		default:
			fmt.Fprintf(&in, "{\"body\":%d}\n", i)
		}
	}
	in.WriteString(`{"body":"bad"}`) // without an end
	var progress []client.SentLines
	got, err := c.SendLinesToQueue(t.Context(), "emails", iotest.OneByteReader(strings.NewReader(in.String())), &client.QueueLinesOptions{Progress: func(s client.SentLines) { progress = append(progress, s) }})
	if err != nil {
		t.Fatal(err)
	}
	want := client.SentLines{Sent: 2496, Lines: 2501}
	for _, line := range []int{4, 2001, 2501} {
		want.Failed = append(want.Failed, client.FailedLine{Line: line, Code: "bad_message", Message: "bad"})
	}
	same(t, "result", want, got)
	same(t, "requests", []int{1000, 1000, 499}, []int{strings.Count(bodies[0], "\n"), strings.Count(bodies[1], "\n"), strings.Count(bodies[2], "\n")})
	same(t, "progress", []int{1001, 2002, 2501}, []int{progress[0].Lines, progress[1].Lines, progress[2].Lines})
}

func TestSendLinesToQueueLimits(t *testing.T) {
	var bodies []string
	c := linesApp(t, &bodies, false)
	long := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	lines := []string{"1", long(3 << 20), long(1 << 20), "2", "not JSON", long(5 << 20), `1},{"body":2`, long(1 << 20), "3", ""}
	var progress []int
	got, err := c.SendLinesToQueue(t.Context(), "emails", strings.NewReader(strings.Join(lines, "\n")), &client.QueueLinesOptions{
		Bodies: true, Delay: time.Minute, Progress: func(s client.SentLines) { progress = append(progress, s.Lines) },
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "result", client.SentLines{Sent: 6, Lines: 9, Failed: []client.FailedLine{
		{Line: 5, Code: "bad_message", Message: "The line is not valid JSON."},
		{Line: 6, Code: "message_too_large", Message: "The line is too long. A message has up to 1 MiB."},
		{Line: 7, Code: "bad_message", Message: "The line is not valid JSON."},
	}}, got)
	same(t, "lines that are done", []int{2, 9}, progress) // the third did not fit
	same(t, "lines of each request", []int{2, 4}, []int{strings.Count(bodies[0], "\n"), strings.Count(bodies[1], "\n")})
	if !strings.HasPrefix(bodies[0], `{"body":1,"delay":"1m0s"}`+"\n") || !strings.HasSuffix(bodies[1], "\n"+`{"body":3,"delay":"1m0s"}`+"\n") {
		t.Errorf("got %.40s, … %s", bodies[0], bodies[1][len(bodies[1])-40:])
	}

	bodies = nil
	if got, err := c.SendLinesToQueue(t.Context(), "emails", strings.NewReader("\n\n"), nil); err != nil || got.Sent != 0 || got.Lines != 2 || bodies != nil {
		t.Errorf("empty lines: %+v, %v, %d requests", got, err, len(bodies))
	}
	for what, options := range map[string]client.QueueLinesOptions{"delay": {Delay: -1, Bodies: true}, "a delay of lines that have their own": {Delay: 1}} {
		if _, err := c.SendLinesToQueue(t.Context(), "emails", strings.NewReader("1"), &options); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
}

// TestSendLinesToQueueErrors checks what is known after an error.
func TestSendLinesToQueueErrors(t *testing.T) {
	var bodies []string
	c := linesApp(t, &bodies, true)
	in := strings.Repeat("1\n", 3500)
	got, err := c.SendLinesToQueue(t.Context(), "emails", strings.NewReader(in), &client.QueueLinesOptions{Bodies: true})
	expectError(t, "storage took no line", err, "lines 1001 to 2000: none was sent, and no line after them was tried: storage_unavailable: Later.")
	if got.Sent != 1000 || len(got.Failed) != 1000 || got.Failed[0].Line != 1001 || got.Lines != 2000 || len(bodies) != 2 {
		t.Errorf("sent %d, failed %d, lines %d, requests %d", got.Sent, len(got.Failed), got.Lines, len(bodies))
	}

	bodies = nil
	broken := io.MultiReader(strings.NewReader("1\n2\n3"), iotest.ErrReader(errors.New("gone")))
	got, err = c.SendLinesToQueue(t.Context(), "emails", broken, &client.QueueLinesOptions{Bodies: true})
	expectError(t, "the input cannot be read", err, "read line 3: gone")
	same(t, "nothing is sent", client.SentLines{}, got)

	a, c := playing(t, appError(404, "queue_not_found", nil), answer{202, "application/json", `{"sent":3,"failed":[]}`, nil}, answer{202, "application/json", `{"sent":1,"failed":[{"line":3}]}`, nil})
	if _, err := c.SendLinesToQueue(t.Context(), "emails", strings.NewReader(in), &client.QueueLinesOptions{Bodies: true}); err == nil || errors.Is(err, client.ErrUnclear) {
		t.Errorf("got %v, want the app's error", err)
	}
	for range 2 {
		if got, err := c.SendLinesToQueue(t.Context(), "emails", strings.NewReader("1\n2\n"), &client.QueueLinesOptions{Bodies: true}); !errors.Is(err, client.ErrUnclear) || got.Lines != 0 {
			t.Errorf("an answer that does not fit: %+v, %v, want ErrUnclear", got, err)
		}
	}
	same(t, "asked", 3, len(a.asked))
}
