package client

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Submission is a batch of items to be processed.
type Submission struct {
	Processor string // the processor of the items, such as "billing"
	Name      string // for people; may be empty

	// Key makes the call safe to repeat: in 24 hours, all calls with the same
	// key and body return the same batch. The default is a random key, so that
	// only the repeats of one call are safe. A key has 1 to 128 visible ASCII
	// characters.
	Key string

	// Body has one item on each line (NDJSON), or with Array is one JSON array.
	// It may be compressed with gzip. It is read once, and kept in memory in
	// compressed form.
	Body  io.Reader
	Array bool
}

// Batch is a batch of items, and how far it is.
type Batch struct {
	ID        string `json:"batch"`
	Name      string `json:"name"`
	Processor string `json:"processor"`
	State     string `json:"state"` // BatchSubmitting and so on
	Error     string `json:"error"` // why it is BatchFailed

	Items    int `json:"items"`
	Done     int `json:"done"`
	Rejected int `json:"rejected"`
	Failed   int `json:"failed"`
	Parcels  int `json:"parcels"` // messages into which the items were packed

	SubmittedAt time.Time  `json:"submittedAt"`
	FinishedAt  *time.Time `json:"finishedAt"` // nil before the end

	// LateBy is how many seconds after the app's latency target the batch
	// finished, or by how much it is late now.
	LateBy float64 `json:"lateBy"`

	// StorageOperations is how many requests to storage the batch has caused so
	// far. If Modelled, that includes an estimate of those of the Functions
	// host.
	StorageOperations int64 `json:"storageOperations"`
	Modelled          bool  `json:"modelled"`

	// Retrying counts the items that failed and are tried again; nil: none.
	Retrying *BatchRetrying `json:"retrying"`

	received
}

// BatchRetrying describes the items of a batch that failed and are tried again.
type BatchRetrying struct {
	Items       int       `json:"items"`
	More        bool      `json:"more"`        // perhaps others as well
	Attempts    int       `json:"attempts"`    // most of one item so far; 0: it was only put off
	MaxAttempts int       `json:"maxAttempts"` // of an item; then it has failed
	Item        string    `json:"item"`        // one of those with the most attempts
	Error       string    `json:"error"`       // why its last attempt failed
	NextAt      time.Time `json:"nextAt"`      // when the next of all these attempts begins
}

// The values of [Batch.State].
const (
	BatchSubmitting = "submitting" // not all items are queued
	BatchRunning    = "running"
	BatchHeld       = "held"      // the gate of the work queues is closed
	BatchGathering  = "gathering" // every item has a result; the report is made
	BatchDone       = "done"
	BatchFailed     = "failed" // it cannot be finished
)

// Finished reports whether the batch has ended, done or failed.
func (b Batch) Finished() bool { return b.State == BatchDone || b.State == BatchFailed }

// BatchResult is how one item of a batch ended.
type BatchResult struct {
	ID      string          `json:"id"` // of the item
	Outcome string          `json:"outcome"`
	Result  json.RawMessage `json:"result"` // of the processor, if the item is done
	Error   string          `json:"error"`  // if it is not

	received
}

// The values of [BatchResult.Outcome].
const (
	ItemDone     = "done"
	ItemRejected = "rejected" // the item itself is unusable
	ItemFailed   = "failed"   // its last try failed
)

// ReportFormat is a format of the report on a batch.
type ReportFormat string

// The formats of a report.
const (
	ReportJSON ReportFormat = "application/json"
	ReportCSV  ReportFormat = "text/csv"
)

const (
	// maxUpload is the largest body of a request that the Functions host
	// accepts without a setting. It rejects others with a 500 that seems worth
	// repeating.
	maxUpload = 100 << 20

	// minCompressed is the size from which a body is compressed.
	minCompressed = 4 << 10

	// uploadRate is the slowest upload that is waited for, in bytes per second.
	uploadRate = 64 << 10

	maxReport = 256 << 20 // bytes
)

// SubmitBatch submits a batch and returns it as it is then. Nothing is
// processed unless every item is valid: otherwise the code is bad_items, and
// [Error.Items] has the first invalid ones. After an error that is ErrUnclear
// the batch may exist; submit it again with the same key, if it has one. The
// code key_reused reports that the key was used for another batch.
func (c *Client) SubmitBatch(ctx context.Context, s Submission) (b Batch, err error) {
	if s.Processor == "" {
		return b, invalidf("a batch needs a processor, for example billing")
	}
	if err := checkTexts(s.Processor, s.Name); err != nil {
		return b, err
	}
	key := cmp.Or(s.Key, rand.Text())
	if err := checkKey("batch", key); err != nil {
		return b, err
	}
	body, err := readUpload(s.Body)
	if err != nil {
		return b, err
	}
	if len(body) == 0 {
		return b, invalidf("the batch is empty; it needs at least one item")
	}
	query := url.Values{"processor": {s.Processor}}
	if s.Name != "" {
		query.Set("name", s.Name)
	}
	r := request{
		method:  http.MethodPost,
		path:    "/batches?" + query.Encode(),
		upload:  &upload{kind: "application/x-ndjson", body: body},
		key:     key,
		repeats: always,
		effect:  "the batch may have been submitted",
		takes:   time.Duration(len(body)/uploadRate) * time.Second,
	}
	if s.Array {
		r.upload.kind = "application/json"
	}
	if _, err := c.call(ctx, r, &b); err != nil {
		return Batch{}, err
	}
	if b.ID == "" {
		return Batch{}, c.unexpected(r, "it is not a batch")
	}
	return b, nil
}

