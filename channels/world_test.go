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
	"kennel/internal/table"
	"kennel/queue"
)

const (
	cleanupQueue = "delete-channel-and-blogs"
	lease        = 10 * time.Minute // of the Functions host
	retryAfter   = 30 * time.Second // the host's pause after a failure
)

// world is what outlives all processes: two tables and a queue.
type world struct {
	channels, blogs *memory.Table
	queues          *memory.Queues
	requests        atomic.Int64 // by processes and by the host
}

func newWorld() *world {
	return &world{channels: memory.NewTable(nil), blogs: memory.NewTable(nil), queues: memory.NewQueues(nil)}
}

// clone returns another world with the same rows and no messages. In a
// synctest bubble, use a clone of a world from outside.
func (w *world) clone(o *memory.TableOptions) *world {
	return &world{channels: w.channels.Clone(o), blogs: w.blogs.Clone(o), queues: memory.NewQueues(nil)}
}

// hit returns a clone whose requests fail as fault determines.
func (w *world) hit(fault func(memory.Call) memory.Fault) *world {
	o := &memory.TableOptions{Options: memory.Options{Fault: fault}}
	hit := w.clone(o)
	hit.queues = memory.NewQueues(&o.Options)
	return hit
}

// wait waits until no request is in flight.
func (w *world) wait() {
	w.channels.Wait()
	w.blogs.Wait()
	w.queues.Wait()
}

// process is the channels as one process sees them.
type process struct {
	*channels.Channels
	*storetest.Process
}

// start returns a new process, which may be killed.
func (w *world) start(o *channels.Options, kill *storetest.Killer) *process {
	return w.watch(o, kill, nil)
}

// watch is start with a function that is called after each write, before the
// process gets the answer.
func (w *world) watch(o *channels.Options, kill *storetest.Killer, did func(p *process, writes []table.Write, err error)) *process {
	p := &process{Process: storetest.NewProcess(kill)}
	p.Requests = &w.requests
	watched := func(store table.Store) table.Store {
		if did == nil {
			return p.Table(store)
		}
		return p.Table(hooked{Store: store, submitted: func(writes []table.Write, err error) { did(p, writes, err) }})
	}
	p.Channels = open(watched(w.channels), watched(w.blogs), p.Outbox(memory.NewOutbox(w.queues, cleanupQueue)), o)
	return p
}

func open(channelTable, blogs table.Store, outbox channels.Outbox, o *channels.Options) *channels.Channels {
	c, err := channels.New(channelTable, blogs, outbox, o)
	if err != nil {
		panic(err)
	}
	return c
}

// with returns channels with other tables than the world's own.
func (w *world) with(channelTable, blogs table.Store, o *channels.Options) *channels.Channels {
	return open(channelTable, blogs, memory.NewOutbox(w.queues, cleanupQueue), o)
}

// step names the effect of a transaction: the state that it gives an
// incarnation, or the other row that it inserts or removes.
func step(writes []table.Write) string {
	switch w := writes[0]; {
	case w.Row.Key == "!fence" && w.Verb == table.Insert:
		return "fence created"
	case w.Row.Key == "!fence" && w.Verb == table.Delete:
		return "fence removed"
	case w.Row.Key == "name" && w.Verb == table.Insert:
		return "live"
	case w.Row.Key == "name":
		return "marked"
	case w.Verb == table.Delete:
		return "erased"
	default:
		return w.Row.Values["state"]
	}
}

// startAt returns a process that calls do after its first write of that step.
func (w *world) startAt(name string, do func(*process)) *process {
	var done atomic.Bool
	return w.watch(nil, nil, func(p *process, writes []table.Write, err error) {
		if err == nil && step(writes) == name && !done.Swap(true) {
			do(p)
		}
	})
}

// dieAt runs a process that is killed after its first write of that step.
func (w *world) dieAt(name string, do func(*process)) { do(w.startAt(name, (*process).Die)) }

// stall leaves a deletion that no process continues.
func (w *world) stall(name string) {
	w.dieAt("marked", func(p *process) {
		p.Create(p.Context(), name, "ann")
		p.Delete(p.Context(), name, "")
	})
}

// creating starts to create the channel news, and returns the result when it is
// read.
func (p *process) creating() <-chan error {
	created := make(chan error)
	go func() { created <- last(p.Create(p.Context(), "news", "ann")) }()
	return created
}

// hooked is a table that calls functions of a test around requests.
type hooked struct {
	table.Store
	instead   func(ctx context.Context, writes []table.Write) (handled bool, err error) // of a Submit
	submitted func(writes []table.Write, err error)
	queried   func(table.Page)
}

func (h hooked) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	if h.instead != nil {
		if handled, err := h.instead(ctx, writes); handled {
			return make([]string, len(writes)), err
		}
	}
	versions, err := h.Store.Submit(ctx, writes...)
	if h.submitted != nil {
		h.submitted(writes, err)
	}
	return versions, err
}

func (h hooked) Query(ctx context.Context, q table.Query) (table.Page, error) {
	page, err := h.Store.Query(ctx, q)
	if h.queried != nil {
		h.queried(page)
	}
	return page, err
}

