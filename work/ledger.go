package work

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"kennel/internal/table"
)

// ledger is the row of a batch. It is only changed by Batches.change.
type ledger struct {
	details details
	state   State
	err     string // why it is Failed

	done, rejected, failed int
	counted                bitSet // by parcelID.bit

	operations  float64
	queuedTo    int       // how many of the first parcels a launch that failed has put
	queuedAt    time.Time // when the launch had put all parcels; zero: not yet
	restartedAt time.Time // when the sweep last put parcels again; zero: never
	restarts    int       // how often it did
	finishedAt  time.Time
	lateBy      time.Duration // of a finished batch
	retries     retries       // never modified, only replaced

	version   string    // of the row
	writtenAt time.Time // by the store's clock; zero after our own write
}

// newLedger returns the ledger of a batch whose parcels are not queued yet.
func newLedger(d details) ledger {
	return ledger{details: d, state: Submitting, operations: d.Operations}
}

// ended reports whether the state is final.
func (l *ledger) ended() bool { return l.state == Done || l.state == Failed }

// add counts a row of results unless it was counted before. When every item has
// a result, the state becomes Gathering.
func (l *ledger) add(r resultRow) (added bool, err error) {
	sum := l.done + l.rejected + l.failed + r.count()
	switch {
	case l.counted.has(r.id.bit()):
		return false, nil
	case r.id.Parcel >= l.details.Parcels:
		return false, fmt.Errorf("batch %s has no parcel %d: %w", l.details.ID, r.id.Parcel, ErrMessage)
	case sum > l.details.Items:
		return false, fmt.Errorf("parcel %d, try %d: batch %s would have %d results for %d items: %w",
			r.id.Parcel, r.id.Try, l.details.ID, sum, l.details.Items, ErrMessage)
	}
	l.counted.set(r.id.bit())
	l.done += r.done
	l.rejected += r.rejected
	l.failed += r.failed
	l.operations += r.operations
	if sum == l.details.Items && !l.ended() {
		l.state = Gathering
	}
	return true, nil
}

// bitSet is a set of small numbers.
type bitSet []byte

func (s bitSet) has(n int) bool { return n/8 < len(s) && s[n/8]&(1<<(n%8)) != 0 }

func (s *bitSet) set(n int) {
	for n/8 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[n/8] |= 1 << (n % 8)
}

const (
	format       = "1" // of rows with formatColumn
	formatColumn = table.FormatColumn
)

// row returns the row to store.
func (l *ledger) row() table.Row {
	return table.Row{Partition: l.details.ID, Key: ledgerKey, Values: map[string]string{
		formatColumn:  format,
		detailsColumn: l.details.text(),
		"state":       string(l.state),
		"error":       l.err,
		"done":        strconv.Itoa(l.done),
		"rejected":    strconv.Itoa(l.rejected),
		"failed":      strconv.Itoa(l.failed),
		"counted":     base64.RawStdEncoding.EncodeToString(l.counted),
		"operations":  strconv.FormatFloat(l.operations, 'f', 4, 64),
		"queuedTo":    strconv.Itoa(l.queuedTo),
		"queuedAt":    table.FormatTime(l.queuedAt),
		"restartedAt": table.FormatTime(l.restartedAt),
		"restarts":    strconv.Itoa(l.restarts),
		"finishedAt":  table.FormatTime(l.finishedAt),
		"lateBy":      l.lateBy.String(),

		retryingColumn: l.retries.text(),
	}}
}

// readLedger reads the row of a batch. Its error is ErrCorrupt.
func readLedger(row table.Row) (ledger, error) {
	c := table.ReadColumns(row, format, ErrCorrupt)
	l := ledger{
		state:       State(c.Text("state")),
		err:         c.Text("error"),
		done:        c.Int("done"),
		rejected:    c.Int("rejected"),
		failed:      c.Int("failed"),
		operations:  c.Float("operations"),
		queuedTo:    c.Int("queuedTo"),
		queuedAt:    c.Time("queuedAt"),
		restartedAt: c.Time("restartedAt"),
		restarts:    c.Int("restarts"),
		finishedAt:  c.Time("finishedAt"),
		version:     row.Version,
		writtenAt:   row.WrittenAt,
	}
	var err error
	if l.counted, err = base64.RawStdEncoding.Strict().DecodeString(c.Text("counted")); err != nil || len(l.counted) > maxParcels*MaxTries/8+1 {
		c.Fail("counted")
	}
	if l.lateBy, err = time.ParseDuration(c.Text("lateBy")); err != nil || l.lateBy < 0 {
		c.Fail("lateBy")
	}
	if l.retries, err = readRetries(row.Values[retryingColumn]); err != nil {
		c.Fail(retryingColumn)
	}
	switch l.state {
	case Submitting, Running, Gathering, Done, Failed:
	default:
		c.Fail("state")
	}
	if c.Err() != nil {
		return ledger{}, c.Err()
	}
	if l.details, err = readDetails(c.Text(detailsColumn)); err != nil {
		return ledger{}, fmt.Errorf("ledger of batch %.80q: %w", row.Partition, err)
	}
	switch {
	case l.details.ID != row.Partition || l.details.Parcels > maxParcels:
		c.Fail(detailsColumn)
	case l.done+l.rejected+l.failed > l.details.Items:
		c.Fail("done")
	}
	return l, c.Err()
}
