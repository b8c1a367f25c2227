package work

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
	"kennel/work/internal/process"
	"kennel/work/internal/sweep"
)

// drainFor processes the messages of a queue as they become visible.
func (in *instance) drainFor(t *testing.T, name string, length time.Duration) {
	t.Helper()
	in.drainOften(t, name, length, time.Second)
}

func (in *instance) drainOften(t *testing.T, name string, length, pause time.Duration) {
	t.Helper()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(pause) {
		messages, err := in.qs.Receive(timed(t, time.Minute), name, 1, 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if err := in.Process(t.Context(), name, Message{Text: m.Body}); err != nil {
				t.Fatal(err)
			}
			if err := in.qs.Delete(timed(t, time.Minute), name, m); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLater: what the processor says of the next attempt of an item holds for
// that item, and a snooze is no attempt.
func TestLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		s.processor.attempts = 3
		in, d := s.one(&Options{Parallel: 1}, item(1, ""), item(2, "in 1h"), item(3, "snooze twice"), item(4, "fail"), item(5, "reject"))
		in.drainFor(t, ExpressQueue, 5*time.Minute)
		b, err := in.Get(timed(t, time.Minute), d.ID)
		if err != nil || b.Done != 2 || b.Failed != 1 || b.Rejected != 1 || b.Retrying == nil || b.Retrying.Items != 1 || b.Retrying.Attempts != 1 || b.Retrying.MaxAttempts != 3 {
			t.Errorf("%+v, retrying %+v, %v", b, b.Retrying, err)
		}
		in.drainFor(t, ExpressQueue, time.Hour)
		b, err = in.Get(timed(t, time.Minute), d.ID)
		if err != nil || b.State != Done || b.Done != 3 || b.Failed != 1 || b.Rejected != 1 {
			t.Errorf("at the end %+v, %v", b, err)
		}
		of := make(map[string][]string)
		for _, made := range s.processor.made {
			id, attempt, _ := strings.Cut(made, ".")
			of[id] = append(of[id], attempt)
		}
		for id, attempts := range map[string][]string{"1": {"1"}, "2": {"1", "2"}, "3": {"1", "1", "1"}, "4": {"1", "2", "3"}, "5": {"1"}} {
			var numbers []string
			for _, a := range of[id] {
				number, _, _ := strings.Cut(a, " ")
				numbers = append(numbers, number)
			}
			if !slices.Equal(numbers, attempts) {
				t.Errorf("item %s had the attempts %q, want %q", id, of[id], attempts)
			}
		}
		for id, want := range map[string][2]time.Duration{"2": {time.Hour, time.Hour * 9 / 8}, "3": {140 * time.Second, 170 * time.Second}} {
			_, text, _ := strings.Cut(of[id][len(of[id])-1], " ")
			if at, err := time.ParseDuration(text); err != nil || at < want[0] || at > want[1] {
				t.Errorf("the last attempt of item %s began after %s, want %v", id, text, want)
			}
		}
		list, err := in.Results(timed(t, time.Minute), d.ID, Page{Top: 10})
		if err != nil || !slices.ContainsFunc(list.Items, func(r Result) bool { return r.ID == "4" && r.Error == "attempt 3 of 3: broken" }) {
			t.Errorf("results %+v, %v", list, err)
		}
	})
}

// TestPutOffForEver: an item that is put off each time has failed after the last
// try of its parcel, and its batch ends.
func TestPutOffForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(nil, item(1, "snooze"), item(2, ""))
		in.drainOften(t, ExpressQueue, 15*24*time.Hour, time.Minute)
		b, err := in.Get(timed(t, time.Minute), d.ID)
		if err != nil || b.State != Done || b.Done != 1 || b.Failed != 1 || s.processor.calls["1"] != ParcelTries {
			t.Errorf("%+v, %v after %d calls", b, err, s.processor.calls["1"])
		}
	})
}

// TestEachWaitsOnce: no item of a parcel fails because each of its items waits for
// another time, or because one is put off again and again.
func TestEachWaitsOnce(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	for name, c := range map[string]struct {
		other string
		left  int
	}{"different waits": {other: ""}, "one put off for ever": {other: "snooze", left: 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, 0)
				in := s.start(nil, nil)
				items := []string{item(0, c.other)}
				for i := 1; i < 300; i++ {
					items = append(items, item(i, fmt.Sprintf("in %dm", i)))
				}
				d, err := in.submit(t.Context(), items, len(items))
				if err != nil {
					t.Fatal(err)
				}
				in.drainFor(t, ExpressQueue, 6*time.Hour)
				b, err := in.Get(timed(t, time.Minute), d.ID)
				if err != nil || (b.State == Done) != (c.left == 0) || b.Done != len(items)-c.left || b.Failed != 0 {
					t.Errorf("%+v, %v", b, err)
				}
			})
		})
	}
}

