package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// site is what is stored of an app with batches. Any number of processes work on
// it.
type site struct {
	t         testing.TB
	rows      *memory.Table
	staging   *memory.Container
	reports   *memory.Container
	claimRows *memory.Table
	claims    *memory.Container
	queues    *memory.Queues
	processor *scripted
	copies    func() int              // how often each message is put; nil: once
	refuse    func(table.Write) error // of each write of a row; nil: none

	requests atomic.Int64

	mu    sync.Mutex
	ended map[string]bool // the times that were stored as the end of a batch; guarded by mu
}

func newSite(t testing.TB, fault func(memory.Call) memory.Fault, shuffle uint64) *site {
	o := memory.Options{Fault: fault, OnMisuse: func(problem string) { t.Error(problem) }, ShuffleSeed: shuffle}
	return &site{
		t:         t,
		rows:      memory.NewTable(&memory.TableOptions{Options: o}),
		staging:   memory.NewContainer(&o),
		reports:   memory.NewContainer(&o),
		claimRows: memory.NewTable(&memory.TableOptions{Options: o}),
		claims:    memory.NewContainer(&o),
		queues:    memory.NewQueues(&o),
		processor: &scripted{calls: make(map[string]int)},
		ended:     make(map[string]bool),
	}
}

// wait waits for requests that continue without their caller.
func (s *site) wait() {
	s.rows.Wait()
	s.staging.Wait()
	s.reports.Wait()
	s.claimRows.Wait()
	s.claims.Wait()
	s.queues.Wait()
}

// instance is the app in one process.
type instance struct {
	*Batches
	site *site
	p    *storetest.Process
	qs   queue.Store
}

// start starts a process, which kill may kill.
func (s *site) start(kill *storetest.Killer, o *Options) *instance {
	s.t.Helper()
	p := storetest.NewProcess(kill)
	p.Requests = &s.requests
	claimRows, err := table.New(p.Table(s.claimRows))
	if err != nil {
		s.t.Fatal(err)
	}
	claims, err := queue.NewClaims(claimRows, p.Container(s.claims))
	if err != nil {
		s.t.Fatal(err)
	}
	in := &instance{site: s, p: p, qs: p.Queues(s.queues)}
	in.Batches, err = New(Stores{
		Rows: watched{p.Table(s.rows), s}, Staging: p.Container(s.staging), Reports: p.Container(s.reports),
		Claims: claims, Put: in.put, Depths: s.queues,
	}, map[string]Processor{"scripted": s.processor}, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return in
}

// put puts a message, or several copies of it.
func (in *instance) put(ctx context.Context, name, text string, delay time.Duration) error {
	n := 1
	if in.site.copies != nil {
		n = in.site.copies()
	}
	for range n {
		if _, err := table.RetryWrite(ctx, func(ctx context.Context) (queue.Message, error) {
			return in.qs.Put(ctx, name, text, delay)
		}); err != nil {
			return err
		}
	}
	return nil
}

// watched records the ends of batches, and refuses writes.
type watched struct {
	table.Store
	site *site
}

func (w watched) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	if w.site.refuse != nil {
		if err := w.site.refuse(writes[0]); err != nil {
			return nil, err
		}
	}
	versions, err := w.Store.Submit(ctx, writes...)
	if row := writes[0].Row; err == nil && row.Key == format.BatchKey && row.Values["finishedAt"] != "" {
		w.site.mu.Lock()
		w.site.ended[row.Values["finishedAt"]] = true
		w.site.mu.Unlock()
	}
	return versions, err
}

// submit records a batch and queues its parcels, of so many items each.
func (in *instance) submit(ctx context.Context, items []string, each int) (format.Details, error) {
	at := time.Now().UTC()
	d := format.Details{ID: model.NewID(at), Name: "test", Processor: "scripted", Items: len(items), Chunks: 1, SubmittedAt: at, Partitions: 4}
	var parcels []format.Parcel
	for part := range slices.Chunk(items, each) {
		p := format.Parcel{Batch: d.ID, Processor: d.Processor, ID: format.ParcelID{Parcel: len(parcels)}, SubmittedAt: at}
		for _, item := range part {
			p.Items = append(p.Items, Item{Data: []byte(item)})
		}
		parcels = append(parcels, p)
	}
	d.Parcels = len(parcels)
	if err := in.base.Staging.Put(ctx, format.ChunkName(d.ID, 0), []byte("staged")); err != nil {
		return d, err
	}
	active := table.Row{Partition: format.ActiveIn, Key: d.ID, Values: map[string]string{format.VersionColumn: format.Version, format.DetailsColumn: d.Text()}}
	if _, err := in.base.Store.Rows.Submit(ctx, table.Write{Verb: table.Insert, Row: active}); err != nil {
		return d, err
	}
	l := format.NewBatchRow(d)
	if _, err := in.base.Store.Rows.Submit(ctx, table.Write{Verb: table.Insert, Row: l.Row()}); err != nil {
		return d, err
	}
	for _, p := range parcels {
		if err := in.base.PutParcel(ctx, d.QueueOf(p.ID.Parcel, d.Partitions), p, 0); err != nil {
			return d, err
		}
	}
	_, err := in.base.Store.Change(ctx, d.ID, func(l *format.BatchRow) bool {
		if !l.QueuedAt.IsZero() {
			return false
		}
		l.QueuedAt = time.Now()
		if l.State == Submitting {
			l.State = Running
		}
		return true
	})
	return d, err
}

