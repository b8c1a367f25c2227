package console_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"golang.org/x/sync/errgroup"

	"kennel/channels"
	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/names"
	scalecheck "kennel/internal/scale/check"
	"kennel/internal/table"
	"kennel/queue"
	"kennel/work"
	"kennel/work/processors"
)

// What a large app has.
const (
	manySequences = 1000
	manyGates     = 300
	manyInstances = 500
	manyEntities  = 150
	manyLetters   = 1000
	manyItems     = 20_000 // of one batch
	manyBatches   = 150    // small ones
	manyChannels  = 300
	manyBlogs     = 1000 // of one channel

	blogsLast    = 30 * 24 * time.Hour
	historyLasts = 6 * time.Hour // of checks of scaling

	sequencesOfEach = 250 // of an instance
	waitersOfEach   = 3   // at one gate
	entitiesOfEach  = 20
)

const (
	largeChannel = "news"
	largeGate    = "gate-0000"
	largeLetters = "returns" + queue.PoisonSuffix // no function receives from this queue
)

var largeQueues = []string{names.ExpressQueue, "work-0", "work-1", "work-2", "work-3", names.CleanupQueue}

func sequenceName(i int) string { return fmt.Sprintf("sequence-%04d", i) }

// large fills an account. What takes many requests is first made by the program
// itself, in stores in memory, and copied from there.
type large struct {
	account azure.Account
	rows    map[string][]table.Row // to copy, by table
	reports []table.Row            // those of the instances
	batch   string                 // the large one
}

func seedLarge(t *testing.T, connection string) *large {
	t.Helper()
	l := &large{account: azure.Account{ConnectionString: connection}, rows: make(map[string][]table.Row)}
	check(t, l.batches(t.Context()))
	l.past(t)
	var seeding errgroup.Group
	for _, seed := range []func(context.Context) error{l.sequences, l.gates, l.letters, l.copyRows} {
		seeding.Go(func() error { return seed(t.Context()) })
	}
	check(t, seeding.Wait())
	return l
}

// each runs n calls, some of them at once.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(4) // Azurite has one thread
	for i := range n {
		calls.Go(func() error { return do(ctx, i) })
	}
	return calls.Wait()
}

