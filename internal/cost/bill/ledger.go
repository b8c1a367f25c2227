package bill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"kennel/internal/table"
)

// When a process writes its row: every writeEvery, by a tenth more or less, and
// earlier if it has counted manyOperations since, but never twice within
// minPause. So the ledger costs 12 operations an hour, or a hundredth of those
// that it counts, of the cheapest kind.
const (
	checkEvery     = 10 * time.Second
	writeEvery     = 5 * time.Minute
	manyOperations = 100
	minPause       = 30 * time.Second

	foldEvery = time.Hour
	maxFold   = 10 * time.Minute // until the first fold

	callTimeout = 5 * time.Second // of one request
)

// Process describes the process of a ledger.
type Process struct {
	Name   string // which no other process has
	Hosted bool   // by a Functions host, which delivers its messages
	Bus    bool   // it is connected to Service Bus
}

// Ledger keeps the usage of this process in a table, and reads that of all.
type Ledger struct {
	rows    table.Store // nil: the usage is lost with the process
	process Process
	counts  func() Counts
	log     *slog.Logger

	// Only Run uses these, and Close afterwards.
	written Counts   // by the last write that succeeded
	tried   snapshot // of the last write
	dueAt   time.Time

	mu  sync.Mutex
	row ownRow // changed only by write; guarded by mu
}

// ownRow is the row of this process for the present day.
type ownRow struct {
	from    snapshot  // when it began
	triedAt time.Time // of the first write, if it was unclear
	exists  bool      // a write of it succeeded
}

// snapshot is a state of the counts at a time.
type snapshot struct {
	at     time.Time
	counts Counts
}

// NewLedger returns the ledger of a process. counts returns its counts since
// its start. Without a table, rows is nil.
func NewLedger(rows table.Store, process Process, counts func() Counts, log *slog.Logger) *Ledger {
	start := snapshot{at: time.Now().UTC()}
	return &Ledger{rows: rows, process: process, counts: counts, log: log, row: ownRow{from: start}, tried: start}
}

// Run writes the usage of this process and folds rows of others until ctx ends.
// It returns nil: if the table fails, the app works without. Call Close
// afterwards.
func (l *Ledger) Run(ctx context.Context) error {
	if l.rows == nil {
		return nil
	}
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	began := time.Now()
	l.dueAt = began.Add(jittered(writeEvery))
	foldAt := began.Add(rand.N(maxFold))
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		now := time.Now()
		if l.isDue(now) {
			l.dueAt = now.Add(jittered(writeEvery))
			if err := l.write(ctx); err != nil && ctx.Err() == nil {
				l.log.Warn("cannot write the bill of this instance; trying again later", "error", err)
			}
		}
		if !now.Before(foldAt) {
			foldAt = now.Add(jittered(foldEvery))
			if err := l.fold(ctx, now); err != nil && ctx.Err() == nil {
				l.log.Warn("cannot add up rows of the bill; trying again later", "error", err)
			}
		}
	}
}

// jittered differs from d by up to a tenth, so that processes that started
// together do not stay together.
func jittered(d time.Duration) time.Duration { return d*9/10 + rand.N(d/5) }

// isDue reports whether to write now: because it is time, a day has ended, or
// much was counted. Only Run calls it.
func (l *Ledger) isDue(now time.Time) bool {
	if !now.Before(l.dueAt) {
		return true
	}
	if now.Sub(l.tried.at) < minPause {
		return false
	}
	return dayOf(now) != dayOf(l.row.from.at) || l.counts().total()-l.written.total() >= manyOperations
}

// Close writes the counts since the last write. A process that never sent a
// request sends none at its end.
func (l *Ledger) Close(ctx context.Context) error {
	if l.rows == nil || l.counts().total() == 0 {
		return nil
	}
	if err := l.write(ctx); err != nil {
		return fmt.Errorf("write the bill of this instance, which lacks its last minutes: %w", err)
	}
	return nil
}

