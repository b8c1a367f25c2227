package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kennel/internal/scale"
	"kennel/internal/table"
)

// All rows are in one partition, so that one transaction writes the state and
// the history.
const (
	partition = "scale"
	stateKey  = "advice" // before the history in the order of keys, so that a query finds it at once
	history   = "at-"    // before the time of a check, in the keys of the history

	formatColumn  = "format"
	stateColumn   = "state"   // of package scale
	recordColumn  = "record"  // of the last check
	outcomeColumn = "outcome" // of the last check, if it differs from the one in its record
	rulesColumn   = "rules"   // in use, without windows, so that processes that do not check read them with the row

	// format is the version of the columns' contents.
	format = "1"
)

// ErrNone reports that no check has ended yet.
var ErrNone = errors.New("scaling was not checked yet")

// kept is the row of the check.
type kept struct {
	state     scale.State
	record    Record
	checked   bool         // there is a record
	rules     *scale.Rules // of that check; nil: unknown
	version   string       // "": there is no row
	writtenAt time.Time
}

// load reads the row of the check, and the time by the store's clock. It
// ignores a row in the format of another build or program.
func (c *Check) load(ctx context.Context) (k kept, at time.Time, err error) {
	var page table.Page
	for q := (table.Query{Partition: partition, Key: stateKey, Top: 1}); ; q.After = page.Next {
		if page, err = c.rows.Query(ctx, q); err != nil {
			return k, at, fmt.Errorf("read the state of scaling: %w", err)
		}
		if len(page.Rows) > 0 || page.Next == "" {
			break
		}
	}
	if at = page.ReadAt; at.IsZero() {
		at = time.Now().UTC()
	}
	if len(page.Rows) == 0 {
		return k, at, nil
	}
	row := page.Rows[0]
	k.version, k.writtenAt = row.Version, row.WrittenAt
	if row.Values[formatColumn] != format {
		return k, at, nil
	}
	if text, ok := row.Values[stateColumn]; ok {
		if err := json.Unmarshal([]byte(text), &k.state); err != nil {
			c.opt.Log.WarnContext(ctx, "the stored state of scaling cannot be used; the check begins without", "error", err.Error())
			k.state = scale.State{}
		}
	}
	if text, ok := row.Values[recordColumn]; ok {
		k.checked = json.Unmarshal([]byte(text), &k.record) == nil
	}
	if rules, err := scale.ParseRules([]byte(row.Values[rulesColumn])); err == nil { // otherwise another build wrote them, or none
		k.rules = &rules
	}
	if text, ok := row.Values[outcomeColumn]; ok {
		var o Outcome
		if json.Unmarshal([]byte(text), &o) == nil {
			k.record.Outcome = &o
		}
	}
	return k, at, nil
}

// claim writes the row as it is, so that no other process checks now.
func (c *Check) claim(ctx context.Context, k kept) (version string, err error) {
	w := table.Write{Verb: table.Merge, Row: table.Row{Partition: partition, Key: stateKey, Values: map[string]string{formatColumn: format}}, If: k.version}
	if k.version == "" {
		w.Verb = table.Insert
	}
	versions, err := c.rows.Submit(ctx, w)
	if err != nil {
		return "", fmt.Errorf("begin a check of scaling: %w", err)
	}
	return versions[0], nil
}

// keep stores the result of a check.
func (c *Check) keep(ctx context.Context, k kept) (version string, err error) {
	state, err1 := json.Marshal(k.state)
	record, err2 := json.Marshal(k.record)
	rules, err3 := json.Marshal(k.rules.WithoutWindows())
	values := map[string]string{formatColumn: format, stateColumn: string(state), recordColumn: string(record), rulesColumn: string(rules)}
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", fmt.Errorf("store a check of scaling: %w", err)
	}
	versions, err := c.rows.Submit(ctx,
		table.Write{Verb: table.Replace, Row: table.Row{Partition: partition, Key: stateKey, Values: values}, If: k.version},
		table.Write{Verb: table.Upsert, Row: table.Row{Partition: partition, Key: keyOf(k.record.At), Values: map[string]string{formatColumn: format, recordColumn: string(record)}}})
	if err != nil {
		return "", fmt.Errorf("store a check of scaling: %w", err)
	}
	return versions[0], nil
}

