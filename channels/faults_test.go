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
)

var errReset = errors.New("connection reset by peer")

// faults are what can become of one request. In none of them does its sender
// learn the truth.
var faults = []struct {
	name string
	fate memory.Fate
}{
	{"refused", memory.Fate{Err: errReset, Lost: true}},
	{"done, but the answer lost", memory.Fate{Err: errReset}},
	{"done later", memory.Fate{Err: errReset, After: 150 * time.Millisecond}}, // between the next tries
	{"done much later", memory.Fate{Err: errReset, After: 40 * time.Minute}},
	{"no answer", memory.Fate{Lost: true}},
}

// strike gives the n-th request to any of a world's stores this fate.
func strike(n int64, fate memory.Fate) (*memory.TableOptions, *atomic.Int64) {
	var sent atomic.Int64
	return &memory.TableOptions{Options: memory.Options{Fate: func(memory.Call) memory.Fate {
		if sent.Add(1) == n {
			return fate
		}
		return memory.Fate{}
	}}}, &sent
}

// hit returns a copy of the world in which requests meet fates.
func (w *world) hit(o *memory.TableOptions) *world {
	hit := w.clone(o)
	hit.queues = memory.NewQueues(&o.Options)
	return hit
}

func (w *world) wait() {
	w.channels.Wait()
	w.blogs.Wait()
	w.queues.Wait()
}

// TestFaultAtEachRequest lets one request of a deletion go wrong in every way.
func TestFaultAtEachRequest(t *testing.T) {
	for _, n := range []int{0, 1, 101, 1_001} {
		full := newWorld()
		incarnation := full.fill(t, "news", n)
		for _, fault := range faults {
			for _, accept := range []time.Duration{0, -1} {
				for k := int64(1); ; k++ {
					struck := false
					synctest.Test(t, func(t *testing.T) {
						o, sent := strike(k, fault.fate)
						w := full.hit(o)
						defer w.wait()
						start := func() *process { return w.start(&channels.Options{AcceptFor: accept}, nil) }
						for tries := 1; ; tries++ {
							p := start()
							_, err := p.Delete(p.Context(), "news", incarnation)
							if err == nil {
								break
							}
							if tries == 3 {
								t.Fatalf("delete: %v", err)
							}
						}
						if dead := w.host(t, start); len(dead) > 0 {
							t.Errorf("dead letters: %v", dead)
						}
						w.wait()
						w.host(t, start) // a message that came late
						struck = sent.Load() >= k
						w.gone(t, "news", incarnation, int64(n))
						if t.Failed() {
							t.Fatalf("%d blogs, request %d %s", n, k, fault.name)
						}
					})
					if !struck || t.Failed() {
						break
					}
				}
			}
		}
	}
}

// TestWritesThatFail: whatever is said about a write, either it is there, or
// it is not and the caller knows that it may not be.
func TestWritesThatFail(t *testing.T) {
	draft := channels.Draft{Title: "new", Text: "text", UserID: "bob"}
	full, old := withBlogs(t)
	for _, write := range []struct {
		name string
		do   func(*process) error
		is   func(*process) bool // in effect
	}{
		{"create", func(p *process) error {
			ch, _, err := p.Create(p.Context(), "other", "ann")
			if err == nil && (ch.Name != "other" || ch.Owner != "ann") {
				t.Errorf("created %+v", ch)
			}
			return err
		}, func(p *process) bool {
			_, err := p.Post(p.Context(), "other", draft)
			return err == nil
		}},
		{"post", func(p *process) error {
			blog, err := p.Post(p.Context(), "news", draft)
			if err == nil {
				if got, err := p.Blog(p.Context(), "news", blog.ID); err != nil || got != blog {
					t.Errorf("posted %+v, stored is %+v, %v", blog, got, err)
				}
			}
			return err
		}, func(p *process) bool {
			list, err := p.Blogs(p.Context(), "news", 1000, "")
			return err == nil && len(list.Items) == 3
		}},
		{"update", func(p *process) error {
			blog, err := p.Update(p.Context(), "news", old.ID, old.ETag, draft)
			if err == nil {
				if got, err := p.Blog(p.Context(), "news", old.ID); err != nil || got != blog {
					t.Errorf("updated to %+v, stored is %+v, %v", blog, got, err)
				}
			}
			return err
		}, func(p *process) bool {
			got, err := p.Blog(p.Context(), "news", old.ID)
			return err == nil && got.Title == "new" && got.CreatedAt.Equal(old.CreatedAt)
		}},
		{"overwrite", func(p *process) error {
			_, err := p.Update(p.Context(), "news", old.ID, "*", draft)
			return err
		}, func(p *process) bool {
			got, err := p.Blog(p.Context(), "news", old.ID)
			return err == nil && got.Title == "new"
		}},
		{"remove", func(p *process) error {
			return p.Remove(p.Context(), "news", old.ID, old.ETag)
		}, func(p *process) bool {
			_, err := p.Blog(p.Context(), "news", old.ID)
			return errors.Is(err, channels.ErrNotFound)
		}},
	} {
		for _, fault := range faults {
			for k := int64(1); ; k++ {
				struck := false
				synctest.Test(t, func(t *testing.T) {
					o, sent := strike(k, fault.fate)
					w := full.hit(o)
					defer w.wait()
					p := w.start(nil, nil)
					err := write.do(p)
					struck = sent.Load() >= k
					once := write.name == "overwrite" || write.name == "post"
					unclear := err != nil && once && !write.is(p)
					w.wait()
					where := fmt.Sprintf("%s, request %d %s: %v", write.name, k, fault.name, err)
					if errors.Is(err, channels.ErrChanged) || errors.Is(err, channels.ErrExists) {
						t.Errorf("%s: it took its own echo for somebody else", where)
					}
					if is := write.is(p); err == nil && !is {
						t.Errorf("%s: it is not there", where)
					}
					// One fault is got over, but for the writes that are sent
					// only once and have not arrived by then.
					if err != nil && !unclear {
						t.Errorf("%s", where)
					}
					// Again, for a caller that could not tell.
					if err != nil {
						if err := write.do(p); err != nil && !errors.Is(err, channels.ErrChanged) {
							t.Errorf("%s; again: %v", where, err)
						}
						if write.name != "post" && !write.is(p) {
							t.Errorf("%s: it is not there after the second try", where)
						}
					}
				})
				if !struck || t.Failed() {
					break
				}
			}
		}
	}
}