// write replaces the row of this process by one with its present usage. The
// last write of a day has the counts until now, and the next one begins the row
// of the new day.
//
// The first write of a row may be unclear, so until one has succeeded it is
// repeated without a condition, for as long as the row cannot be folded. After
// that the row exists until it is folded, and must not be written again.
func (l *Ledger) write(ctx context.Context) error {
	now := snapshot{time.Now().UTC(), l.counts()}
	row := l.row
	if !row.triedAt.IsZero() && !row.exists && now.at.Sub(row.triedAt) > foldAfter {
		row = ownRow{from: l.tried}
	}
	w := table.Write{Verb: table.Upsert, Row: rowOf(keyOf(row.from.at, l.process.Name), l.usage(row.from, now))}
	if row.exists {
		w.Verb, w.If = table.Replace, table.AnyVersion
	}
	one, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := l.rows.Submit(one, w) // without mu, which Read takes

	switch {
	case errors.Is(err, table.ErrNotFound): // it was folded, perhaps with the last write
		l.begin(ownRow{from: l.tried})
		return fmt.Errorf("the row was added to those of ended instances, because it was not written for %v: %w", foldAfter, err)
	case err != nil:
		if l.tried = now; !errors.Is(err, table.ErrRefused) {
			row.triedAt = cmp.Or(row.triedAt, now.at)
			l.begin(row)
		}
		return err
	}
	l.tried, l.written = now, now.counts
	if row.exists = true; dayOf(now.at) != dayOf(row.from.at) {
		row = ownRow{from: snapshot{dayOf(now.at), now.counts}}
	}
	l.begin(row)
	return nil
}

func (l *Ledger) begin(row ownRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.row = row
}

// usage returns the usage of this process between two times. The first one
// decides the day.
func (l *Ledger) usage(from, now snapshot) Usage {
	u := Usage{Counts: now.counts.since(from.counts)}
	span := Span{from.at, now.at}
	if end := dayOf(from.at).AddDate(0, 0, 1); span.To.After(end) {
		span.To = end
	}
	if l.process.Hosted {
		u.Hosted, u.HostedHours = span, span.hours()
	}
	if l.process.Bus {
		u.Bus = span
	}
	return u
}

// foldAfter is how long a row must not have been written before it is folded.
const foldAfter = time.Hour

// fold adds rows of processes that ended to the row of their day, as many as a
// transaction takes, and deletes them. Each process does it, so that no process
// has to be there for it; if two do it at once, one of them changes nothing.
func (l *Ledger) fold(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 4*callTimeout)
	defer cancel()
	err := l.foldMonth(ctx, now)
	// The last day of a month may be folded in the next one.
	if before := now.Add(-2 * 24 * time.Hour); before.UTC().Month() != now.UTC().Month() {
		err = errors.Join(err, l.foldMonth(ctx, before))
	}
	return err
}

func (l *Ledger) foldMonth(ctx context.Context, month time.Time) error {
	all, at, err := readMonth(ctx, l.rows, month)
	if err != nil {
		return err
	}
	type days struct {
		sum     Usage
		deletes []table.Write
	}
	ended := make(map[time.Time]*days)
	totals := make(map[time.Time]table.Row)
	for _, row := range all {
		k, u, err := parseRow(row)
		if err != nil {
			continue
		}
		d := ended[k.day]
		if d == nil {
			d = &days{}
			ended[k.day] = d
		}
		switch {
		case k.name == "":
			totals[k.day] = row
			d.sum = d.sum.and(u)
		case at.Sub(row.WrittenAt) > foldAfter && len(d.deletes) < table.MaxTransaction-1:
			d.sum = d.sum.and(u)
			d.deletes = append(d.deletes, table.Write{Verb: table.Delete, Row: table.Row{Partition: row.Partition, Key: row.Key}, If: row.Version})
		}
	}
	for day, d := range ended {
		if len(d.deletes) == 0 {
			continue
		}
		sum := table.Write{Verb: table.Insert, Row: rowOf(key{day: day}, d.sum)}
		if total, ok := totals[day]; ok {
			sum.Verb, sum.If = table.Replace, total.Version
		}
		_, err := l.rows.Submit(ctx, append(d.deletes, sum)...)
		if err != nil && !table.IsConflict(err) {
			return err
		}
	}
	return nil
}

// Read returns the usage of the present month, with one request for up to a
// thousand rows. That of this process is current; the others report theirs
// every five minutes.
func (l *Ledger) Read(ctx context.Context) (Month, error) {
	now := time.Now().UTC()
	m := Month{Days: make(map[int]Usage), Today: now.Day()}
	l.mu.Lock()
	from := l.row.from
	l.mu.Unlock()
	own, usage := keyOf(from.at, l.process.Name), l.usage(from, snapshot{now, l.counts()})
	if own.partition() == now.Format(monthFormat) {
		m.Days[own.day.Day()] = usage
	}
	if l.rows == nil {
		return m, nil
	}
	all, _, err := readMonth(ctx, l.rows, now)
	if err != nil {
		return m, fmt.Errorf("read the bill: %w", err)
	}
	for _, row := range all {
		k, u, err := parseRow(row)
		switch {
		case err != nil:
			m.LeftOut++
		case k != own:
			m.Days[k.day.Day()] = m.Days[k.day.Day()].and(u)
		}
	}
	return m, nil
}