// keepOutcome stores the outcome of the advice.
func (c *Check) keepOutcome(ctx context.Context, k kept, o Outcome) error {
	text, err := json.Marshal(o)
	if err == nil {
		_, err = c.rows.Submit(ctx, table.Write{Verb: table.Merge, If: k.version,
			Row: table.Row{Partition: partition, Key: stateKey, Values: map[string]string{outcomeColumn: string(text)}}})
	}
	if err = notOther(err); err != nil {
		return fmt.Errorf("store the outcome of the advice: %w", err)
	}
	return nil
}

// keyOf returns the key of a row of the history.
func keyOf(at time.Time) string { return history + at.UTC().Format(time.RFC3339) }

// notOther returns nil for the error of a write that another process preceded:
// that one checks.
func notOther(err error) error {
	if table.IsConflict(err) {
		return nil
	}
	return err
}

// Latest returns the last check of any process, or ErrNone.
func (c *Check) Latest(ctx context.Context) (Record, error) {
	k, _, err := c.load(ctx)
	if err == nil && !k.checked {
		err = ErrNone
	}
	return k.record, err
}

// Page selects a part of the history.
type Page struct {
	From, To     time.Time // To is not included; zero: without a limit
	Top          int
	Continuation string // of the page before; "" for the first one
}

// ErrContinuation reports a continuation that no list returned.
var ErrContinuation = errors.New("the continuation is invalid")

// maxBytes is about where a page ends.
const maxBytes = 1 << 20

// History returns checks in their order, and the continuation of the next page,
// "" if there is none. Rows that another build wrote are left out.
func (c *Check) History(ctx context.Context, p Page) (records []Record, continuation string, err error) {
	q := table.Query{Partition: partition, Above: history, Below: history + "~"}
	if !p.From.IsZero() {
		q.Above = keyOf(p.From.Add(-1)) // seconds: the one before, or the same
	}
	if !p.To.IsZero() {
		q.Below = keyOf(p.To.Add(time.Second - 1))
	}
	if p.Continuation != "" {
		at, err := time.Parse(time.RFC3339, p.Continuation)
		if err != nil {
			return nil, "", fmt.Errorf("%w: it was not returned by this list", ErrContinuation)
		}
		q.Above = keyOf(at)
	}
	records = []Record{}
	for size := 0; ; {
		q.Top = p.Top - len(records)
		page, err := c.rows.Query(ctx, q)
		if err != nil {
			return nil, "", fmt.Errorf("read the history of scaling: %w", err)
		}
		for _, row := range page.Rows {
			var r Record
			if row.Values[formatColumn] == format && json.Unmarshal([]byte(row.Values[recordColumn]), &r) == nil {
				records = append(records, r)
			}
			if size += len(row.Values[recordColumn]); size > maxBytes && len(records) > 0 {
				return records, records[len(records)-1].At.UTC().Format(time.RFC3339), nil
			}
		}
		if q.After = page.Next; q.After == "" {
			return records, "", nil
		}
		if len(records) == p.Top {
			return records, records[p.Top-1].At.UTC().Format(time.RFC3339), nil
		}
	}
}

const sweepEvery = time.Hour // for old rows of the history

// sweep removes rows of the history that are older than they are kept.
func (c *Check) sweep(ctx context.Context, at time.Time) error {
	c.mu.Lock()
	due := at.Sub(c.sweptAt) >= sweepEvery
	c.mu.Unlock()
	if !due {
		return nil
	}
	q := table.Query{Partition: partition, Above: history, Below: keyOf(at.Add(-c.opt.Keep)), KeysOnly: true, Top: table.MaxTransaction}
	for {
		page, err := c.rows.Query(ctx, q)
		var old []table.Write
		for _, row := range page.Rows {
			old = append(old, table.Write{Verb: table.Delete, If: table.AnyVersion, Row: table.Row{Partition: row.Partition, Key: row.Key}})
		}
		if err == nil && len(old) > 0 {
			_, err = c.rows.Submit(ctx, old...)
		}
		if errors.Is(err, table.ErrNotFound) {
			return nil // another process sweeps
		}
		if err != nil {
			return fmt.Errorf("remove old rows of the history of scaling: %w", err)
		}
		if q.After = page.Next; q.After == "" {
			c.mu.Lock()
			c.sweptAt = at
			c.mu.Unlock()
			return nil
		}
	}
}
