package format

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/model"
)

// BatchRow is the row of a batch. It is only changed by Store.Change.
type BatchRow struct {
	Details Details
	State   model.State
	Err     string // why it is Failed

	Done, Rejected, Failed int
	Tried                  Tries

	Operations  float64
	QueuedTo    int       // how many of the first parcels a launch that failed has put
	QueuedAt    time.Time // when the launch had put all parcels; zero: not yet
	WaitsUntil  time.Time // when the last of the next tries begins that are known; zero: none
	RestartedAt time.Time // when the sweep last put parcels again; zero: never
	Restarts    int       // how often it did
	FinishedAt  time.Time
	LateBy      time.Duration // of a finished batch
	Retries     retries       // never modified, only replaced
	End         EndRetry

	Version   string    // of the row
	WrittenAt time.Time // by the store's clock; zero after our own write
}

// NewBatchRow returns the row of a batch whose parcels are not queued yet.
func NewBatchRow(d Details) BatchRow {
	return BatchRow{Details: d, State: model.Submitting, Operations: d.Operations}
}

// Ended reports whether the state is final.
func (l *BatchRow) Ended() bool { return l.State == model.Done || l.State == model.Failed }

// Add counts a row of results unless it was counted before. When every item has
// a result, the state becomes Gathering.
func (l *BatchRow) Add(r ResultRow) (added bool, err error) {
	sum := l.Done + l.Rejected + l.Failed + r.Count()
	switch {
	case r.ID.Parcel >= l.Details.Parcels:
		return false, fmt.Errorf("batch %s has no parcel %d: %w", l.Details.ID, r.ID.Parcel, model.ErrMessage)
	case r.ID.Try < l.Tried.Of(r.ID.Parcel):
		return false, nil
	case r.ID.Try > l.Tried.Of(r.ID.Parcel): // the next try is put after this one is counted
		return false, fmt.Errorf("parcel %d, try %d: of batch %s the tries before are not counted: %w", r.ID.Parcel, r.ID.Try, l.Details.ID, model.ErrMessage)
	case sum > l.Details.Items:
		return false, fmt.Errorf("parcel %d, try %d: batch %s would have %d results for %d items: %w",
			r.ID.Parcel, r.ID.Try, l.Details.ID, sum, l.Details.Items, model.ErrMessage)
	}
	l.Tried.Count(r.ID.Parcel)
	if r.NextAt.After(l.WaitsUntil) {
		l.WaitsUntil = r.NextAt
	}
	l.Done += r.Done
	l.Rejected += r.Rejected
	l.Failed += r.Failed
	l.Operations += r.Operations
	if sum == l.Details.Items && !l.Ended() {
		l.State = model.Gathering
	}
	return true, nil
}

// Tries are how many tries of each parcel are counted.
type Tries []uint8

// Of returns the number of a parcel.
func (t Tries) Of(parcel int) int {
	if parcel >= len(t) {
		return 0
	}
	return int(t[parcel])
}

// Has reports whether a try is counted.
func (t Tries) Has(id ParcelID) bool { return id.Try < t.Of(id.Parcel) }

// Count counts a try of a parcel.
func (t *Tries) Count(parcel int) {
	for parcel >= len(*t) {
		*t = append(*t, 0)
	}
	(*t)[parcel]++
}

const triesColumn = "tried" // and a number from 0; of many parcels, one is too short

// BitSet is a set of small numbers.
type BitSet []byte

func (s BitSet) Has(n int) bool { return n/8 < len(s) && s[n/8]&(1<<(n%8)) != 0 }

func (s *BitSet) Set(n int) {
	for n/8 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[n/8] |= 1 << (n % 8)
}

// Row returns the row to store.
func (l *BatchRow) Row() table.Row {
	values := map[string]string{
		VersionColumn: Version,
		DetailsColumn: l.Details.Text(),
		"state":       string(l.State),
		"error":       l.Err,
		"done":        strconv.Itoa(l.Done),
		"rejected":    strconv.Itoa(l.Rejected),
		"failed":      strconv.Itoa(l.Failed),
		"operations":  strconv.FormatFloat(l.Operations, 'f', 4, 64),
		"queuedTo":    strconv.Itoa(l.QueuedTo),
		"queuedAt":    table.FormatTime(l.QueuedAt),
		"waitsUntil":  table.FormatTime(l.WaitsUntil),
		"restartedAt": table.FormatTime(l.RestartedAt),
		"restarts":    strconv.Itoa(l.Restarts),
		"finishedAt":  table.FormatTime(l.FinishedAt),
		"lateBy":      l.LateBy.String(),

		retryingColumn: l.Retries.Text(),
		endColumn:      l.End.Text(),
	}
	putColumns(values, triesColumn, l.Tried)
	return table.Row{Partition: l.Details.ID, Key: BatchKey, Values: values}
}