// TestNoWriteArrives: where every write is lost and reads are answered, nobody
// hears of success.
func TestNoWriteArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := newWorld()
		full.fill(t, "news", 1)
		list, err := full.start(nil, nil).Blogs(t.Context(), "news", 1, "")
		if err != nil {
			t.Fatal(err)
		}
		id := list.Items[0].ID
		w := full.hit(&memory.TableOptions{Options: memory.Options{Fate: func(c memory.Call) memory.Fate {
			if c.Op == "Submit" || c.Op == "Put" {
				return memory.Fate{Err: errReset, Lost: true}
			}
			return memory.Fate{}
		}}})
		p := w.start(nil, nil)
		draft := channels.Draft{Title: "t", UserID: "u"}
		for name, err := range map[string]error{
			"create": last(p.Create(p.Context(), "other", "ann")),
			"post":   errorOf(p.Post(p.Context(), "news", draft)),
			"update": errorOf(p.Update(p.Context(), "news", id, "*", draft)),
			"remove": p.Remove(p.Context(), "news", id, ""),
			"delete": errorOf(p.Delete(p.Context(), "news", "")),
		} {
			if !errors.Is(err, errReset) {
				t.Errorf("%s: %v, want %v", name, err, errReset)
			}
		}
	})
}

// TestLateBlog: a blog that was removed does not come back, and one that was
// posted is there once, however late its requests arrive.
func TestLateBlog(t *testing.T) {
	for _, fault := range faults {
		synctest.Test(t, func(t *testing.T) {
			full := newWorld()
			full.fill(t, "news", 0)
			o, _ := strike(2, fault.fate) // the insert
			w := full.hit(o)
			p := w.start(nil, nil)
			blog, err := p.Post(p.Context(), "news", channels.Draft{Title: "t", UserID: "u"})
			most := 1 // that may still come
			if err == nil {
				most = 0
				if err := p.Remove(p.Context(), "news", blog.ID, blog.ETag); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Hour)
			w.wait()
			if list, err := p.Blogs(p.Context(), "news", 10, ""); err != nil || len(list.Items) > most {
				t.Errorf("%s: %d blogs, %v, want at most %d", fault.name, len(list.Items), err, most)
			}
		})
	}
}

// TestWritersOfOneBlog lets many write one blog at once, also where answers
// get lost.
func TestWritersOfOneBlog(t *testing.T) {
	for where, lost := range map[string]error{"in memory": nil, "some answers lost": errReset} {
		synctest.Test(t, func(t *testing.T) {
			full := newWorld()
			full.fill(t, "news", 1)
			var n atomic.Int64
			network := slow(1)
			w := full.clone(&memory.TableOptions{Options: memory.Options{Fate: func(c memory.Call) memory.Fate {
				fate := network(c)
				if n.Add(1)%7 == 0 {
					fate.Err = lost
				}
				return fate
			}}})
			storetest.TestWriters(t, where, func() *channels.Channels { return w.start(nil, nil).Channels }, lost)
			w.wait()
		})
	}
}

