package queue

import (
	"bytes"
	"encoding/xml"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"kennel/devstore/internal/rest"
)

// records is a log in memory.
type records [][]byte

func (r *records) Append(record []byte) { *r = append(*r, bytes.Clone(record)) }

// A client calls a service at a time that its test sets.
type client struct {
	t    testing.TB
	s    *Service
	log  *records
	now  time.Time
	name string // of the queue
}

func newClient(t testing.TB, seed uint64) *client {
	log := new(records)
	return &client{t: t, s: New(log, seed), log: log, now: time.Date(2026, 3, 4, 5, 6, 7, 123_456_700, time.UTC), name: "jobs"}
}

func (c *client) wait(d time.Duration) { c.now = c.now.Add(d) }

// call sends a request to a path and query below the account.
func (c *client) call(method, target, body string, headers ...string) (*rest.Answer, *rest.Error) {
	c.t.Helper()
	path, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		c.t.Fatal(err)
	}
	r := &rest.Request{
		HTTP: httptest.NewRequest(method, "http://127.0.0.1:10001/dev/"+path, nil), Account: "dev",
		Path: path, Query: values, Body: []byte(body), Now: c.now, ID: "id",
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.HTTP.Header.Add(headers[i], headers[i+1])
	}
	o, err := c.s.Route(r)
	var answer *rest.Answer
	if err == nil {
		if int64(len(body)) > o.MaxBody {
			c.t.Fatalf("the body of %s has %d bytes, which the store does not let pass", o.Name, len(body))
		}
		answer, err = o.Run(r)
	}
	if err == nil {
		return answer, nil
	}
	var e *rest.Error
	if !errors.As(err, &e) {
		c.t.Fatalf("%s %s: error %v is no rest.Error", method, target, err)
	}
	return nil, e
}

// ok sends a request that must be answered with this status.
func (c *client) ok(status int, method, target, body string, headers ...string) *rest.Answer {
	c.t.Helper()
	answer, err := c.call(method, target, body, headers...)
	if err != nil {
		c.t.Fatalf("%s %s: %v %q", method, target, err, err.Details)
	}
	if answer.Status != status {
		c.t.Fatalf("%s %s: status %d, want %d", method, target, answer.Status, status)
	}
	return answer
}

// refused sends a request that must be answered with this error.
func (c *client) refused(status int, code, method, target, body string, headers ...string) *rest.Error {
	c.t.Helper()
	_, err := c.call(method, target, body, headers...)
	if err == nil || err.Status != status || err.Code != code {
		c.t.Errorf("%s %s: %v, want %d %s", method, target, err, status, code)
		return new(rest.Error)
	}
	return err
}

// A got message is one of an answer.
type got struct {
	MessageID       string `xml:"MessageId"`
	InsertionTime   string
	ExpirationTime  string
	PopReceipt      string
	TimeNextVisible string
	DequeueCount    int
	MessageText     string
}

func messages(t testing.TB, answer *rest.Answer) []got {
	t.Helper()
	var list struct {
		XMLName  xml.Name `xml:"QueueMessagesList"`
		Messages []got    `xml:"QueueMessage"`
	}
	if err := xml.Unmarshal(answer.Body, &list); err != nil {
		t.Fatal(err)
	}
	return list.Messages
}

func (c *client) create() {
	c.t.Helper()
	c.ok(201, "PUT", c.name, "")
}

func body(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text))
	return "<QueueMessage><MessageText>" + b.String() + "</MessageText></QueueMessage>"
}

func (c *client) put(text, query string) got {
	c.t.Helper()
	return messages(c.t, c.ok(201, "POST", c.name+"/messages?"+query, body(text)))[0]
}

func (c *client) receive(query string) []got {
	c.t.Helper()
	return messages(c.t, c.ok(200, "GET", c.name+"/messages?"+query, ""))
}

func (c *client) peek(query string) []got {
	c.t.Helper()
	return messages(c.t, c.ok(200, "GET", c.name+"/messages?peekonly=true&"+query, ""))
}

func (m got) path(queue string) string {
	return queue + "/messages/" + m.MessageID + "?popreceipt=" + url.QueryEscape(m.PopReceipt)
}

// update returns the message with its new receipt.
func (c *client) update(m got, query, body string) got {
	c.t.Helper()
	answer := c.ok(204, "PUT", m.path(c.name)+"&"+query, body)
	m.PopReceipt, m.TimeNextVisible = answer.Header.Get("x-ms-popreceipt"), answer.Header.Get("x-ms-time-next-visible")
	return m
}

func (c *client) count() string {
	c.t.Helper()
	return c.ok(200, "GET", c.name+"?comp=metadata", "").Header.Get("x-ms-approximate-messages-count")
}

func (c *client) wantCount(want string) {
	c.t.Helper()
	if got := c.count(); got != want {
		c.t.Errorf("approximate count = %s, want %s", got, want)
	}
}

// reopened returns a client of a service that has read the log of this one.
func (c *client) reopened() *client {
	c.t.Helper()
	again := *c
	again.log = new(records)
	again.s = New(again.log, c.s.seed)
	for _, record := range *c.log {
		if err := again.s.Apply(record); err != nil {
			c.t.Fatal(err)
		}
	}
	return &again
}

// copied returns a client of a service that was built from a snapshot.
func (c *client) copied() *client {
	c.t.Helper()
	again := *c
	again.log = new(records)
	again.s = New(again.log, c.s.seed)
	if err := c.s.Snapshot(again.s.Apply); err != nil {
		c.t.Fatal(err)
	}
	return &again
}

func date(t time.Time) string { return t.UTC().Format(http.TimeFormat) }