// host processes the queue like the Functions host until it is empty. Each
// message starts a process. It returns the errors of messages that belong in
// the dead-letter queue.
func (w *world) host(t *testing.T, start func() *process) (dead []error) {
	t.Helper()
	begun := time.Now()
	for {
		waiting := w.queues.All(cleanupQueue)
		if len(waiting) == 0 {
			return dead
		}
		if time.Since(begun) > 8*24*time.Hour {
			t.Fatalf("the queue is not empty after 8 days: %+v", waiting)
		}
		// If the host's own requests fail, it tries again.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		messages, _ := w.queues.Receive(ctx, cleanupQueue, 1, lease)
		if len(messages) == 0 { // polling is not counted: it costs the same without a deletion
			next := slices.MinFunc(waiting, func(a, b queue.Message) int { return a.NextVisible.Compare(b.NextVisible) })
			time.Sleep(max(0, time.Until(next.NextVisible)) + time.Second) // the queue returns whole seconds
			cancel()
			continue
		}
		w.requests.Add(1)
		m := messages[0]
		p := start()
		_, err := p.Handle(p.Context(), text(t, m.Body))
		switch {
		case p.Dead(): // it does not answer
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

// plain is host with processes that are not killed.
func (w *world) plain(t *testing.T) {
	t.Helper()
	w.host(t, func() *process { return w.start(nil, nil) })
}

func text(t *testing.T, body string) string {
	t.Helper()
	decoded, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(decoded)
}

// fill creates a channel and writes n blogs directly into the table, which is
// fast. It returns the incarnation.
func (w *world) fill(t testing.TB, name string, n int) string {
	t.Helper()
	ch, created, err := w.start(nil, nil).Create(t.Context(), name, "ann")
	if err != nil || !created {
		t.Fatalf("create: %v, %v", created, err)
	}
	must(t, errorOf(storetest.FillPartition(t.Context(), w.blogs, name+"@"+ch.Incarnation, n)))
	return ch.Incarnation
}

// filled returns a world with the channel news of n blogs, and its incarnation.
func filled(t testing.TB, n int) (*world, string) {
	t.Helper()
	w := newWorld()
	return w, w.fill(t, "news", n)
}

// withBlogs returns a world with a channel of two blogs, and the first of them.
func withBlogs(t *testing.T) (*world, channels.Blog) {
	t.Helper()
	w, _ := filled(t, 2)
	blogs, err := w.start(nil, nil).Blogs(t.Context(), "news", 2, "")
	if err != nil {
		t.Fatal(err)
	}
	return w, blogs.Items[0]
}

// deferDeletion begins the deletion of the channel news and leaves all blogs to
// Handle. It returns the message.
func (w *world) deferDeletion(t *testing.T) (message string) {
	t.Helper()
	p := w.start(&channels.Options{AcceptFor: -1}, nil)
	if d, err := p.Delete(p.Context(), "news", ""); err != nil || d.State != channels.Running {
		t.Fatalf("delete: %+v, %v", d, err)
	}
	return text(t, w.queues.All(cleanupQueue)[0].Body)
}

// gone checks that only the record of an incarnation is left.
func (w *world) gone(t *testing.T, name, incarnation string, deleted int64) {
	t.Helper()
	storetest.CheckDeleted(t, w.start(nil, nil).Channels, w.blogs.Rows(name+"@"+incarnation), name, incarnation, deleted)
}

// someDraft is for tests in which the content of a blog does not matter.
var someDraft = channels.Draft{Title: "t", UserID: "u"}

// open posts into a channel, which must succeed.
func (p *process) open(t *testing.T, name string) channels.Blog {
	t.Helper()
	blog, err := p.Post(p.Context(), name, someDraft)
	if err != nil {
		t.Errorf("post into %s: %v", name, err)
	}
	return blog
}

// settled checks that only this many channels and blogs are left, after all
// late requests have arrived and three sweeps, one per day.
func (w *world) settled(t *testing.T, channels, blogs int) {
	t.Helper()
	w.wait()
	for range 3 {
		time.Sleep(26 * time.Hour)
		w.sweepAll(t)
	}
	if got, want := w.channels.Rows(""), 2*channels; got != want {
		t.Errorf("Channels has %d rows, want %d", got, want)
	}
	if got, want := w.blogs.Rows(""), channels+blogs; got != want {
		t.Errorf("Blogs has %d rows, want %d", got, want)
	}
}

// sweepAll sweeps from beginning to end.
func (w *world) sweepAll(t *testing.T) (total channels.Swept) {
	t.Helper()
	p := w.start(nil, nil)
	for from := ""; ; {
		swept, err := p.Sweep(p.Context(), from)
		if err != nil {
			t.Errorf("sweep: %v", err)
		}
		total.Restarted += swept.Restarted
		total.Fences += swept.Fences
		total.Records += swept.Records
		if from = swept.Next; from == "" {
			return total
		}
	}
}

func (w *world) sweeps(t *testing.T, when string, want channels.Swept) {
	t.Helper()
	if swept := w.sweepAll(t); swept != want {
		t.Errorf("%s: swept %+v, want %+v", when, swept, want)
	}
}

func errorOf[T any](_ T, err error) error { return err }

func last[A, B any](_ A, _ B, err error) error { return err }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fails(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}
