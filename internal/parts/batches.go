package parts

import (
	"context"
	"errors"
	"maps"
	"slices"

	"kennel/gate"
	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/table"
	"kennel/internal/worker"
	"kennel/queue"
	"kennel/work"
)

// hostShare is an estimate of the requests that the Functions host makes for a
// message besides its delete. It receives up to 16 messages at once, and again
// when half of them are done.
const hostShare = 1.0 / 8

// batchPart is batches as a part of the program.
type batchPart struct {
	api.BatchResource
	*batchWork
	app.Idle
}

func (b *batchPart) Routes() []edge.Route { return b.BatchResource.Routes() }

func (b *batchPart) Run(ctx context.Context) error { return b.batchWork.Run(ctx) }

func (b *batchPart) Work(ctx context.Context) error { return b.batchWork.Work(ctx) }

// newBatches wires batches and sends no request. gates are needed only for a
// work gate.
func newBatches(e *environment, gates *gate.Gates) (*batchPart, error) {
	share := hostShare
	if e.listening != nil {
		share = 0
	}
	w := newBatchWork(e.cfg, e.processors, gates, e.meter, e.log)
	w.readsLarge = func(ctx context.Context) bool { return readLarge(ctx, e.members) }
	w.open = w.once(func() (*openBatches, error) {
		stores, queues, err := openBatchStores(e.account, e.optionsOf("batches"))
		if err != nil {
			return nil, err
		}
		return w.openOn(e.cfg, stores, queues, share, ofQueues(e.signals))
	})
	return newBatchPart(w, e.listening)
}

// newBatchPart returns the part that does the work, without a Functions host if
// listening is not nil.
func newBatchPart(w *batchWork, l *worker.Listening) (*batchPart, error) {
	b := &batchPart{batchWork: w, BatchResource: api.BatchResource{Known: slices.Sorted(maps.Keys(w.processors)), Log: w.log}}
	b.Opens = func() (*work.Batches, error) {
		opened, err := w.open()
		if err != nil {
			return nil, err
		}
		return opened.batches, nil
	}
	if l == nil {
		return b, nil
	}
	return b, w.listen(l)
}

// openBatchStores opens the stores of batches without Put, and makes no
// request.
func openBatchStores(account azure.Account, o *azure.Options) (s work.Stores, queues *azure.Queues, err error) {
	blobs, err1 := account.OpenBlobs(o)
	tables, err2 := account.OpenTables(o)
	queues, err3 := account.OpenQueues(o)
	if err := errors.Join(err1, err2, err3); err != nil {
		return s, nil, err
	}
	rows, err1 := azure.NewTable(tables, names.BatchesTable)
	claimStore, err2 := azure.NewTable(tables, names.ClaimsTable)
	if err := errors.Join(err1, err2); err != nil {
		return s, nil, err
	}
	claimRows, err := table.New(claimStore)
	if err != nil {
		return s, nil, err
	}
	s = work.Stores{Rows: rows, Staging: azure.NewContainer(blobs, names.StagingContainer), Reports: azure.NewContainer(blobs, names.ReportsContainer)}
	s.Claims, err = queue.NewClaims(claimRows, azure.NewContainer(blobs, names.ClaimsContainer))
	return s, queues, err
}

// parcelSection has the most items of a parcel that a process can read; 0
// without batches.
var parcelSection = instances.One[int]("parcel", nil)

// readLarge reports whether all processes can read large parcels.
func readLarge(ctx context.Context, m *observe.Members) bool {
	directory, err := m.Read(ctx, parcelSection)
	others, known := m.Known(ctx, directory, err)
	return known && directory.Unreadable == 0 && !slices.ContainsFunc(others, func(i instances.Instance) bool { return parcelSection.Of(i.Report) < work.LargeParcel })
}

// workMessage is a message of batches in a worker.
type workMessage struct {
	text string
	held bool // a copy was put back
}

// workMessages reads the messages of batches in a worker: base64, as under a
// Functions host, of the envelopes that queue.Packed reads.
type workMessages struct {
	packed  queue.Packed
	batches *work.Batches
	letters map[string]*observe.LetterCount // by queue
}

// Decode implements [queue.Codec]. What is stored for a message is read by its
// handler.
func (w workMessages) Decode(_ context.Context, m queue.Message) (queue.Content[*workMessage], error) {
	text, err := worker.TextOf(m.Body)
	if err != nil {
		return queue.Content[*workMessage]{}, worker.AsUnreadable(err)
	}
	body := &workMessage{text: text}
	return queue.Content[*workMessage]{Body: body, Done: func(ctx context.Context) error {
		if body.held {
			return nil // the copy needs what is stored for the message
		}
		return w.batches.Forget(ctx, text)
	}}, nil
}

// TraceParent implements [queue.Tracer].
func (workMessages) TraceParent(m queue.Message) string { return worker.HostMessages{}.TraceParent(m) }

// Attempts implements [queue.Codec].
func (w workMessages) Attempts(m queue.Message) (failed int64, next string) {
	text, err := worker.TextOf(m.Body)
	if err != nil {
		return 0, m.Body // Decode returns the error
	}
	m.Body = text
	failed, next = w.packed.Attempts(m)
	return failed, worker.InBase64(next)
}

// DeadLetter implements [queue.Codec].
func (w workMessages) DeadLetter(ctx context.Context, d queue.DeadLetter) (string, error) {
	w.letters[d.Queue].Added(errors.New(d.Reason), observe.MoveTimeout)
	text, err := worker.TextOf(d.Text)
	if err != nil {
		return d.Encode(), nil // not in base64, because the message was not
	}
	d.Text = text
	letter, err := w.packed.DeadLetter(ctx, d)
	return worker.InBase64(letter), err
}
