package channels_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

const (
	cleanupQueue = "delete-channel-and-blogs"
	lease        = 10 * time.Minute // for which the Functions host takes a message
	retryAfter   = 30 * time.Second // what it waits after a failure
)

// world is what outlives all processes: two tables and a queue.
type world struct {
	channels, blogs *memory.Table
	queues          *memory.Queues
	requests        atomic.Int64 // by processes and by the host
	witness         *witness     // sees what is sent to blogs; nil: nobody looks
}

func newWorld() *world {
	return &world{channels: memory.NewTable(nil), blogs: memory.NewTable(nil), queues: memory.NewQueues(nil)}
}

// clone returns a world of its own in which everything is as it is here.
func (w *world) clone(o *memory.TableOptions) *world {
	return &world{channels: w.channels.Clone(o), blogs: w.blogs.Clone(o), queues: memory.NewQueues(nil)}
}

// process is the channels as one process sees them.
type process struct {
	*channels.Channels
	*storetest.Process
}

// start returns a new process, which may be killed.
func (w *world) start(o *channels.Options, kill *storetest.Killer) *process {
	p := storetest.NewProcess(kill)
	p.Requests = &w.requests
	outbox := p.Outbox(memory.NewOutbox(w.queues, cleanupQueue))
	blogs := channels.Table(w.blogs)
	if w.witness != nil {
		blogs = witnessed{blogs, w.witness}
	}
	return &process{channels.New(p.Table(w.channels), p.Table(blogs), outbox, o), p}
}

// at has a process do something when it first comes to a step.
func at(step string, do func()) *channels.Options {
	var done atomic.Bool
	return &channels.Options{Step: func(name string) {
		if name == step && !done.Swap(true) {
			do()
		}
	}}
}

// creating has the process create the channel news, and delivers how that ends.
func (p *process) creating() <-chan error {
	created := make(chan error)
	go func() {
		_, _, err := p.Create(p.Context(), "news", "ann")
		created <- err
	}()
	return created
}

// host does what the Functions host does with the queue, until it is empty:
// each message starts a process. It returns what belonged into the
// dead-letter queue.
func (w *world) host(t *testing.T, start func() *process) (dead []error) {
	t.Helper()
	begun := time.Now()
	for {
		waiting := w.queues.All(cleanupQueue)
		if len(waiting) == 0 {
			return dead
		}
		if time.Since(begun) > 8*24*time.Hour {
			t.Fatalf("the queue never gets empty: %+v", waiting)
		}
		// The host's own requests may go wrong as well: then it tries again.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		messages, _ := w.queues.Receive(ctx, cleanupQueue, 1, lease)
		if len(messages) == 0 { // polling costs what it costs without us
			next := slices.MinFunc(waiting, func(a, b memory.QueueMessage) int { return a.NextVisible.Compare(b.NextVisible) })
			time.Sleep(max(0, time.Until(next.NextVisible)) + time.Second) // it is told in whole seconds
			cancel()
			continue
		}
		w.requests.Add(1)
		m := messages[0]
		p := start()
		_, err := p.Handle(p.Context(), text(t, m.Body))
		switch {
		case p.Dead(): // nobody is left to answer
		case err == nil, errors.Is(err, channels.ErrMessage):
			if err != nil {
				dead = append(dead, err)
			}
			w.requests.Add(1)
			w.queues.Delete(ctx, cleanupQueue, m)
		default:
			w.queues.Update(ctx, cleanupQueue, m, retryAfter)
		}
		cancel()
	}
}

func text(t *testing.T, body string) string {
	t.Helper()
	decoded, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(decoded)
}

// fill creates a channel and puts n blogs into it, past the API and fast. It
// returns the incarnation.
func (w *world) fill(t testing.TB, name string, n int) string {
	t.Helper()
	ch, created, err := w.start(nil, nil).Create(t.Context(), name, "ann")
	if err != nil || !created {
		t.Fatalf("create: %v, %v", created, err)
	}
	if _, err := storetest.FillPartition(t.Context(), w.blogs, name+"@"+ch.Incarnation, n); err != nil {
		t.Fatal(err)
	}
	return ch.Incarnation
}

// withBlogs returns a world with a channel of two blogs, and one of them.
func withBlogs(t *testing.T) (*world, channels.Blog) {
	t.Helper()
	w := newWorld()
	w.fill(t, "news", 2)
	blogs, err := w.start(nil, nil).Blogs(t.Context(), "news", 2, "")
	if err != nil {
		t.Fatal(err)
	}
	return w, blogs.Items[0]
}

// gone checks that nothing is left of an incarnation but its record.
func (w *world) gone(t *testing.T, name, incarnation string, deleted int64) {
	t.Helper()
	storetest.CheckDeleted(t, w.start(nil, nil).Channels, w.blogs.Rows(name+"@"+incarnation), name, incarnation, deleted)
}
