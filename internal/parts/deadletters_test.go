package parts

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/deadletters"
	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/memory"
	"kennel/internal/observe"
	"kennel/internal/worker"
	"kennel/queue"
	"kennel/work"
)

// newMemoryLetters wires the dead letters of the queues of batches.
func newMemoryLetters(m *memoryBatches) *api.LetterResource {
	l := &api.LetterResource{Counts: func(queue string) *observe.LetterCount { return m.letters[queue] }, Log: m.BatchResource.Log}
	l.Open = sync.OnceValues(func() (*api.OpenLetters, error) {
		opened, err := m.open()
		if err != nil {
			return nil, err
		}
		return openLettersOn(m.queues, opened, nil, l.Log)
	})
	return l
}

// letterCalls makes calls of the API of dead letters.
type letterCalls struct {
	t    *testing.T
	host *customhandler.App
}

// letterAnswer is an answer about dead letters.
type letterAnswer struct {
	Code  int `json:"-"`
	Items []struct {
		deadletters.Queue
		deadletters.Letter
	}
	deadletters.Result
	Moved, Deleted int
	Error          struct{ Code, Message string }

	text string
}

func (c letterCalls) call(method, path, body string) (a letterAnswer) {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, "/api/deadletters"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := apptest.ServeDescribed(c.t, c.host, r, body)
	a.Code, a.text = w.Code, w.Body.String()
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		c.t.Errorf("%s %s: %s: %v", method, path, w.Body, err)
	}
	return a
}