// keep takes all rows of a table in memory.
func (l *large) keep(ctx context.Context, from *memory.Table, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for q := (table.Query{Top: table.MaxPage}); ; {
		page, err := from.Query(ctx, q)
		if err != nil {
			return err
		}
		l.rows[name] = append(l.rows[name], page.Rows...)
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// copyRows writes the rows that were kept.
func (l *large) copyRows(ctx context.Context) error {
	for name, all := range l.rows {
		rows, err := l.table(name)
		if err != nil {
			return err
		}
		var writes []table.Write
		flush := func() error {
			if len(writes) == 0 {
				return nil
			}
			_, err := rows.Submit(ctx, writes...)
			writes = nil
			return err
		}
		for _, row := range all {
			w := table.Write{Verb: table.Upsert, Row: row}
			if more := append(writes, w); len(writes) > 0 && (row.Partition != writes[0].Row.Partition || table.CheckWrites(more) != nil) {
				err = flush()
			}
			if writes = append(writes, w); err != nil {
				return err
			}
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

func (l *large) table(name string) (*azure.Table, error) {
	tables, err := l.account.OpenTables(nil)
	if err != nil {
		return nil, err
	}
	return azure.NewTable(tables, name)
}

func (l *large) sequences(ctx context.Context) error {
	blobs, err := l.account.OpenBlobs(nil)
	if err != nil {
		return err
	}
	store := azure.NewSequences(blobs, names.SequencesContainer)
	return each(ctx, manySequences, func(ctx context.Context, i int) error {
		_, err := store.Replace(ctx, sequenceName(i), ids.Value{}, ids.Mark{Text: fmt.Sprint(1001 + i), Writer: "large"}.Value())
		return err
	})
}

func (l *large) gates(ctx context.Context) error {
	blobs, err := l.account.OpenBlobs(nil)
	if err != nil {
		return err
	}
	gates, err := gate.New(azure.NewGates(blobs, names.GatesContainer), nil)
	if err != nil {
		return err
	}
	return each(ctx, manyGates, func(ctx context.Context, i int) error {
		_, err := gates.Release(ctx, fmt.Sprintf("gate-%04d", i), gate.Change{By: "ann " + hostile, Reason: "warm " + hostile})
		return err
	})
}

func (l *large) letters(ctx context.Context) error {
	service, err := azqueue.NewServiceClientFromConnectionString(l.account.ConnectionString, nil)
	if err != nil {
		return err
	}
	for _, name := range append(largeQueues, largeLetters) {
		if _, err := service.NewQueueClient(name).Create(ctx, nil); err != nil {
			return err
		}
	}
	client := service.NewQueueClient(largeLetters)
	body := fmt.Sprintf(`{"customer":%q,"lines":%q}`, hostile, strings.Repeat("x", 500))
	source := strings.TrimSuffix(largeLetters, queue.PoisonSuffix)
	return each(ctx, manyLetters, func(ctx context.Context, i int) error {
		text := queue.DeadLetter{Queue: source, Message: fmt.Sprint(i), Reason: fmt.Sprintf("the webhook answered %d %s", i, hostile), Attempts: 3, At: time.Now(), Text: body}.Encode()
		_, err := client.EnqueueMessage(ctx, base64.StdEncoding.EncodeToString([]byte(text)), nil)
		return err
	})
}

// batches submits and processes batches in memory.
func (l *large) batches(ctx context.Context) error {
	rows, queues := memory.NewTable(nil), memory.NewQueues(nil)
	claimRows, err := table.New(memory.NewTable(nil))
	if err != nil {
		return err
	}
	claims, err := queue.NewClaims(claimRows, memory.NewContainer(nil))
	if err != nil {
		return err
	}
	publisher, err := queue.NewPublisher(queues, nil)
	if err != nil {
		return err
	}
	batches, err := work.New(work.Stores{
		Rows: rows, Staging: memory.NewContainer(nil), Reports: memory.NewContainer(nil),
		Claims: claims, Put: publisher.Publish, Depths: queues,
	}, map[string]work.Processor{"billing": processors.Billing{}}, nil)
	if err != nil {
		return err
	}
	for i := range manyBatches + 1 {
		items := 10
		if i == manyBatches {
			items = manyItems
		}
		batch, _, err := batches.Submit(ctx, work.Submission{Processor: "billing", Name: fmt.Sprintf("Batch %d %s", i, hostile), Body: bytes.NewReader(billed(items))})
		if err != nil {
			return err
		}
		l.batch = batch.ID
	}
	for _, name := range largeQueues {
		for {
			messages, err := queues.Receive(ctx, name, queue.MaxReceive, time.Minute)
			if err != nil {
				return err
			}
			if len(messages) == 0 {
				break
			}
			for _, m := range messages {
				message := work.Message{Text: m.Body, Share: 1 / float64(len(messages))}
				err := batches.Process(ctx, name, message)
				if err == nil {
					err = queues.Delete(ctx, name, m)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return l.keep(ctx, rows, names.BatchesTable)
}

// billed returns items of a batch, of which some are rejected.
func billed(items int) []byte {
	var body bytes.Buffer
	for i := range items {
		fmt.Fprintf(&body, `{"id":"order-%07d","account":"account-%04d","sku":"monthly rent of a kennel","quantity":"%d.5","unitPrice":"%d.25","currency":"EUR"}`+"\n",
			i, i*7919%1000, i%9+1, i%900+100)
	}
	return body.Bytes()
}

// past makes in virtual time what an app has after days: channels, one of them
// with many blogs, and checks of scaling.
func (l *large) past(t *testing.T) {
	t.Helper()
	now := time.Now().Round(0) // the monotonic clocks differ
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now) - blogsLast)
		rows, blogs := memory.NewTable(nil), memory.NewTable(nil)
		all, err := channels.New(rows, blogs, memory.NewOutbox(memory.NewQueues(nil), names.CleanupQueue), nil)
		check(t, err)
		for i := range manyChannels {
			_, _, err := all.Create(t.Context(), fmt.Sprintf("channel-%04d", i), "ann "+hostile)
			check(t, err)
		}
		_, _, err = all.Create(t.Context(), largeChannel, "ann")
		check(t, err)
		text := strings.Repeat("A line of a blog. ", 20) + hostile
		for i := range manyBlogs {
			time.Sleep((blogsLast - historyLasts) / manyBlogs)
			_, err := all.Post(t.Context(), largeChannel, channels.Draft{Title: fmt.Sprintf("Title %d", i), Text: text, UserID: "ann"})
			check(t, err)
		}
		check(t, l.keep(t.Context(), rows, names.ChannelsTable))
		check(t, l.keep(t.Context(), blogs, names.BlogsTable))

		checks := memory.NewTable(nil)
		facts := scalecheck.Facts{Depths: make(map[string]instances.QueueSample)}
		for _, name := range largeQueues {
			facts.Depths[name] = instances.QueueSample{Ready: 500, InFlight: 20, OldestSeconds: 12.5}
		}
		scaling, err := scalecheck.New(checks, memory.NewContainer(nil), func(context.Context) (scalecheck.Facts, error) { return facts, nil }, nil)
		check(t, err)
		for range historyLasts / time.Minute {
			time.Sleep(time.Minute)
			if ran, err := scaling.Run(t.Context()); err != nil || !ran {
				t.Fatalf("a check of scaling ran %t, %v", ran, err)
			}
		}
		check(t, l.keep(t.Context(), checks, names.ScaleTable))
		l.report(t)
	})
}

// report returns the rows of many instances, as their reporters write them.
func (l *large) report(t *testing.T) {
	rows := memory.NewTable(nil)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range manyInstances {
		process := instances.Process{Instance: fmt.Sprintf("instance-%04d-%s", i, strings.Repeat("x", 24)), Kind: instances.Worker, Version: "v1.2.3", StartedAt: time.Now().UTC()}
		self := instances.NewSelf(process, func() []instances.Problem { return nil }, func(r *instances.Report) { describe(r, i) })
		running.Go(func() { instances.NewReporter(self, rows, slog.New(slog.DiscardHandler)).Run(ctx) })
	}
	time.Sleep(10 * time.Second)
	stop()
	running.Wait()
	check(t, l.keep(t.Context(), rows, names.InstancesTable))
	l.reports, l.rows[names.InstancesTable] = l.rows[names.InstancesTable], nil
}

// refresh writes the rows of the instances again, so that they count for another
// two minutes.
func (l *large) refresh(ctx context.Context) error {
	rows, err := l.table(names.InstancesTable)
	if err != nil {
		return err
	}
	return each(ctx, len(l.reports), func(ctx context.Context, i int) error {
		_, err := rows.Submit(ctx, table.Write{Verb: table.Upsert, Row: l.reports[i]})
		return err
	})
}

// describe fills in what an instance of a busy app reports.
func describe(r *instances.Report, i int) {
	var sequences []instances.Sequence
	for n := range sequencesOfEach {
		sequences = append(sequences, instances.Sequence{Name: sequenceName((i*37 + n) % manySequences), Issued: int64(100_000 + n), Available: 400, Highest: int64(1_000_000 + n), PerSecond: 1.5})
	}
	instances.SequenceSection.Add(r, sequences)
	instances.GateSection.Add(r, []instances.Gate{{Name: largeGate, Waiters: waitersOfEach}})
	var entities []instances.RelayEntity
	for n := range entitiesOfEach {
		entities = append(entities, instances.RelayEntity{Entity: fmt.Sprintf("entity-%03d", (i*7+n)%manyEntities), State: "healthy", Since: r.StartedAt})
	}
	instances.RelaySection.Add(r, entities)
	running, work := make(map[string]int64), make(map[string]instances.Work)
	for _, name := range largeQueues {
		running[name] = 2
		work[name] = instances.Work{Done: int64(1000 + i), Receives: 500, HandSeconds: 12.5, Ages: make([]int64, 10), Latencies: make([]int64, 10), Pool: 16}
	}
	instances.RunningSection.Add(r, running)
	instances.WorkSection.Add(r, work)
	for _, service := range []string{"blob", "table", "queue"} {
		for _, operation := range []string{"get", "put", "list", "delete"} {
			for _, job := range []string{"numbers", "batches", "channels"} {
				instances.RequestSection.Add(r, []instances.Requests{{Service: service, Operation: operation, Job: job, Count: int64(10_000 + i)}})
			}
		}
	}
}