// ReadBatchRow reads the row of a batch. Its error is ErrCorrupt.
func ReadBatchRow(row table.Row) (BatchRow, error) {
	c := table.ReadColumns(row, Version, model.ErrCorrupt)
	l := BatchRow{
		State:       model.State(c.Text("state")),
		Err:         c.Text("error"),
		Done:        c.Int("done"),
		Rejected:    c.Int("rejected"),
		Failed:      c.Int("failed"),
		Operations:  c.Float("operations"),
		QueuedTo:    c.Int("queuedTo"),
		QueuedAt:    c.Time("queuedAt"),
		WaitsUntil:  c.Time("waitsUntil"),
		RestartedAt: c.Time("restartedAt"),
		Restarts:    c.Int("restarts"),
		FinishedAt:  c.Time("finishedAt"),
		Version:     row.Version,
		WrittenAt:   row.WrittenAt,
	}
	var err error
	if l.Tried, err = readColumns(row.Values, triesColumn); err != nil || len(l.Tried) > MaxParcels || slices.ContainsFunc(l.Tried, func(n uint8) bool { return n > model.ParcelTries }) {
		c.Fail(triesColumn + "0")
	}
	if l.LateBy, err = time.ParseDuration(c.Text("lateBy")); err != nil || l.LateBy < 0 {
		c.Fail("lateBy")
	}
	if l.Retries, err = readRetries(row.Values[retryingColumn]); err != nil {
		c.Fail(retryingColumn)
	}
	if l.End, err = readEndRetry(row.Values[endColumn]); err != nil {
		c.Fail(endColumn)
	}
	switch l.State {
	case model.Submitting, model.Running, model.Gathering, model.Done, model.Failed:
	default:
		c.Fail("state")
	}
	if c.Err() != nil {
		return BatchRow{}, c.Err()
	}
	if l.Details, err = ReadDetails(c.Text(DetailsColumn)); err != nil {
		return BatchRow{}, fmt.Errorf("row of batch %.80q: %w", row.Partition, err)
	}
	switch {
	case l.Details.ID != row.Partition || l.Details.Parcels > MaxParcels:
		c.Fail(DetailsColumn)
	case l.Done+l.Rejected+l.Failed > l.Details.Items:
		c.Fail("done")
	}
	return l, c.Err()
}

// IsDue reports whether an entry still describes its parcel: the results of the
// next try are not counted.
func (l *BatchRow) IsDue(r Retry) bool {
	next := ParcelID{r.Parcel, r.Try + 1}
	return next.Check() == nil && !l.Tried.Has(next)
}

// AddRetry adds an entry, and removes those that are over.
func (l *BatchRow) AddRetry(r Retry) (changed bool) {
	if l.Ended() || !l.IsDue(r) || slices.ContainsFunc(l.Retries, func(other Retry) bool { return other.Parcel == r.Parcel && other.Try >= r.Try }) {
		return false
	}
	kept := make(retries, 0, MaxRetries)
	for _, other := range l.Retries {
		if l.IsDue(other) && other.Parcel != r.Parcel {
			kept = append(kept, other)
		}
	}
	if len(kept) == MaxRetries {
		return false
	}
	l.Retries = append(kept, r)
	return true
}

// Retrying returns what is tried again, or nil.
func (l *BatchRow) Retrying() *model.Retrying {
	var all model.Retrying
	entries := 0
	for _, r := range l.Retries {
		if !l.IsDue(r) {
			continue
		}
		entries++
		all.Items += r.Items
		if all.Item == "" || r.Attempts > all.Attempts {
			all.Attempts, all.MaxAttempts, all.Item, all.Error = r.Attempts, r.MaxAttempts, r.Item, r.Error
		}
		if all.NextAt.IsZero() || r.NextAt.Before(all.NextAt) {
			all.NextAt = r.NextAt.UTC()
		}
	}
	if entries == 0 || l.Ended() {
		return nil
	}
	all.Items = min(all.Items, l.Details.Items-l.Done-l.Rejected-l.Failed)
	all.More = entries == MaxRetries
	return &all
}