// TestDeadLetterRoutes: dead letters of every writer are listed with what they
// carry, redriven and worked on, or deleted, and then the status has no problem.
func TestDeadLetterRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryBatches(t, memory.NewQueues(nil), nil, "KENNEL_WEBHOOK_ALLOW=https://hooks.example/")
		letters := newMemoryLetters(m)
		host := apiOf(t, m)
		edge.ServeRoutes(host, letters.Routes())
		c := letterCalls{t, host}
		if got := c.call("GET", "", ""); got.Code != 200 || got.text != `{"items":[]}`+"\n" {
			t.Errorf("no dead letters: %d %s", got.Code, got.text)
		}

		// Parcels of two batches fail, of which one is too long for its message.
		short := m.call(t, host, "POST", "/api/batches?processor=billing", apptest.Items(2))
		long := m.call(t, host, "POST", "/api/batches?processor=webhook", longItem())
		if short.Code != 202 || long.Code != 202 {
			t.Fatalf("submitted: %s, %s", short.Body, long.Body)
		}
		opened, err := m.open()
		if err != nil {
			t.Fatal(err)
		}
		box := opened.letterbox(m.letters[work.ExpressQueue], m.BatchResource.Log)
		for _, q := range m.queues.All(work.ExpressQueue) {
			received, err := m.queues.Receive(t.Context(), work.ExpressQueue, 1, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			text, err := worker.TextOf(received[0].Body)
			if err != nil {
				t.Fatal(err)
			}
			if err := box.Move(t.Context(), customhandler.QueueMessage{Text: text, ID: q.ID, DequeueCount: 7}, errors.New("out of order")); err != nil {
				t.Fatal(err)
			}
			if err := m.queues.Delete(t.Context(), work.ExpressQueue, received[0]); err != nil {
				t.Fatal(err)
			}
		}
		// The host moves two messages as they are, of which one is no text.
		const express = "/" + work.ExpressQueue + queue.PoisonSuffix
		for _, body := range []string{"not a parcel", base64.StdEncoding.EncodeToString([]byte("\xff\x00"))} {
			if _, err := m.queues.Put(t.Context(), express[1:], body, 0); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)

		if got := c.call("GET", "", ""); len(got.Items) != 1 || got.text != `{"items":[{"queue":"work-express-poison","source":"work-express","messages":4}]}`+"\n" {
			t.Errorf("queues: %s", got.text)
		}
		list := c.call("GET", express, "")
		if list.Code != 200 || len(list.Items) != 4 || list.More {
			t.Fatalf("letters: %d %s", list.Code, list.text)
		}
		byBody := make(map[string]deadletters.Letter)
		for _, item := range list.Items {
			letter := item.Letter
			_, lines, isParcel := strings.Cut(letter.Body, "\n")
			switch {
			case isParcel && letter.Cut:
				byBody["long"] = letter
			case isParcel:
				byBody[lines] = letter
			default:
				byBody[letter.Body] = letter
			}
		}
		check := func(name string, by deadletters.Mover, attempts int64, reason string, encoding deadletters.Encoding) {
			t.Helper()
			l, ok := byBody[name]
			if !ok || l.MovedBy != by || !strings.Contains(l.Reason, reason) || l.Encoding != encoding || (l.Attempts == nil) != (attempts == 0) || attempts > 0 && *l.Attempts != attempts || l.Problem != "" {
				t.Errorf("%q: %+v", name, l)
			}
		}
		check(apptest.Items(2), deadletters.ByKennel, 7, "out of order", deadletters.AsText)
		check("long", deadletters.ByKennel, 7, "out of order", deadletters.AsText)
		check("not a parcel", deadletters.ByHost, 0, "It is not base64 of text", deadletters.AsText)
		check("/wA=", deadletters.ByHost, 0, "log of the app", deadletters.AsBase64)
		if problems := m.Problems(); len(problems) != 1 || problems[0].Code != "dead_letters" {
			t.Errorf("problems: %+v, want dead letters", problems)
		}

		// A dry run changes nothing.
		before := m.queues.All(express[1:])
		if got := c.call("POST", express+"/redrive", `{"all":true,"dryRun":true}`); got.Code != 200 || got.Matched != 4 || got.Moved != 0 {
			t.Errorf("dry run: %d %s", got.Code, got.text)
		}
		if after := m.queues.All(express[1:]); !slices.Equal(before, after) {
			t.Errorf("after a dry run the dead letters are %+v, want %+v", after, before)
		}

		// One is redriven, two are deleted, and then all the others redriven.
		if got := c.call("POST", express+"/redrive", fmt.Sprintf(`{"ids":[%q]}`, byBody[apptest.Items(2)].ID)); got.Code != 200 || got.Matched != 1 || got.Moved != 1 || got.More || len(got.Left) > 0 {
			t.Errorf("redrive one: %d %s", got.Code, got.text)
		}
		m.deliver(t)
		if b := m.call(t, host, "GET", "/api/batches/"+short.ID, ""); b.State != work.Done || b.Done != 2 {
			t.Errorf("the batch of the redriven parcel: %s", b.Body)
		}
		if got := c.call("POST", express+"/delete", fmt.Sprintf(`{"ids":[%q,%q]}`, byBody["not a parcel"].ID, byBody["/wA="].ID)); got.Code != 200 || got.Matched != 2 || got.Deleted != 2 {
			t.Errorf("delete two: %d %s", got.Code, got.text)
		}
		if got := c.call("POST", express+"/redrive", `{"all":true,"ratePerSecond":1,"limit":10}`); got.Code != 200 || got.Matched != 1 || got.Moved != 1 || got.Before.IsZero() {
			t.Errorf("redrive the rest: %d %s", got.Code, got.text)
		}
		if problems := m.Problems(); len(problems) != 0 {
			t.Errorf("problems: %+v, want none at once", problems)
		}
		redriven := m.queues.All(work.ExpressQueue)
		if len(redriven) != 1 {
			t.Fatalf("redriven: %+v, want the long parcel", redriven)
		}
		text, err := worker.TextOf(redriven[0].Body)
		if err != nil {
			t.Fatal(err)
		}
		if e, _, err := opened.claims.Unpack(t.Context(), text); err != nil || e.Attempts != 0 || e.Reason != "" || !strings.HasPrefix(e.ID, long.ID) {
			t.Errorf("redriven: %+v, %v, want the parcel as it was", e, err)
		}
		if got := c.call("POST", express+"/redrive", `{"all":true}`); got.Code != 200 || got.Matched != 0 || got.More {
			t.Errorf("redrive nothing: %d %s", got.Code, got.text)
		}
		log := m.log.String()
		for _, line := range []string{
			`"msg":"dead letters redriven","queue":"work-express-poison","letters":1,"left":0,"more":false`,
			`"msg":"dead letters deleted","queue":"work-express-poison","letters":2,"left":0,"more":false`,
		} {
			if !strings.Contains(log, line) {
				t.Errorf("the log has no %s:\n%s", line, log)
			}
		}
		if n := strings.Count(log, `"msg":"dead letters redriven"`); n != 3 {
			t.Errorf("%d redrives are logged, want 3", n)
		}
	})
}

