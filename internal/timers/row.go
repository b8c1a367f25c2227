package timers

import (
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"kennel/internal/control"
	"kennel/internal/table"
)

// partition is that of all rows, so that one query lists them.
const partition = "timer"

// format is the version of the columns.
const format = "1"

// phase is what becomes of the slot of a row.
type phase string

const (
	idle    phase = "idle"    // there is none
	working phase = "working" // an attempt of the owner runs
	waiting phase = "waiting" // the next attempt begins at retryAt
)

// row is the state of a timer. Times of the clocks of processes decide when a
// slot or an attempt may begin, and never whether another process has ended.
type row struct {
	schedule string    // with its zone, of the process that read it last for the first time
	after    time.Time // each slot up to it has ended
	asked    time.Time // the slot of a run that an operator requested; zero: none
	phase    phase
	slot     time.Time      // that works or waits
	failed   int            // attempts of the slot
	began    time.Time      // the first attempt of the slot
	since    time.Time      // the attempt that works
	retryAt  time.Time      // of waiting
	reason   string         // why the last attempt of the slot failed
	owner    string         // the process of the last attempt
	nonce    string         // of the write; the owner writes another one while its attempt runs
	paused   *control.Pause // by a person; nil: it is not. It is replaced, never changed
	last     result
	lastOK   time.Time
}

// result is how a slot ended.
type result struct {
	slot, at time.Time
	outcome  string
	took     time.Duration // of the last attempt
	reason   string
}

// The outcomes of a slot.
const (
	outcomeDone   = "done"
	outcomeFailed = "failed"
)

// maxReason bounds the text of an error in a row, in bytes.
const maxReason = 1000

func cut(text string) string {
	if len(text) <= maxReason {
		return text
	}
	text = text[:maxReason]
	for !utf8.ValidString(text) && len(text) > maxReason-utf8.UTFMax {
		text = text[:len(text)-1]
	}
	return text
}

var errCorrupt = errors.New("the row of the timer is unreadable")

func (r row) values() map[string]string {
	return map[string]string{
		table.FormatColumn: format,
		"schedule":         r.schedule,
		"after":            table.FormatTime(r.after),
		"asked":            table.FormatTime(r.asked),
		"phase":            string(r.phase),
		"slot":             table.FormatTime(r.slot),
		"failed":           strconv.Itoa(r.failed),
		"began":            table.FormatTime(r.began),
		"since":            table.FormatTime(r.since),
		"retryAt":          table.FormatTime(r.retryAt),
		"reason":           r.reason,
		"owner":            r.owner,
		"nonce":            r.nonce,
		"paused":           r.paused.Text(),
		"lastSlot":         table.FormatTime(r.last.slot),
		"lastAt":           table.FormatTime(r.last.at),
		"lastOutcome":      r.last.outcome,
		"lastSeconds":      strconv.FormatFloat(r.last.took.Seconds(), 'f', 3, 64),
		"lastError":        r.last.reason,
		"lastOK":           table.FormatTime(r.lastOK),
	}
}

func readRow(stored table.Row) (row, error) {
	c := table.ReadColumns(stored, format, errCorrupt)
	r := row{
		schedule: c.Text("schedule"), after: c.Time("after"), asked: c.Time("asked"), phase: phase(c.Text("phase")), slot: c.Time("slot"), failed: c.Int("failed"),
		began: c.Time("began"), since: c.Time("since"), retryAt: c.Time("retryAt"), reason: c.Text("reason"), owner: c.Text("owner"), nonce: c.Text("nonce"),
		last: result{
			slot: c.Time("lastSlot"), at: c.Time("lastAt"), outcome: c.Text("lastOutcome"), took: time.Duration(c.Float("lastSeconds") * float64(time.Second)), reason: c.Text("lastError"),
		},
		lastOK: c.Time("lastOK"),
	}
	var err error
	if r.paused, err = control.ParsePause(c.Text("paused")); err != nil {
		c.Fail("paused")
	}
	if r.phase != idle && r.phase != working && r.phase != waiting {
		c.Fail("phase")
	}
	return r, c.Err()
}
