package queues

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/instances"
	"kennel/internal/program"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

// sender returns the queues of a process that only sends to mails, which another
// binary of its program works on.
func (w *world) sender(t *testing.T, options *Options) *Queues {
	t.Helper()
	rows, err := table.New(w.rows)
	if err != nil {
		t.Fatal(err)
	}
	d := &program.Declared{Name: "shop", Queues: []*program.Queue{{Name: "mails", StorageQueue: "jobs", SendOnly: true}}}
	q, err := New(d, w.queues, func(name string) (*queue.Claims, error) { return queue.NewKeptClaims(rows, w.blobs, name) }, options)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestUnhandled: a message that is ready while no living process works on its
// queue is a problem after three minutes, until one does. A queue that is worked
// on by a program that does not report has no problem.
func TestUnhandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		var others []map[string][]string
		known := true
		q := w.sender(t, &Options{Handlers: func(context.Context) ([]map[string][]string, bool) { return others, known }})
		ctx := t.Context()
		check := func(name string, want bool) {
			t.Helper()
			samples, err := q.Sample(ctx)
			if err != nil || len(samples) != 1 {
				t.Fatal(samples, err)
			}
			at := slices.IndexFunc(q.Problems(), func(p instances.Problem) bool { return p.Code == instances.QueueUnhandled })
			switch {
			case (at >= 0) != want:
				t.Errorf("%s: a problem: %v", name, at >= 0)
			case want && (q.Problems()[at].Subject != "mails" || q.Problems()[at].Count == 0):
				t.Errorf("%s: %+v", name, q.Problems()[at])
			}
		}
		send := func(delay time.Duration) {
			t.Helper()
			if _, err := q.Send(ctx, "mails", order{N: 1}.text(), delay); err != nil {
				t.Fatal(err)
			}
		}
		take := func() {
			t.Helper()
			all, err := w.queues.Receive(ctx, "jobs", 1, time.Minute)
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			if err := w.queues.Delete(ctx, "jobs", all[0]); err != nil {
				t.Fatal(err)
			}
		}
		send(time.Hour)
		check("delayed", false)
		time.Sleep(time.Hour + time.Second)
		check("just ready", false)
		time.Sleep(2 * time.Minute)
		check("ready for two minutes", false)
		time.Sleep(2 * time.Minute)
		check("ready for four minutes", true)
		known = false
		check("instances unknown", true)
		known, others = true, []map[string][]string{{"mails": {"mails"}, "bills": {"jobs"}}}
		check("another storage queue of that name", true)
		others = append(others, map[string][]string{"mails": {"mails", "jobs"}})
		check("a worker lives", false)
		others = nil
		check("it is gone again", false)
		time.Sleep(4 * time.Minute)
		check("gone for four minutes", true)
		take()
		check("no message", false)
		for range 4 { // what another program takes
			send(0)
			check("sent", false)
			time.Sleep(2 * time.Minute)
			send(0)
			check("one waits", false)
			take()
			check("one was taken", false)
			time.Sleep(2 * time.Minute)
			check("the next one waits", false)
			take()
		}
	})
}