// TestDeadLettersWithoutID: messages whose ids the host does not name are not
// taken for copies of each other, of which a redrive would put only one.
func TestDeadLettersWithoutID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryBatches(t, memory.NewQueues(nil), nil)
		letters := newMemoryLetters(m)
		host := apiOf(t, m)
		edge.ServeRoutes(host, letters.Routes())
		c := letterCalls{t, host}
		for _, text := range []string{"not a parcel", "no parcel"} {
			if err := m.parcels(work.ExpressQueue)(t.Context(), customhandler.QueueMessage{Text: text, DequeueCount: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := m.queues.Put(t.Context(), work.ExpressQueue, "", 0); err != nil { // creates the queue
			t.Fatal(err)
		}
		got := c.call("POST", "/work-express-poison/redrive", `{"all":true}`)
		if n := len(m.queues.All(work.ExpressQueue)) - 1; got.Code != 200 || got.Matched != 2 || got.Moved != 2 || n != 2 {
			t.Errorf("%d %s, put %d", got.Code, got.text, n)
		}
	})
}

// longItem returns an item of about the maximum length, whose parcel does not fit
// into a message and is cut in a list.
func longItem() string {
	var body strings.Builder
	for body.Len() < 65_400 {
		body.WriteString(rand.Text())
	}
	return `{"id":"long","url":"https://hooks.example/a","body":"` + body.String() + `"}`
}

// TestDeadLetterFailures: a call that cannot be carried out has its code.
func TestDeadLetterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := ""
		var allowed atomic.Int64 // requests before the first one that is refused
		queues := memory.NewQueues(&memory.Options{Fault: func(c memory.Call) memory.Fault {
			if c.Op == refused && allowed.Add(-1) < 0 {
				return memory.Fault{Err: queue.ErrRefused, Lost: true}
			}
			return memory.Fault{}
		}})
		m := newMemoryBatches(t, queues, nil)
		letters := newMemoryLetters(m)
		host, err := customhandler.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		edge.ServeRoutes(host, letters.Routes())
		c := letterCalls{t, host}
		if _, err := queues.Put(t.Context(), "orders-poison", "x", 0); err != nil {
			t.Fatal(err)
		}
		if got := c.call("POST", "/orders-poison/redrive", `{"all":true}`); got.Code != 409 || got.Error.Code != "source_missing" || len(queues.All("orders-poison")) != 1 {
			t.Errorf("no source: %d %s", got.Code, got.text)
		}
		if got := c.call("GET", "/none-poison", ""); got.Code != 200 || got.text != `{"items":[]}`+"\n" {
			t.Errorf("list of no queue: %d %s", got.Code, got.text)
		}
		if got := c.call("POST", "/none-poison/delete", `{"all":true}`); got.Code != 200 || got.Matched != 0 {
			t.Errorf("delete of no queue: %d %s", got.Code, got.text)
		}
		refused = "Receive"
		if got := c.call("POST", "/orders-poison/delete", `{"all":true}`); got.Code != 503 || got.Error.Code != "storage_unavailable" {
			t.Errorf("storage refuses: %d %s", got.Code, got.text)
		}
		refused = ""
		for _, name := range []string{"orders", "orders-poison"} {
			if _, err := queues.Put(t.Context(), name, "y", 0); err != nil {
				t.Fatal(err)
			}
		}
		refused = "Put"
		allowed.Store(1)
		if got := c.call("POST", "/orders-poison/redrive", `{"all":true}`); got.Code != 503 || got.Error.Code != "change_unclear" || len(queues.All("orders")) != 2 || len(queues.All("orders-poison")) != 1 {
			t.Errorf("storage refuses the second: %d %s", got.Code, got.text)
		}

		off := &api.LetterResource{Open: func() (*api.OpenLetters, error) { return nil, errors.New("no queues") }}
		host, err = customhandler.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		edge.ServeRoutes(host, off.Routes())
		if got := (letterCalls{t, host}).call("GET", "", ""); got.Code != 501 || got.Error.Code != "dead_letters_off" {
			t.Errorf("without queues: %d %s", got.Code, got.text)
		}
	})
}
