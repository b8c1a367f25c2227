package azure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"kennel/channels"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

// channelStores are two tables and a queue on storage, which outlive all
// processes.
type channelStores struct {
	channels, blogs, queue string
}

// newChannelStores creates the queue, so that every message later takes the
// same number of requests.
func newChannelStores(t testing.TB) *channelStores {
	t.Helper()
	s := &channelStores{uniqueTable(), uniqueTable(), storetest.Name()}
	outbox := openOutbox(t, openQueues(t, nil), s.queue)
	receipt, err := outbox.Put(t.Context(), "x", time.Hour)
	if err == nil {
		err = outbox.Delete(t.Context(), receipt)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// channelProcess is the channels as one process sees them.
type channelProcess struct {
	*channels.Channels
	*storetest.Process
	blogs  *Table
	queues *Queues
}

// start returns a new process, which may be killed at any of its HTTP
// requests.
func (s *channelStores) start(t testing.TB, o *channels.Options, kill *storetest.Killer) *channelProcess {
	t.Helper()
	p := storetest.NewProcess(kill)
	network := &Options{HTTP: &http.Client{Transport: p.Transport(http.DefaultTransport)}}
	tables, queues := openTables(t, network), openQueues(t, network)
	blogs := openTable(t, tables, s.blogs)
	c, err := channels.New(openTable(t, tables, s.channels), blogs, undelayed{openOutbox(t, queues, s.queue)}, o)
	if err != nil {
		t.Fatal(err)
	}
	return &channelProcess{c, p, blogs, queues}
}

// undelayed is an outbox that delivers messages without delay.
type undelayed struct{ *queue.Outbox }

func (o undelayed) Put(ctx context.Context, text string, _ time.Duration) (string, error) {
	return o.Outbox.Put(ctx, text, 0)
}

// create creates a channel with n blogs and returns its incarnation.
func (s *channelStores) create(t testing.TB, name string, n int) string {
	t.Helper()
	p := s.start(t, nil, nil)
	ch, created, err := p.Create(t.Context(), name, "ann")
	if err != nil || !created {
		t.Fatalf("create: %v, %v", created, err)
	}
	if _, err := storetest.FillPartition(t.Context(), p.blogs, name+"@"+ch.Incarnation, n); err != nil {
		t.Fatal(err)
	}
	return ch.Incarnation
}

// host processes the queue like the Functions host until it is empty. The lease
// of a killed process ends at once. It returns the messages.
func (s *channelStores) host(t *testing.T, start func() *channelProcess) (texts []string) {
	t.Helper()
	queues := openQueues(t, nil)
	for {
		messages, err := queues.Receive(t.Context(), s.queue, 1, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if len(messages) == 0 {
			return texts
		}
		m := messages[0]
		text, err := base64.StdEncoding.DecodeString(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
		p := start()
		_, err = p.Handle(p.Context(), string(text))
		switch {
		case p.Dead():
			_, err = queues.Update(t.Context(), s.queue, m, 0)
		case err == nil:
			err = queues.Delete(t.Context(), s.queue, m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestKilledAtEachRequest kills the deleting process before and after its HTTP
// requests, and lets other processes continue. The test of package channels
// does this in many more situations; here the requests, answers and races are
// real.
func TestKilledAtEachRequest(t *testing.T) {
	t.Parallel()
	seed := storetest.Seed(t)
	var runs atomic.Int64
	largest := storetest.Scale(101, 1_001)
	t.Cleanup(func() {
		if !t.Failed() {
			t.Logf("figure: rows left on storage, killed at each request (0 to %d blogs, %d runs) | 0 | 0", largest, runs.Load())
		}
	})
	for _, size := range []struct{ blogs, sample, prove int }{{0, 1, all}, {1, 1, all}, {101, 1, all}, {1_001, 0, 8}}[:storetest.Scale(3, 4)] {
		t.Run(fmt.Sprintf("%d blogs", size.blogs), func(t *testing.T) {
			t.Parallel()
			s := newChannelStores(t)
			rng := rand.New(rand.NewPCG(seed, uint64(size.blogs)))
			for _, leftToHandle := range []bool{false, true} {
				o := &channels.Options{AcceptFor: time.Minute} // enough on a busy machine
				if leftToHandle {
					o.AcceptFor = -1
				}
				whole := &storetest.Killer{N: 1 << 62}
				s.kill(t, fmt.Sprint("whole-", leftToHandle), size.blogs, o, whole)
				numbers := rng.Perm(int(whole.Sent()))
				for _, k := range numbers[:min(storetest.Scale(size.sample, size.prove), len(numbers))] {
					for _, after := range []bool{false, true} {
						kill := &storetest.Killer{N: int64(k) + 1, After: after}
						s.kill(t, fmt.Sprint("news-", runs.Add(1)), size.blogs, o, kill)
						if !kill.Struck() || t.Failed() {
							t.Fatalf("left to Handle: %v, %v, struck: %v", leftToHandle, kill, kill.Struck())
						}
					}
				}
			}
		})
	}
}

const all = 1 << 30 // more requests than a deletion makes

// kill deletes a channel of n blogs, whose name another client uses again as
// soon as it is free.
func (s *channelStores) kill(t *testing.T, name string, n int, o *channels.Options, kill *storetest.Killer) {
	t.Helper()
	incarnation := s.create(t, name, n)
	worker := func() *channelProcess { return s.start(t, o, kill) }
	other := s.start(t, nil, nil)

	var next *successor
	var messages []string
	for next == nil {
		p := worker()
		if _, err := p.Delete(p.Context(), name, incarnation); err != nil && !p.Dead() {
			t.Fatalf("delete: %v", err)
		}
		next = succeed(t, other, name)
		messages = append(messages, s.host(t, worker)...)
		if next == nil { // the process was killed before Delete returned; it may have put the message
			next = succeed(t, other, name)
		}
	}
	for _, text := range messages {
		if d, err := other.Handle(t.Context(), text); err != nil || d.State != channels.Done || d.Incarnation != incarnation {
			t.Errorf("late message: %+v, %v, want a finished deletion", d, err)
		}
	}
	left := len(rowsOf(t, other.blogs, name+"@"+incarnation))
	storetest.CheckDeleted(t, other.Channels, left, name, incarnation, int64(n))
	next.check(t, other)
}

// successor is a new channel with the name of a deleted one.
type successor struct {
	channels.Channel
	blogs []channels.Blog
}

// succeed creates the successor, or returns nil if the old channel still
// exists.
func succeed(t *testing.T, p *channelProcess, name string) *successor {
	t.Helper()
	ch, created, err := p.Create(t.Context(), name, "zoe")
	switch {
	case errors.Is(err, channels.ErrOwned):
		return nil
	case err != nil || !created:
		t.Fatalf("create again: %v, %v", created, err)
	}
	next := &successor{Channel: ch}
	for _, title := range []string{"first", "second"} {
		blog, err := p.Post(t.Context(), name, channels.Draft{Title: title, Text: "keep me", UserID: "zoe"})
		if err != nil {
			t.Fatalf("post into the new channel: %v", err)
		}
		next.blogs = append(next.blogs, blog)
	}
	return next
}

// check checks that the channel is unchanged.
func (n *successor) check(t *testing.T, p *channelProcess) {
	t.Helper()
	if ch, err := p.Read(t.Context(), n.Name); err != nil || ch.Incarnation != n.Incarnation || ch.Owner != "zoe" {
		t.Errorf("the new channel is %+v, %v", ch, err)
	}
	for _, want := range n.blogs {
		if got, err := p.Blog(t.Context(), n.Name, want.ID); err != nil || got != want {
			t.Errorf("the new channel's blog is %+v, %v, want %+v", got, err, want)
		}
	}
	if rows := len(rowsOf(t, p.blogs, n.Name+"@"+n.Incarnation)); rows != len(n.blogs)+1 {
		t.Errorf("the new channel has %d rows, want a fence and %d blogs", rows, len(n.blogs))
	}
}

// rowsOf returns the rows of a partition, or of all partitions if it is "".
func rowsOf(t *testing.T, store *Table, partition string) (rows []table.Row) {
	t.Helper()
	q := table.Query{Partition: partition, KeysOnly: true, Top: table.MaxPage}
	for {
		page, err := store.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, page.Rows...)
		if q.After = page.Next; q.After == "" {
			return rows
		}
	}
}

// TestWritersOfOneBlog updates one blog by many writers at once.
func TestWritersOfOneBlog(t *testing.T) {
	t.Parallel()
	s := newChannelStores(t)
	s.create(t, "news", 1)
	storetest.TestWriters(t, "on storage", func() *channels.Channels { return s.start(t, nil, nil).Channels }, nil)
}
