package cost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/cost"
	"kennel/internal/instances"
	"kennel/internal/memory"
	scalecheck "kennel/internal/scale/check"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
	"kennel/work"
)

// plain is a processor that returns what it gets, and an empty report.
type plain struct{}

func (plain) Validate(json.RawMessage) error { return nil }
func (plain) NewReport(string) work.Report   { return plain{} }
func (plain) ParcelItems() int               { return work.LargeParcel }
func (plain) Add(work.Result) error          { return nil }
func (plain) JSON() ([]byte, error)          { return []byte("{}"), nil }
func (plain) CSV() ([]byte, error)           { return []byte("\n"), nil }
func (plain) Process(ctx context.Context, _ work.Item) (json.RawMessage, error) {
	time.Sleep(100 * time.Millisecond)
	return json.RawMessage(`{"done":true}`), ctx.Err()
}

// site is what batches are stored in, with all requests counted, and a worker.
type site struct {
	counter
	t       *testing.T
	rows    table.Store
	queues  queue.Store
	claims  *queue.Claims
	batches *work.Batches

	signals   *memory.QueueSignals
	publisher *queue.Publisher
}

const partitions = 4

func newSite(t *testing.T) *site {
	s := &site{t: t, signals: memory.NewQueueSignals(nil)}
	o := memory.Options{Fault: (&memory.Line{RoundTrip: 10 * time.Millisecond}).Fault}
	store := memory.NewQueues(&o)
	s.rows, s.queues = rows{memory.NewTable(&memory.TableOptions{Options: o}), &s.counter}, queues{store, &s.counter}
	container := func() queue.Container { return blobs{memory.NewContainer(&o), &s.counter} }
	claimRows, err1 := table.New(rows{memory.NewTable(&memory.TableOptions{Options: o}), &s.counter})
	claims, err2 := queue.NewClaims(claimRows, container())
	publisher, err3 := queue.NewPublisher(s.queues, &queue.PublisherOptions{Signals: s.signals})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	s.claims, s.publisher = claims, publisher
	s.batches, err1 = work.New(work.Stores{
		Rows: s.rows, Staging: container(), Reports: container(), Claims: claims, Put: publisher.Publish,
		Depths: depths{s.queues, store},
	}, map[string]work.Processor{"plain": plain{}}, &work.Options{Partitions: partitions})
	if err1 != nil {
		t.Fatal(err1)
	}
	return s
}

type depths struct {
	queue.Counter
	queue.Peeker
}

// work processes the queues as a worker does, until stop is called. state
// returns what its listener counted.
func (s *site) work() (stop func(), state func() []queue.QueueState) {
	names := []string{work.ExpressQueue}
	for n := range partitions {
		names = append(names, work.PartitionQueue(n))
	}
	do := func(ctx context.Context, d queue.Delivery[string]) error {
		m := work.Message{Text: d.Body, Redelivered: d.Redelivered, Share: d.Share}
		return s.batches.Process(ctx, d.Queue, m)
	}
	l, err := queue.NewListener(s.queues, names, queue.Text{}, do, &queue.ListenerOptions{Signals: s.signals})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.publisher.Run(ctx) })
	running.Go(func() {
		if err := l.Run(ctx); err != nil {
			s.t.Error(err)
		}
	})
	return func() { cancel(); running.Wait() }, l.State
}