// Batch reads a batch.
func (c *Client) Batch(ctx context.Context, id string) (b Batch, err error) {
	if err := checkName("batch", id); err != nil {
		return b, err
	}
	r := request{method: http.MethodGet, path: batchPath(id, ""), repeats: always}
	_, err = c.call(ctx, r, &b)
	return b, c.expect(r, err, "batch", b.ID, id)
}

// Batches lists the batches in the order of their submission. An error ends the
// list.
func (c *Client) Batches(ctx context.Context) iter.Seq2[Batch, error] {
	return list[Batch](ctx, c, "/batches", nil, defaultTop)
}

// NewestBatches is Batches with the newest batches first. It has no batches
// that are submitted while the list is read.
func (c *Client) NewestBatches(ctx context.Context) iter.Seq2[Batch, error] {
	return list[Batch](ctx, c, "/batches", url.Values{"order": {"newest"}}, defaultTop)
}

// WatchBatch yields b and then, every second, the newest known state of the same
// batch, until it has finished. It continues through outages. A permanent error
// or the end of ctx ends it with that error.
func (c *Client) WatchBatch(ctx context.Context, b Batch) iter.Seq2[Batch, error] {
	r := request{method: http.MethodGet, path: batchPath(b.ID, "")}
	runs := func(b Batch) bool { return !b.Finished() }
	return follow(ctx, c, b, runs, func() (newer Batch, err error) {
		answer, err := c.once(ctx, r)
		if err == nil {
			err = c.decode(answer, r, &newer)
		}
		return newer, c.expect(r, err, "batch", newer.ID, b.ID)
	})
}

// BatchResults lists the results of a batch so far. An error ends the list.
func (c *Client) BatchResults(ctx context.Context, id string) iter.Seq2[BatchResult, error] {
	return c.batchResults(ctx, id, nil)
}

// BatchResultsWith is BatchResults with only the results of one outcome, such as
// ItemRejected.
func (c *Client) BatchResultsWith(ctx context.Context, id, outcome string) iter.Seq2[BatchResult, error] {
	return c.batchResults(ctx, id, url.Values{"outcome": {outcome}})
}

func (c *Client) batchResults(ctx context.Context, id string, query url.Values) iter.Seq2[BatchResult, error] {
	if err := checkName("batch", id); err != nil {
		return func(yield func(BatchResult, error) bool) { yield(BatchResult{}, err) }
	}
	return list[BatchResult](ctx, c, batchPath(id, "/results"), query, maxTop)
}

// BatchReport writes the report on a batch to w, which receives nothing unless
// the report arrived whole. Before the batch is done, the code is
// batch_running, and of one that failed batch_failed.
func (c *Client) BatchReport(ctx context.Context, id string, format ReportFormat, w io.Writer) error {
	if err := checkName("batch", id); err != nil {
		return err
	}
	r := request{method: http.MethodGet, path: batchPath(id, "/report"), accept: string(format), repeats: always, limit: maxReport}
	answer, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	if answer.kind != string(format) {
		return c.unexpected(r, "content type %q instead of %s; check that the address is the app's", answer.kind, format)
	}
	_, err = w.Write(answer.body)
	return err
}

func batchPath(id, rest string) string { return "/batches/" + url.PathEscape(id) + rest }

// readUpload returns the body to send: compressed, unless it is short or
// already compressed. The Functions host drops the header Content-Encoding, so
// the app recognizes gzip by its first bytes.
func readUpload(from io.Reader) ([]byte, error) {
	in := bufio.NewReaderSize(from, minCompressed)
	head, err := in.Peek(minCompressed)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read the items: %w", err)
	}
	var body bytes.Buffer
	limited := writerFunc(func(p []byte) (int, error) {
		if body.Len()+len(p) > maxUpload {
			return 0, invalidf("longer than %d MiB after compression, which the Functions host rejects; split the batch", maxUpload>>20)
		}
		return body.Write(p)
	})
	if len(head) < minCompressed || bytes.HasPrefix(head, []byte("\x1f\x8b")) {
		_, err = io.Copy(limited, in)
	} else {
		packed, _ := gzip.NewWriterLevel(limited, gzip.BestSpeed) // a valid level
		if _, err = io.Copy(packed, in); err == nil {
			err = packed.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the items: %w", err)
	}
	return body.Bytes(), nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