// TestWaitingIsNotStalled: the sweep leaves a batch alone whose items wait for
// hours, and puts the message again if it is lost after that.
func TestWaitingIsNotStalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in := s.start(nil, nil)
		d, _, err := in.send("", item(1, "in 6h")+"\n")
		if err != nil {
			t.Fatal(err)
		}
		in.drainFor(t, ExpressQueue, time.Second)
		for began := time.Now(); time.Since(began) < 6*time.Hour; time.Sleep(sweep.MinStalled) {
			if swept, err := in.sweep(); err != nil || swept.Restarted != 0 {
				t.Fatalf("after %v: swept %+v, %v", time.Since(began), swept, err)
			}
		}
		time.Sleep(time.Minute)
		s.lose(ExpressQueue)
		time.Sleep(sweep.MinStalled)
		if swept, err := in.sweep(); err != nil || swept.Restarted != 1 {
			t.Fatalf("then: swept %+v, %v", swept, err)
		}
		in.drainFor(t, ExpressQueue, time.Minute)
		if b, err := in.Get(timed(t, time.Minute), d.ID); err != nil || b.State != Done || b.Done != 1 {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

// TestGoexit: an item that ends the goroutine of its worker has failed its attempt,
// and leaves its place to the others.
func TestGoexit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		s.processor.atOnce = 1
		in, d := s.one(nil, item(1, "goexit"), item(2, "goexit twice"), item(3, ""), item(4, "goexit"))
		in.drainFor(t, ExpressQueue, 5*time.Minute)
		b, err := in.Get(timed(t, time.Minute), d.ID)
		if err != nil || b.State != Done || b.Done != 2 || b.Failed != 2 || s.processor.most != 1 || s.processor.calls["1"] != MaxTries {
			t.Errorf("%+v, %v; calls %v, %d at once", b, err, s.processor.calls, s.processor.most)
		}
	})
}

// TestAtOnce: a process works on no more items of a processor at the same time,
// whatever messages they come with; what does not begin before the deadline of a
// message has used no attempt.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	for _, atOnce := range []int{1, 3, 20} {
		t.Run(fmt.Sprint(atOnce), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, 0)
				s.processor.atOnce, s.processor.attempts = atOnce, 1
				var items []string
				for i := range 2*ParcelItems + 10 {
					items = append(items, item(i, "5s"))
				}
				in, d := s.one(nil, items...)
				names := []string{ExpressQueue}
				for n := range 4 {
					names = append(names, PartitionQueue(n))
				}
				work := func(name string) bool {
					m, err := in.qs.Receive(timed(t, time.Minute), name, 1, time.Hour)
					if err != nil || len(m) == 0 {
						return false
					}
					ctx, stop := context.WithTimeout(t.Context(), process.StopEarly+5*time.Minute)
					defer stop()
					if err := in.Process(ctx, name, Message{Text: m[0].Body}); err != nil {
						t.Error(err)
					}
					if err := in.qs.Delete(timed(t, time.Minute), name, m[0]); err != nil {
						t.Error(err)
					}
					return true
				}
				ended := make(chan struct{})
				for range 3 {
					for _, name := range names {
						go func() {
							defer func() { ended <- struct{}{} }()
							for range 60 {
								for work(name) {
								}
								time.Sleep(10 * time.Second)
							}
						}()
					}
				}
				for range 3 * len(names) {
					<-ended
				}
				b, err := in.Get(timed(t, time.Minute), d.ID)
				if err != nil || b.State != Done || b.Done != len(items) {
					t.Errorf("%+v, %v", b, err)
				}
				if s.processor.most != atOnce {
					t.Errorf("%d items at once, want %d", s.processor.most, atOnce)
				}
			})
		})
	}
}

// TestFewerAttempts: an item that has used as many attempts as a new build allows,
// or more, has the attempt that it waits for, and fails with the error of that one.
func TestFewerAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		s.processor.attempts = 20
		in, d := s.one(nil, item(1, "in 1h"), item(2, "fail"), item(3, "snooze twice"))
		in.drainFor(t, ExpressQueue, 50*time.Second)
		s.processor.mu.Lock()
		s.processor.attempts = 1
		s.processor.mu.Unlock()
		in.drainFor(t, ExpressQueue, 2*time.Hour)
		b, err := in.Get(timed(t, time.Minute), d.ID)
		if err != nil || b.State != Done || b.Done != 2 || b.Failed != 1 {
			t.Errorf("%+v, %v; made %q", b, err, s.processor.made)
		}
		if calls := s.processor.calls["2"]; calls < 4 {
			t.Errorf("item 2 had %d attempts", calls)
		}
		list, err := in.Results(timed(t, time.Minute), d.ID, Page{Top: 10})
		want := fmt.Sprintf("attempt %d of 1: broken", s.processor.calls["2"])
		if err != nil || !slices.ContainsFunc(list.Items, func(r Result) bool { return r.ID == "2" && r.Error == want }) {
			t.Errorf("results %+v, %v; want one with %q", list, err, want)
		}
	})
}
