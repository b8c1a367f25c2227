package instances

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"kennel/internal/table"
)

// A Reader reads the instance table. Each call reads all rows from storage, but a
// process writes its row twice a minute, and more calls than that may read it. So
// a reader keeps what it decoded of a row until it is changed or removed, or until
// there was no call for renewEvery: by then all of them have changed. For 500
// processes with 100 sequences each, a status keeps 2.5 MB at most.
//
// The zero value is ready to use. Its methods may be called concurrently.
type Reader struct {
	mu   sync.Mutex
	rows map[string]*decoded // by the names of instances; guarded by mu
	idle *time.Timer         // forgets the rows; guarded by mu
}

// Read returns the reports in the instance table, with these parts. Other parts
// are empty. Each takes up to 20 KB in a row, so a caller names only those that it
// needs. A thousand rows take one request, or more if they are longer than 4 MiB.
// What reports have in common with those of other calls, callers do not change.
func (r *Reader) Read(ctx context.Context, rows table.Querier, parts ...Part) (read Directory, err error) {
	columns := []string{columnFormat, columnReport}
	for _, part := range parts {
		if column := part.column(); !slices.Contains(columns, column) { // a digest has that of another part
			columns = append(columns, column)
		}
	}
	all, at, err := table.ReadPartition(ctx, rows, partition, columns...)
	if err != nil {
		return read, err
	}
	read.ReadAt = at
	reports, errs := r.decodeAll(all, parts)
	for i, row := range all {
		report, err := reports[i], errs[i]
		live := at.Sub(row.WrittenAt) < LiveFor
		switch {
		case err != nil && live:
			read.Unreadable++
			continue
		case err != nil:
			continue
		}
		if wrong := row.WrittenAt.Sub(report.At); wrong.Abs() > maxLate {
			report.shift(wrong)
		}
		if one := (Instance{report, row.WrittenAt}); live {
			read.Live = append(read.Live, one)
		} else {
			read.Gone = append(read.Gone, one)
		}
	}
	return read, nil
}

// decodeAll decodes what was not decoded before, on all processors: the lists of
// hundreds of processes have 10 MB, and a person waits for them.
func (r *Reader) decodeAll(rows []table.Row, parts []Part) (reports []Report, errs []error) {
	reports, errs = make([]Report, len(rows)), make([]error, len(rows))
	known, now := r.known(rows), make([]*decoded, len(rows))
	var decoding sync.WaitGroup
	n := min(runtime.GOMAXPROCS(0), len(rows))
	for first := range n {
		decoding.Go(func() {
			u := unpackers.Get().(*unpacker)
			defer unpackers.Put(u)
			for i := first; i < len(rows); i += n {
				row := known[i]
				if !row.is(rows[i].WrittenAt, rows[i].Values[columnReport]) {
					row, errs[i] = decode(rows[i])
				}
				if errs[i] == nil {
					reports[i], now[i], errs[i] = row.with(parts, rows[i], u)
				}
			}
		})
	}
	decoding.Wait()
	r.keep(known, now)
	return reports, errs
}

// known returns what was decoded of rows, which may have changed since; nil for
// nothing.
func (r *Reader) known(rows []table.Row) []*decoded {
	all := make([]*decoded, len(rows))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, row := range rows {
		all[i] = r.rows[row.Key]
	}
	return all
}

// keep keeps these rows, and forgets all others. known is what was known before.
func (r *Reader) keep(known, now []*decoded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make(map[string]*decoded, len(now))
	for i, row := range now {
		if row == nil {
			continue // unreadable
		}
		name := row.report.Instance
		if other := r.rows[name]; other != known[i] && other.is(row.writtenAt, row.text) {
			row = row.and(other) // another call has read other parts
		}
		rows[name] = row
	}
	r.rows = rows
	if r.idle == nil {
		r.idle = time.AfterFunc(renewEvery, r.forget)
	} else {
		r.idle.Reset(renewEvery)
	}
}

// forget forgets all rows.
func (r *Reader) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = nil
}
