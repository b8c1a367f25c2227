package queue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"kennel/devstore/internal/rest"
)

func request(method, target string) *rest.Request {
	path, query, _ := strings.Cut(target, "?")
	values, _ := url.ParseQuery(query)
	return &rest.Request{HTTP: httptest.NewRequest(method, "http://127.0.0.1:10001/dev/", nil), Account: "dev", Path: path, Query: values}
}

// A modelMessage is a message as a simple model of a queue holds it.
type modelMessage struct {
	got
	visible, expires time.Time
}

// A model holds the messages in the order of their arrival.
type model []*modelMessage

func (m *model) advance(now time.Time) {
	var left model
	for _, message := range *m {
		if message.expires.After(now) {
			left = append(left, message)
		}
	}
	*m = left
}

func (m model) next(now time.Time, count int) model {
	var next model
	for _, message := range m {
		if !message.visible.After(now) && len(next) < count {
			next = append(next, message)
		}
	}
	return next
}

// TestRandomCalls compares the service with the model, and what its log and its
// snapshot rebuild with itself.
func TestRandomCalls(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			c := newClient(t, 0)
			c.create()
			var m model
			for step := range 400 {
				if random.IntN(3) == 0 {
					c.wait(time.Duration(random.IntN(3000)) * time.Millisecond)
				}
				m.advance(c.now)
				m = randomCall(c, random, m, step)
				if random.IntN(100) == 0 {
					log := *c.log
					c = c.reopened()
					*c.log = log
				}
				if random.IntN(100) == 0 {
					c.copied().wantCount(fmt.Sprint(len(m)))
				}
				if t.Failed() {
					t.Fatalf("at step %d", step)
				}
			}
		})
	}
}

func randomCall(c *client, random *rand.Rand, m model, step int) model {
	count, seconds := 1+random.IntN(4), random.IntN(8)
	switch random.IntN(8) {
	case 0, 1:
		life := 1 + seconds + random.IntN(20)
		put := c.put(fmt.Sprint(step), fmt.Sprintf("visibilitytimeout=%d&messagettl=%d", seconds, life))
		put.MessageText = fmt.Sprint(step)
		m = append(m, &modelMessage{put, c.now.Add(time.Duration(seconds) * time.Second), c.now.Add(time.Duration(life) * time.Second)})
	case 2, 3:
		next := m.next(c.now, count)
		received := c.receive(fmt.Sprintf("numofmessages=%d&visibilitytimeout=%d", count, 1+seconds))
		if len(received) != len(next) {
			c.t.Errorf("received %+v, want %d messages", received, len(next))
			return m
		}
		for i, message := range next {
			message.DequeueCount++
			if received[i].MessageID != message.MessageID || received[i].MessageText != message.MessageText || received[i].DequeueCount != message.DequeueCount {
				c.t.Errorf("received %+v, want %+v", received[i], message)
			}
			message.PopReceipt = received[i].PopReceipt
			message.visible = c.now.Add(time.Duration(1+seconds) * time.Second)
		}
	case 4:
		if got, want := len(c.peek(fmt.Sprintf("numofmessages=%d", count))), len(m.next(c.now, count)); got != want {
			c.t.Errorf("peeked at %d messages, want %d", got, want)
		}
		c.wantCount(fmt.Sprint(len(m)))
	default:
		if len(m) > 0 {
			m = randomChange(c, random, m, seconds, step)
		}
	}
	return m
}

func randomChange(c *client, random *rand.Rand, m model, seconds, step int) model {
	i := random.IntN(len(m))
	message := m[i]
	visible := c.now.Add(time.Duration(seconds) * time.Second)
	switch random.IntN(4) {
	case 0:
		c.ok(204, "DELETE", message.path(c.name), "")
		c.refused(404, "MessageNotFound", "DELETE", message.path(c.name), "")
		return append(m[:i:i], m[i+1:]...)
	case 1:
		if visible.After(message.expires) {
			break
		}
		message.got = c.update(message.got, fmt.Sprintf("visibilitytimeout=%d", seconds), "")
		message.visible = visible
	case 2:
		if visible.After(message.expires) {
			break
		}
		message.got = c.update(message.got, fmt.Sprintf("visibilitytimeout=%d", seconds), body(fmt.Sprint(step)))
		message.MessageText, message.visible = fmt.Sprint(step), visible
	case 3:
		stale := message.got
		stale.PopReceipt = formatReceipt(1)
		c.refused(404, "MessageNotFound", "DELETE", stale.path(c.name), "")
	}
	return m
}

