package work_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"kennel/work"
)

// sums is the processor of these tests. It returns the number of each item, and
// its report is their sum. It counts how often it processed each item: the
// counts outlive all processes.
type sums struct {
	quiet bool // nothing is counted, and no item fails
	each  int  // items of a large parcel; 0: work.LargeParcel

	attempts, atOnce int // see [work.Bounded]

	mu    sync.Mutex
	tries map[string]int       // by item
	begun map[string]time.Time // the first time, by item
	told  map[string]int       // how often it was told that a batch ended, by batch

	atEnd func(ctx context.Context, b work.Batch, try int) error // called by Ended; nil: nothing
}

func newSums() *sums {
	return &sums{tries: make(map[string]int), begun: make(map[string]time.Time), told: make(map[string]int)}
}

// Ended implements [work.Ender].
func (s *sums) Ended(ctx context.Context, b work.Batch, try int) error {
	s.mu.Lock()
	s.told[b.ID]++
	s.mu.Unlock()
	if s.atEnd == nil {
		return nil
	}
	return s.atEnd(ctx, b, try)
}

// ends returns how often the processor was told that a batch ended.
func (s *sums) ends(batch string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told[batch]
}

// Name of the processor.
const processor = "sum"

// ParcelItems implements [work.Sized].
func (s *sums) ParcelItems() int { return cmp.Or(s.each, work.LargeParcel) }

// Bounds implements [work.Bounded].
func (s *sums) Bounds() (attempts, atOnce int) { return s.attempts, s.atOnce }

// item is one item. Its ID is unique in all batches of a test.
type item struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
	Fails  int    `json:"fails,omitempty"`  // the first tries, after those in which it is put off
	Snooze int    `json:"snooze,omitempty"` // the tries in which it is put off
	Wait   int    `json:"wait,omitempty"`   // seconds until the next try; 0: the usual ones
	Panics bool   `json:"panics,omitempty"` // in the tries that fail
	Bad    bool   `json:"bad,omitempty"`    // it is rejected
	Millis int    `json:"ms,omitempty"`     // how long it takes
	Pad    string `json:"pad,omitempty"`
}

// always as item.Fails is more than any number of tries.
const always = 1 << 30

// outcome returns how an item ends.
func (i item) outcome() work.Outcome {
	switch {
	case i.Bad:
		return work.ItemRejected
	case i.Fails >= work.MaxTries:
		return work.ItemFailed
	}
	return work.ItemDone
}

type amount struct {
	Amount int64 `json:"amount"`
}

// Validate implements [work.Processor].
func (s *sums) Validate(data json.RawMessage) error {
	var i item
	if err := json.Unmarshal(data, &i); err != nil {
		return errors.New("the amount is not a number")
	}
	return nil
}

// Process implements [work.Processor].
func (s *sums) Process(ctx context.Context, it work.Item) (json.RawMessage, error) {
	var i item
	if err := json.Unmarshal(it.Data, &i); err != nil || i.ID != it.ID {
		return nil, fmt.Errorf("item %q is %.100q: %v", it.ID, it.Data, err)
	}
	if s.quiet {
		return json.Marshal(amount{i.Amount})
	}
	s.mu.Lock()
	s.tries[i.ID]++
	n := s.tries[i.ID]
	if n == 1 {
		s.begun[i.ID] = time.Now()
	}
	s.mu.Unlock()
	if i.Millis > 0 {
		select {
		case <-time.After(time.Duration(i.Millis) * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if most := cmp.Or(s.attempts, work.MaxTries); it.Try < 1 || it.Try > most || it.Try > n {
		panic(fmt.Sprintf("attempt %d of %d, in call %d", it.Try, most, n))
	}
	switch wait := time.Duration(i.Wait) * time.Second; {
	case i.Bad:
		return nil, fmt.Errorf("%w: bad", work.ErrRejected)
	case n <= i.Snooze:
		return nil, &work.Later{Wait: wait, Snoozed: true}
	case n <= i.Snooze+i.Fails && i.Panics:
		panic("broken")
	case n <= i.Snooze+i.Fails && wait > 0:
		return nil, &work.Later{Wait: wait, Err: errors.New("broken")}
	case n <= i.Snooze+i.Fails:
		return nil, errors.New("broken")
	}
	return json.Marshal(amount{i.Amount})
}

// NewReport implements [work.Processor].
func (s *sums) NewReport(batch string) work.Report { return &total{Batch: batch} }

// total is the report.
type total struct {
	Batch    string   `json:"batch"`
	Amount   int64    `json:"amount"`
	Done     int      `json:"done"`
	Rejected []string `json:"rejected"`
	Failed   []string `json:"failed"`
}

// Add implements [work.Report].
func (r *total) Add(result work.Result) error {
	switch result.Outcome {
	case work.ItemDone:
		var a amount
		if err := json.Unmarshal(result.Result, &a); err != nil {
			return err
		}
		r.Amount += a.Amount
		r.Done++
	case work.ItemRejected:
		r.Rejected = append(r.Rejected, result.ID)
	case work.ItemFailed:
		r.Failed = append(r.Failed, result.ID)
	}
	return nil
}

// JSON implements [work.Report].
func (r *total) JSON() ([]byte, error) {
	slices.Sort(r.Rejected)
	slices.Sort(r.Failed)
	return json.Marshal(r)
}

// CSV implements [work.Report].
func (r *total) CSV() ([]byte, error) {
	return fmt.Appendf(nil, "amount,done,rejected,failed\n%d,%d,%d,%d\n", r.Amount, r.Done, len(r.Rejected), len(r.Failed)), nil
}

// expected returns the report that a batch of these items must have.
func expected(batch string, items []item) (json, csv string) {
	r := total{Batch: batch}
	for _, i := range items {
		switch i.outcome() {
		case work.ItemDone:
			r.Amount += i.Amount
			r.Done++
		case work.ItemRejected:
			r.Rejected = append(r.Rejected, i.ID)
		case work.ItemFailed:
			r.Failed = append(r.Failed, i.ID)
		}
	}
	j, _ := r.JSON() // no error is possible
	c, _ := r.CSV()
	return string(j), string(c)
}

// noise cannot be compressed. Items have parts of it, so that few of them fill
// a parcel.
var noise = func() string {
	data := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(data) // never fails
	return base64.StdEncoding.EncodeToString(data)
}()

// Sizes of items: of those of halfParcel, two fill a parcel. A parcel with one
// item of claimed is too long for a message.
const (
	small      = 0
	halfParcel = 21 << 10
	aParcel    = 31 << 10
	claimed    = 62 << 10
)

// someItems returns n items with this much noise each.
func someItems(of string, n, pad int) []item {
	items := make([]item, n)
	for i := range items {
		items[i] = item{ID: fmt.Sprint(of, "-", i), Amount: int64(i*i + 7)}
		if pad > 0 {
			from := (i * pad) % (len(noise) - pad)
			items[i].Pad = noise[from : from+pad]
		}
	}
	return items
}

// lines returns items as NDJSON.
func lines(items []item) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, i := range items {
		_ = encoder.Encode(i) // no error is possible
	}
	return text.Bytes()
}