// work works on all queues until ctx ends or the process dies.
func (in *instance) work(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.p.Context(), cancel)()
	var running sync.WaitGroup
	defer running.Wait()
	for _, name := range []string{"work-0", "work-1", "work-2", "work-3", ExpressQueue} {
		running.Go(func() {
			for ctx.Err() == nil {
				one, stop := context.WithTimeout(ctx, 30*time.Second)
				messages, _ := in.qs.Receive(one, name, queue.MaxReceive, time.Minute)
				stop()
				for _, m := range messages {
					running.Go(func() { in.handle(ctx, name, m, 1/float64(len(messages))) })
				}
				table.Pause(ctx, 4*time.Second)
			}
		})
	}
}

// handle handles a message as the app does.
func (in *instance) handle(ctx context.Context, name string, m queue.Message, share float64) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	message := Message{Text: m.Body, Redelivered: m.DequeueCount > 1, Share: share}
	err := in.Process(ctx, name, message)
	switch {
	case err == nil:
		if in.qs.Delete(ctx, name, m) == nil {
			in.Forget(ctx, m.Body)
		}
	case errors.Is(err, ErrHeld):
		in.qs.Delete(ctx, name, m)
	case errors.Is(err, ErrMessage):
		in.site.t.Errorf("dead letter from %s: %v", name, err)
		in.qs.Delete(ctx, name, m)
	case !in.p.Dead() && ctx.Err() == nil && !in.site.faulty():
		in.site.t.Errorf("message from %s: %v", name, err)
	}
}

func (s *site) faulty() bool { return s.copies != nil }

// finished waits until the batch has ended and nothing is left in the queues.
func (in *instance) finished(ctx context.Context, id string) bool {
	for ctx.Err() == nil && !in.p.Dead() {
		table.Pause(ctx, 5*time.Second)
		left := 0
		for _, name := range []string{"work-0", "work-1", "work-2", "work-3", ExpressQueue} {
			left += len(in.site.queues.All(name))
		}
		if b, err := in.Get(ctx, id); err == nil && b.FinishedAt != nil && left == 0 {
			return true
		}
	}
	return false
}

// check checks what is stored of a batch that has ended.
func (s *site) check(d format.Details, items []string) {
	t := s.t
	t.Helper()
	in := s.start(nil, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	b, err := in.Get(ctx, d.ID)
	if err != nil || b.State != Done || b.FinishedAt == nil {
		t.Fatalf("batch %+v, %v, want it done", b, err)
	}
	ended := make(map[string]Result)
	counts := make(map[Outcome]int)
	page := Page{Top: 7}
	for {
		list, err := in.Results(ctx, d.ID, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Items {
			if _, twice := ended[r.ID]; twice {
				t.Errorf("item %s has two results", r.ID)
			}
			ended[r.ID] = r
			counts[r.Outcome]++
		}
		if page.Continuation = list.Continuation; page.Continuation == "" {
			break
		}
	}
	if b.Done != counts[ItemDone] || b.Rejected != counts[ItemRejected] || b.Failed != counts[ItemFailed] {
		t.Errorf("the batch counts %d, %d, %d; its results are %v", b.Done, b.Rejected, b.Failed, counts)
	}
	for _, text := range items {
		var item scriptedItem
		if err := json.Unmarshal([]byte(text), &item); err != nil {
			t.Fatal(err)
		}
		want, problem := item.want()
		if r := ended[item.ID]; r.Outcome != want || !strings.Contains(r.Error, problem) || len(r.Error) > model.MaxError {
			t.Errorf("item %s has the result %+v, want %s %q", text, r, want, problem)
		}
	}
	if len(ended) != len(items) {
		t.Errorf("%d results of %d items", len(ended), len(items))
	}
	report, err := in.Report(ctx, d.ID, false)
	if want := fmt.Sprintf(`{"done":%d,"rejected":%d,"failed":%d}`, b.Done, b.Rejected, b.Failed); err != nil || string(report) != want {
		t.Errorf("report %s, %v, want %s", report, err, want)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended[table.FormatTime(*b.FinishedAt)] = true; len(s.ended) != 1 {
		t.Errorf("the batch was ended more than once: %v", s.ended)
	}
	if left := s.staging.Names(); len(left) > 0 {
		t.Errorf("left in staging: %v", left)
	}
	if n := s.rows.Rows(format.ActiveIn); n > 0 {
		t.Errorf("%d active rows are left", n)
	}
	if n := s.claimRows.Rows(""); n > 0 {
		t.Errorf("%d rows of claims are left", n)
	}
}