func TestHeap(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 0))
	h := heap{slot: func(m *message) *int32 { return &m.slot }, less: func(a, b *message) bool { return a.place < b.place }}
	var items []*message
	for step := range 5000 {
		if len(items) < 10 || random.IntN(2) == 0 {
			m := &message{place: random.Uint64N(1000)}
			items = append(items, m)
			h.push(m)
		} else {
			i := random.IntN(len(items))
			h.remove(items[i])
			items = append(items[:i], items[i+1:]...)
		}
		for i, m := range h.items {
			if int(m.slot) != i || h.less(m, h.items[max(i-1, 0)/2]) {
				t.Fatalf("seed %d, step %d: the message at %d is out of order or knows slot %d", seed, step, i, m.slot)
			}
		}
		if len(h.items) != len(items) {
			t.Fatalf("seed %d, step %d: %d messages, want %d", seed, step, len(h.items), len(items))
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte(body("a")))
	f.Add([]byte("<QueueMessage><MessageText>&#xd;<![CDATA[ ]]></MessageText></QueueMessage>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := readText(data)
		if err != nil {
			return
		}
		again, err := readText([]byte(body(text)))
		if err != nil || again != text {
			t.Errorf("%q was read as %q, then as %q, %v", data, text, again, err)
		}
	})
}

func FuzzPolicies(f *testing.F) {
	f.Add([]byte("<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>2026-01-01</Start><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		policies, err := readPolicies(data)
		if err == nil && len(policies) > maxPolicies {
			t.Errorf("%q has %d policies", data, len(policies))
		}
	})
}

// FuzzApply applies a record to a service that has a queue with a message.
func FuzzApply(f *testing.F) {
	c := newClient(f, 0)
	c.create()
	c.put("a", "")
	c.update(c.receive("")[0], "visibilitytimeout=1", body("b"))
	c.ok(204, "DELETE", "jobs/messages", "")
	for _, record := range *c.log {
		f.Add(record)
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		s := New(rest.Memory{}, 0)
		for _, known := range (*c.log)[:2] {
			if err := s.Apply(known); err != nil {
				t.Fatal(err)
			}
		}
		if s.Apply(record) != nil {
			return
		}
		again := New(rest.Memory{}, 0)
		if err := s.Snapshot(again.Apply); err != nil {
			t.Errorf("after record %q the snapshot cannot be read: %v", record, err)
		}
	})
}

// FuzzCall sends any request to a service that has a queue with a message.
func FuzzCall(f *testing.F) {
	f.Add("GET", "jobs/messages", "numofmessages=32&visibilitytimeout=1", "")
	f.Add("POST", "jobs/messages", "messagettl=-1&visibilitytimeout=7", body("a"))
	f.Add("PUT", "jobs/messages/a", "popreceipt=AAAA&visibilitytimeout=7", "")
	f.Add("GET", "", "comp=list&prefix=j&marker=/dev/a&maxresults=1&include=metadata", "")
	f.Add("PUT", "%2f%", "comp=acl", "<SignedIdentifiers/>")
	f.Add("PUT", "", "restype=service&comp=properties", "<StorageServiceProperties/>")
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		c := newClient(t, 0)
		c.create()
		c.put("a", "")
		r := request("GET", path+"?"+query)
		r.HTTP.Method, r.Body, r.Now = method, []byte(body), c.now
		o, err := c.s.Route(r)
		if err == nil && o.Run != nil {
			_, err = o.Run(r)
		}
		var known *rest.Error
		if err != nil && !errors.As(err, &known) {
			t.Errorf("error %v is no rest.Error", err)
		}
		c.wait(time.Hour)
		if err := c.s.Snapshot(c.reopened().s.Apply); err != nil {
			t.Errorf("the snapshot does not fit to the log: %v", err)
		}
	})
}

// BenchmarkDeepQueue receives and deletes a message of a queue of 100,000, then
// puts another.
func BenchmarkDeepQueue(b *testing.B) {
	c := newClient(b, 0)
	c.s.log = rest.Memory{}
	c.create()
	text := strings.Repeat("a", 200)
	for range 100_000 {
		c.put(text, "")
	}
	get, put, remove := request("GET", ""), request("POST", ""), request("DELETE", "")
	put.Body = []byte(body(text))
	element := func(answer, name string) string {
		_, after, _ := strings.Cut(answer, "<"+name+">")
		inner, _, _ := strings.Cut(after, "<")
		return inner
	}
	b.ReportAllocs()
	for b.Loop() {
		c.wait(time.Millisecond)
		get.Now, put.Now, remove.Now = c.now, c.now, c.now
		answer, err := c.s.getMessages(get, "jobs")
		if err != nil {
			b.Fatal(err)
		}
		received := string(answer.Body)
		remove.Query.Set("popreceipt", element(received, "PopReceipt"))
		if _, err := c.s.deleteMessage(remove, "jobs", element(received, "MessageId")); err != nil {
			b.Fatal(err)
		}
		if _, err := c.s.putMessage(put, "jobs"); err != nil {
			b.Fatal(err)
		}
	}
}