// TestOneDeleter: many delete the same channel at once.
func TestOneDeleter(t *testing.T) {
	full := newWorld()
	incarnation := full.fill(t, "news", 1_234)
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(&memory.TableOptions{Options: memory.Options{Fate: slow(seed)}})
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					p := w.start(nil, nil)
					d, err := p.Delete(p.Context(), "news", "")
					if err != nil || d.Incarnation != incarnation {
						t.Errorf("delete: %+v, %v", d, err)
					}
				})
			}
			wg.Wait()
			w.host(t, func() *process { return w.start(nil, nil) })
			w.gone(t, "news", incarnation, 1_234)
		})
	}
}

// TestSlowWorker: one that was asleep while another did it all must not spoil
// the record.
func TestSlowWorker(t *testing.T) {
	full := newWorld()
	incarnation := full.fill(t, "news", 2_500)
	for _, step := range []string{channels.StepCounted, channels.StepErased} {
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(nil)
			p := w.start(&channels.Options{AcceptFor: -1}, nil)
			if _, err := p.Delete(p.Context(), "news", ""); err != nil {
				t.Fatal(err)
			}
			message := text(t, w.queues.All(cleanupQueue)[0].Body)
			slow := w.start(at(step, func() { time.Sleep(3 * time.Minute) }), nil)
			var wg sync.WaitGroup
			wg.Go(func() {
				if d, err := slow.Handle(slow.Context(), message); err != nil || d.Deleted != 2_500 {
					t.Errorf("the slow worker: %+v, %v", d, err)
				}
			})
			w.host(t, func() *process { return w.start(nil, nil) })
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

// TestNoProgress: a store that does not do what it says is an error in the
// end, not a message that goes round for ever.
func TestNoProgress(t *testing.T) {
	for name, lie := range map[string]error{
		"says that rows are gone": fmt.Errorf("row 0: %w", channels.ErrNotFound),
		"says that all is well":   nil,
		"is broken":               errReset,
	} {
		t.Run(name, func(t *testing.T) {
			full := newWorld()
			full.fill(t, "news", 150)
			synctest.Test(t, func(t *testing.T) {
				w := full.clone(nil)
				p := w.start(&channels.Options{AcceptFor: -1}, nil)
				if _, err := p.Delete(p.Context(), "news", ""); err != nil {
					t.Fatal(err)
				}
				message := text(t, w.queues.All(cleanupQueue)[0].Body)
				c := channels.New(w.channels, liar{w.blogs, lie}, memory.NewOutbox(w.queues, cleanupQueue), nil)
				_, err := c.Handle(t.Context(), message)
				if !errors.Is(err, channels.ErrNoProgress) || lie != nil && !errors.Is(err, lie) {
					t.Errorf("handle: %v, want %v with its reason", err, channels.ErrNoProgress)
				}
				if d, err := p.Deletion(p.Context(), "news", ""); err != nil || d.State != channels.Running {
					t.Errorf("record: %+v, %v", d, err)
				}
			})
		})
	}
}

// TestNothingWorks: when time is up and nothing was done, the message goes back
// as failed, instead of a fresh one to go on with nothing for ever.
func TestNothingWorks(t *testing.T) {
	full := newWorld()
	full.fill(t, "news", 150)
	synctest.Test(t, func(t *testing.T) {
		w := full.clone(nil)
		p := w.start(&channels.Options{AcceptFor: -1}, nil)
		if _, err := p.Delete(p.Context(), "news", ""); err != nil {
			t.Fatal(err)
		}
		message := text(t, w.queues.All(cleanupQueue)[0].Body)
		c := channels.New(w.channels, mute{w.blogs}, memory.NewOutbox(w.queues, cleanupQueue), &channels.Options{HandleFor: time.Minute})
		if _, err := c.Handle(t.Context(), message); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("handle: %v, want %v", err, context.DeadlineExceeded)
		}
		if messages := w.queues.All(cleanupQueue); len(messages) != 1 {
			t.Errorf("%d messages, want only the first", len(messages))
		}
	})
}

// mute never answers who deletes.
type mute struct{ channels.Table }

func (m mute) Submit(ctx context.Context, writes []channels.Write) ([]string, error) {
	if len(writes) > 1 && writes[0].Verb == channels.Delete {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m.Table.Submit(ctx, writes)
}

// liar deletes nothing.
type liar struct {
	channels.Table
	says error
}

func (l liar) Submit(ctx context.Context, writes []channels.Write) ([]string, error) {
	if len(writes) > 1 && writes[0].Verb == channels.Delete {
		return make([]string, len(writes)), l.says
	}
	return l.Table.Submit(ctx, writes)
}