// submit submits a batch of so many items, with a key.
func (s *site) submit(items int) work.Batch {
	s.t.Helper()
	var body strings.Builder
	for i := range items {
		fmt.Fprintf(&body, `{"id":"item-%06d","account":"customer-%d"}`+"\n", i, i%500)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Hour)
	defer cancel()
	b, _, err := s.batches.Submit(ctx, work.Submission{Processor: "plain", Key: "k", Body: strings.NewReader(body.String())})
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// measured sets what a run measured: how many messages a receive returned, how
// many receives returned nothing while the queues were not idle, renewals and
// returns, and how many results one write counted.
func measured(b cost.Batch, counted map[[2]string]int64, states []queue.QueueState, idle float64) cost.Batch {
	for _, s := range states {
		b.Renewals += float64(s.Requests["update"]-s.Returned-s.Retried) / b.Parcels
		b.Returns += float64(s.Returned) / b.Parcels
	}
	receives := float64(counted[[2]string{"queue", "receive"}])
	b.PerReceive = float64(counted[[2]string{"queue", "delete"}]) / receives
	b.Empty = (float64(counted[[2]string{"queue", "receive nothing"}]) - idle) / receives
	b.PerWrite = b.Parcels / float64(counted[[2]string{"table", "update"}]-2) // without the begin and the end
	return b
}

// TestBatches compares the model of batches with all requests of a process that
// submits a batch and is a worker, in the hour from its submission. It measures
// in the same run what the model cannot know.
func TestBatches(t *testing.T) {
	const queues = partitions + 1
	var worst float64
	for _, items := range []int{10_000, 20_000, 100_000}[:storetest.Scale(1, 3)] {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			stop, state := s.work()
			time.Sleep(time.Minute)
			s.take()
			b := s.submit(items)
			p, _ := cost.Named("large")
			if p.ItemsPerBatch = float64(items); math.Round(float64(b.Parcels)*p.ItemsPerParcel()) != p.ItemsPerBatch {
				t.Errorf("batch of %d: %d parcels, and %v items a parcel predicted", items, b.Parcels, p.ItemsPerParcel())
			}
			time.Sleep(time.Hour)
			counted := s.take()
			stop()
			if b = s.get(b.ID); b.State != work.Done {
				t.Fatalf("%+v", b)
			}
			idle := cost.Idle("batches", true, 30)
			for i := range idle {
				idle[i].Count *= queues
			}
			model := measured(cost.Batch{
				Parcels: float64(b.Parcels), Chunks: 1, Tries: 1, Keyed: true, Wakes: partitions, Processes: 1,
			}, counted, state(), idle[0].Count)
			what := fmt.Sprint("batch of ", items)
			t.Logf("%s: %.1f messages a receive, %.1f receives of nothing for each, %.2f renewals and %.2f returns a parcel, %.1f results a write",
				what, model.PerReceive, model.Empty, model.Renewals, model.Returns, model.PerWrite)
			off := check(t, what, counted, append(model.Process(), idle...))
			worst = max(worst, off)

			s.sweep(0)
			time.Sleep(31 * 24 * time.Hour)
			s.take()
			s.sweep(1)
			check(t, what+", removed", s.take(), append(model.Remove(), only("batches", cost.Sweep())...))
		})
	}
	t.Logf("figure: predicted requests of batches, off those counted | %.2f %% | ≤ 1 %%", 100*worst)
}

func (s *site) get(id string) work.Batch {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	b, err := s.batches.Get(ctx, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// sweep sweeps as a worker does.
func (s *site) sweep(removed int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	swept, err1 := s.batches.Sweep(ctx)
	_, err2 := s.claims.Sweep(ctx, time.Now())
	if err1 != nil || err2 != nil || swept.Removed != removed {
		s.t.Error(swept, err1, err2)
	}
}

// only returns the lines of a job.
func only(job string, lines []cost.Line) (some []cost.Line) {
	for _, l := range lines {
		if l.Job == job {
			some = append(some, l)
		}
	}
	return some
}

// TestSweep compares the model of sweeps with one that finds nothing.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		c, err := channels.New(rows{memory.NewTable(nil), &s.counter}, rows{memory.NewTable(nil), &s.counter},
			memory.NewOutbox(memory.NewQueues(nil), "cleanup"), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.sweep(0)
		if _, err := c.Sweep(t.Context(), ""); err != nil {
			t.Error(err)
		}
		counted := s.take()
		check(t, "a sweep", counted, cost.Sweep())
	})
}

// TestCheck: many processes check scaling as often as the model assumes.
func TestCheck(t *testing.T) {
	for _, processes := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			const hours = 3
			var counted counter
			checks, members := rows{memory.NewTable(nil), &counted}, rows{memory.NewTable(nil), &counted}
			container := blobs{memory.NewContainer(nil), &counted}
			read := func(ctx context.Context) (f scalecheck.Facts, err error) {
				_, err = new(instances.Reader).Read(ctx, members)
				return f, err
			}
			ctx, stop := context.WithTimeout(t.Context(), hours*time.Hour)
			defer stop()
			var running sync.WaitGroup
			for range processes {
				one, err := scalecheck.New(checks, container, read, nil)
				if err != nil {
					t.Fatal(err)
				}
				running.Go(func() {
					if err := one.Loop(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
			predicted := cost.Check(float64(processes))
			for i := range predicted {
				predicted[i].Count *= hours
			}
			check(t, fmt.Sprint(processes, " processes"), counted.take(), predicted)
		})
	}
}