// TestUnserved: a queue whose handler this build declares, and whose function its
// host does not have, is not worked on here; neither is a former name without one.
func TestUnserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		rows, err := table.New(w.rows)
		if err != nil {
			t.Fatal(err)
		}
		d := &program.Declared{Name: "shop", Queues: []*program.Queue{
			{Name: "mails", StorageQueue: "jobs", FormerNames: []string{"letters"}, Handled: 1, Timeout: time.Minute},
			{Name: "orders", Handled: 1, Timeout: time.Minute},
		}}
		o := &Options{
			Unserved: map[string]bool{"jobs": true, "letters": true},
			Handlers: func(context.Context) ([]map[string][]string, bool) { return nil, true },
		}
		q, err := New(d, w.queues, func(name string) (*queue.Claims, error) { return queue.NewKeptClaims(rows, w.blobs, name) }, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		for _, name := range []string{"mails", "orders"} {
			if _, err := q.Send(ctx, name, order{N: 1}.text(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.queues.Put(ctx, "letters", "YQ==", 0); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := q.Sample(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Minute)
		}
		found := make(map[string]string)
		for _, p := range q.Problems() {
			if p.Code == instances.QueueUnhandled {
				found[p.Subject] = p.What
			}
		}
		if len(found) != 2 || !strings.Contains(found["mails"], "without its function Queue-jobs.") || !strings.Contains(found["letters"], "Queue-letters.") {
			t.Errorf("problems %q", found)
		}
		var r instances.Report
		q.Facts(&r)
		if all := instances.HandledSection.Of(r); len(all) != 1 || !slices.Equal(all["orders"], []string{"orders"}) {
			t.Errorf("works on %v", all)
		}
	})
}

// TestSenderIsNoHandler: a process reports the queues on which it works, and has
// functions for these alone.
func TestSenderIsNoHandler(t *testing.T) {
	w := newWorld(nil)
	var r instances.Report
	w.sender(t, nil).Facts(&r)
	if all := instances.HandledSection.Of(r); len(all) != 0 {
		t.Errorf("a sender works on %v", all)
	}
	w.open(t, storetest.NewProcess(nil), true, nil).Facts(&r)
	all := instances.HandledSection.Of(r)
	if len(all) != 3 || !slices.Equal(all["mails"], []string{"jobs"}) || !slices.Equal(all["orders"], []string{"orders"}) {
		t.Errorf("the other works on %v", all)
	}
}

// TestSentIsNotHeld: messages of a queue to which the program only sends are not
// held, unless the queue is paused.
func TestSentIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPausable()
		pauses := w.pauses(t, storetest.NewProcess(nil))
		q := w.sender(t, &Options{Pauses: pauses})
		if _, err := q.Send(t.Context(), "mails", order{N: 1}.text(), 0); err != nil {
			t.Fatal(err)
		}
		for _, paused := range []bool{false, true, false} {
			w.change(t, pauses, "mails", paused)
			if samples, err := q.Sample(t.Context()); err != nil || samples["jobs"].Ready != 1 || samples["jobs"].Held != paused || !samples["jobs"].Own {
				t.Errorf("paused %v: sampled %+v, %v", paused, samples, err)
			}
		}
	})
}

// TestRenamedInSharedQueue: a queue that has another name now, and shares the
// storage queue that it shared before, works on the messages that were sent to it
// by its former name.
func TestRenamedInSharedQueue(t *testing.T) {
	w := newWorld(nil)
	rows, err := table.New(w.rows)
	if err != nil {
		t.Fatal(err)
	}
	build := func(name string, former ...string) *Queues {
		q, err := New(&program.Declared{Name: "shop", Queues: []*program.Queue{
			{Name: "mails", StorageQueue: "jobs", Handled: 1, Timeout: time.Minute},
			{Name: name, StorageQueue: "jobs", FormerNames: former, Handled: 1, Timeout: time.Minute},
		}}, w.queues, func(name string) (*queue.Claims, error) { return queue.NewKeptClaims(rows, w.blobs, name) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	if _, err := build("bills").Send(t.Context(), "bills", order{N: 1}.text(), 0); err != nil {
		t.Fatal(err)
	}
	sent, err := w.queues.Receive(t.Context(), "jobs", 1, time.Minute)
	if err != nil || len(sent) != 1 {
		t.Fatalf("%d messages, %v", len(sent), err)
	}
	for former, want := range map[string]string{"bills": "invoices", "letters": ""} {
		c := codec{build("invoices", former), "jobs", &deliveries{all: make(map[string]*delivery)}}
		if d := c.of(sent[0]); d.own == nil && want != "" || d.own != nil && d.own.Name != want {
			t.Errorf("formerly %s: worked on by %+v, want %q", former, d.own, want)
		}
	}
}
