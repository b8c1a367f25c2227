package channels_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

var errReset = errors.New("connection reset by peer")

// faults are the ways in which one request can fail. In none of them does its
// sender get the real answer.
var faults = []struct {
	name string
	memory.Fault
}{
	{"refused", memory.Fault{Err: errReset, Lost: true}},
	{"applied, answer lost", memory.Fault{Err: errReset}},
	{"applied later", memory.Fault{Err: errReset, After: 150 * time.Millisecond}}, // between the next tries
	{"applied much later", memory.Fault{Err: errReset, After: 40 * time.Minute}},
	{"no answer", memory.Fault{Lost: true}},
}

// strike returns a function that injects the fault into the n-th request to any
// of a world's stores, and the number of requests.
func strike(n int64, fault memory.Fault) (func(memory.Call) memory.Fault, *atomic.Int64) {
	var sent atomic.Int64
	return func(memory.Call) memory.Fault {
		if sent.Add(1) == n {
			return fault
		}
		return memory.Fault{}
	}, &sent
}

// eachRequest runs a test in a bubble for the first request, the second and so
// on, until the test reports that there were fewer requests, or fails.
func eachRequest(t *testing.T, run func(t *testing.T, n int64) (struck bool)) {
	t.Helper()
	for n, struck := int64(1), true; struck && !t.Failed(); n++ {
		synctest.Test(t, func(t *testing.T) {
			if struck = run(t, n); t.Failed() {
				t.Fatalf("request %d", n)
			}
		})
	}
}

// TestFaultAtEachRequest makes each request of a deletion fail in every way.
func TestFaultAtEachRequest(t *testing.T) {
	for _, n := range []int{0, 1, 101, 1_001}[:storetest.Scale(3, 4)] {
		full, incarnation := filled(t, n)
		for _, fault := range faults {
			for _, accept := range []time.Duration{0, -1} {
				eachRequest(t, func(t *testing.T, k int64) bool {
					inject, sent := strike(k, fault.Fault)
					w := full.hit(inject)
					defer w.wait()
					start := func() *process { return w.start(&channels.Options{AcceptFor: accept}, nil) }
					err := errReset
					for tries := 0; err != nil && tries < 3; tries++ {
						p := start()
						_, err = p.Delete(p.Context(), "news", incarnation)
					}
					if dead := w.host(t, start); err != nil || len(dead) > 0 {
						t.Errorf("%d blogs, %s: delete: %v, dead letters: %v", n, fault.name, err, dead)
					}
					w.wait()
					w.host(t, start) // a message that was put late
					w.gone(t, "news", incarnation, int64(n))
					return sent.Load() >= k
				})
			}
		}
	}
}

// call is a write to the channel news or its blog old.
type call struct {
	name     string
	do       func(*process) error
	inEffect func(*process) bool
	once     bool // a lost request is not repeated
}

// calls are all calls that write.
func calls(old channels.Blog) []call {
	draft := channels.Draft{Title: "new", Text: "text", UserID: "bob"}
	// stored checks that the blog, if it exists, is as it was returned.
	stored := func(p *process, blog channels.Blog, err error) error {
		if err != nil {
			return err
		}
		if got, err := p.Blog(p.Context(), "news", blog.ID); err == nil && (got != blog || got.Title != "new") {
			return fmt.Errorf("returned %+v, stored %+v", blog, got)
		}
		return nil
	}
	update := func(etag string) func(*process) error {
		return func(p *process) error {
			blog, err := p.Update(p.Context(), "news", old.ID, etag, draft)
			return stored(p, blog, err)
		}
	}
	updated := func(p *process) bool {
		got, err := p.Blog(p.Context(), "news", old.ID)
		return err == nil && got.Title == "new" && got.CreatedAt.Equal(old.CreatedAt)
	}
	return []call{
		{name: "create", do: func(p *process) error { return last(p.Create(p.Context(), "other", "ann")) }, inEffect: func(p *process) bool {
			ch, err := p.Read(p.Context(), "other")
			return err == nil && ch.Owner == "ann"
		}},
		{name: "post", once: true, do: func(p *process) error {
			blog, err := p.Post(p.Context(), "news", draft)
			return stored(p, blog, err)
		}, inEffect: func(p *process) bool {
			list, err := p.Blogs(p.Context(), "news", 1000, "")
			return err == nil && len(list.Items) == 3
		}},
		{name: "post with a key", do: func(p *process) error {
			blog, err := p.PostWith(p.Context(), "news", draft, channels.PostOptions{Key: "k"})
			return stored(p, blog, err)
		}, inEffect: func(p *process) bool {
			list, err := p.Blogs(p.Context(), "news", 1000, "")
			return err == nil && len(list.Items) == 3
		}},
		{name: "update", do: update(old.ETag), inEffect: updated},
		{name: "overwrite", once: true, do: update("*"), inEffect: updated},
		{name: "remove", do: func(p *process) error { return p.Remove(p.Context(), "news", old.ID, old.ETag) }, inEffect: func(p *process) bool {
			return errors.Is(errorOf(p.Blog(p.Context(), "news", old.ID)), channels.ErrNotFound)
		}},
		{name: "delete", do: func(p *process) error { return errorOf(p.Delete(p.Context(), "news", "")) }, inEffect: func(p *process) bool {
			return errors.Is(errorOf(p.Read(p.Context(), "news")), channels.ErrNotFound)
		}},
	}
}

// A write is in effect after success, and may be in effect after an error. A
// single fault makes only those writes fail that are sent once and have not
// arrived yet.
func TestWritesThatFail(t *testing.T) {
	full, old := withBlogs(t)
	for _, call := range calls(old)[:6] { // delete: TestFaultAtEachRequest
		for _, fault := range faults {
			eachRequest(t, func(t *testing.T, k int64) bool {
				inject, sent := strike(k, fault.Fault)
				w := full.hit(inject)
				defer w.wait()
				p := w.start(nil, nil)
				err := call.do(p)
				struck := sent.Load() >= k
				unclear := errors.Is(err, channels.ErrUnclear) && call.once && !call.inEffect(p)
				w.wait()
				if err != nil && !unclear || err == nil && !call.inEffect(p) {
					t.Errorf("%s, %s: %v; in effect: %v", call.name, fault.name, err, call.inEffect(p))
				}
				if err == nil {
					return struck
				}
				if again := call.do(p); again != nil && !errors.Is(again, channels.ErrChanged) || call.name != "post" && !call.inEffect(p) {
					t.Errorf("%s, %s: %v; again: %v; in effect: %v", call.name, fault.name, err, again, call.inEffect(p))
				}
				return struck
			})
		}
	}
}

// If every write is lost but reads are answered, all calls return ErrUnclear.
func TestNoWriteArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, blog := withBlogs(t)
		w := full.hit(func(c memory.Call) memory.Fault {
			if c.Op == "Submit" || c.Op == "Put" {
				return memory.Fault{Err: errReset, Lost: true}
			}
			return memory.Fault{}
		})
		for _, call := range calls(blog) {
			if err := call.do(w.start(nil, nil)); !errors.Is(err, errReset) || !errors.Is(err, channels.ErrUnclear) {
				t.Errorf("%s: %v, want %v and %v", call.name, err, errReset, channels.ErrUnclear)
			}
		}
	})
}

// A blog that was removed does not come back, and a posted blog exists once,
// however late its requests arrive.
func TestLateBlog(t *testing.T) {
	for _, fault := range faults {
		synctest.Test(t, func(t *testing.T) {
			full, _ := filled(t, 0)
			inject, _ := strike(2, fault.Fault) // the insert
			w := full.hit(inject)
			p := w.start(nil, nil)
			blog, err := p.Post(p.Context(), "news", someDraft)
			limit := 1 // the request may still arrive
			if err == nil {
				limit = 0
				must(t, p.Remove(p.Context(), "news", blog.ID, blog.ETag))
			}
			time.Sleep(time.Hour)
			w.wait()
			if list, err := p.Blogs(p.Context(), "news", 10, ""); err != nil || len(list.Items) > limit {
				t.Errorf("%s: %d blogs, %v, want at most %d", fault.name, len(list.Items), err, limit)
			}
		})
	}
}

// TestWritersOfOneBlog updates one blog by many writers at once, with and
// without lost answers.
func TestWritersOfOneBlog(t *testing.T) {
	for where, lost := range map[string]error{"in memory": nil, "some answers lost": errReset} {
		synctest.Test(t, func(t *testing.T) {
			full, _ := filled(t, 1)
			var n atomic.Int64
			network := slow(1)
			w := full.clone(&memory.TableOptions{Options: memory.Options{Fault: func(c memory.Call) memory.Fault {
				fault := network(c)
				if n.Add(1)%7 == 0 {
					fault.Err = lost
				}
				return fault
			}}})
			storetest.TestWriters(t, where, func() *channels.Channels { return w.start(nil, nil).Channels }, lost)
			w.wait()
		})
	}
}

// A worker that was asleep while another one finished the deletion must not
// change the record.
func TestSlowWorker(t *testing.T) {
	full, incarnation := filled(t, 2_500)
	for _, name := range []string{"deleting", "erased"} { // counted, or deleted
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(nil)
			message := w.deferDeletion(t)
			slow := w.startAt(name, func(*process) { time.Sleep(3 * time.Minute) })
			var wg sync.WaitGroup
			wg.Go(func() {
				if d, err := slow.Handle(slow.Context(), message); err != nil || d.Deleted != 2_500 {
					t.Errorf("the slow worker: %+v, %v", d, err)
				}
			})
			w.plain(t)
			p := w.start(nil, nil)
			before, err := p.Deletion(p.Context(), "news", "")
			if err != nil || before.State != channels.Done {
				t.Errorf("record: %+v, %v", before, err)
			}
			wg.Wait()
			if after, err := p.Deletion(p.Context(), "news", ""); err != nil || after != before {
				t.Errorf("record: %+v, %v, was %+v", after, err, before)
			}
			w.gone(t, "news", incarnation, 2_500)
		})
	}
}

// If the store does not delete rows, Handle finally returns an error, so that
// the message is delivered again. It does not put a new message, which would
// continue without end.
func TestNoProgress(t *testing.T) {
	full, _ := filled(t, 150)
	for _, tt := range []struct{ answer, want error }{
		{nil, channels.ErrNoProgress},
		{table.ErrNotFound, channels.ErrNoProgress},
		{errReset, channels.ErrNoProgress},
		{errReset, errReset},
		{context.DeadlineExceeded, context.DeadlineExceeded}, // at the end of its time
	} {
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(nil)
			message := w.deferDeletion(t)
			c := w.with(w.channels, hooked{Store: w.blogs, instead: func(ctx context.Context, writes []table.Write) (bool, error) {
				if tt.answer == context.DeadlineExceeded && step(writes) == "erased" {
					<-ctx.Done()
				}
				return step(writes) == "erased", tt.answer
			}}, &channels.Options{HandleFor: time.Minute})
			fails(t, fmt.Sprintf("handle, answered with %v", tt.answer), errorOf(c.Handle(t.Context(), message)), tt.want)
			if d, err := c.Deletion(t.Context(), "news", ""); err != nil || d.State != channels.Running {
				t.Errorf("record: %+v, %v", d, err)
			}
			if messages := w.queues.All(cleanupQueue); len(messages) != 1 {
				t.Errorf("%d messages, want only the first", len(messages))
			}
		})
	}
}
