package memory

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kennel/internal/table"
)

// TableOptions are the options of a [Table]; nil and zero mean none.
type TableOptions struct {
	Options // Fault and OnMisuse

	// Scan returns how many rows a query for top rows reads per page. Rows that
	// do not match count too, so that pages may be short or empty although more
	// follow. A page that ends at this limit has a Next, even if nothing
	// follows. It is called concurrently. Nil: no limit.
	Scan func(top int) int
}

// Table is a [table.Store] in memory. [Options.OnMisuse] is called for requests
// without a deadline.
type Table struct {
	wire
	scan       func(top int) int
	partitions map[string]*partition // guarded by mu
	names      []string              // of the partitions, in order; guarded by mu
	last       int64                 // number of the last version; guarded by mu
}

// partition holds its rows in the order of their keys. Values and versions of a
// stored row are replaced, never modified.
type partition struct{ rows []storedRow }

type storedRow struct {
	key     string
	values  map[string]string
	version string
	at      time.Time
}

// NewTable returns a table without rows.
func NewTable(o *TableOptions) *Table {
	if o == nil {
		o = &TableOptions{}
	}
	return &Table{wire: newWire(&o.Options), scan: o.Scan, partitions: make(map[string]*partition)}
}

// Clone returns an independent table with the same rows.
func (t *Table) Clone(o *TableOptions) *Table {
	clone := NewTable(o)
	t.mu.Lock()
	defer t.mu.Unlock()
	clone.last = t.last
	clone.names = slices.Clone(t.names)
	for name, p := range t.partitions {
		clone.partitions[name] = &partition{slices.Clone(p.rows)}
	}
	return clone
}

// Rows returns how many rows a partition has, or the whole table for "". It is
// not a request and has no faults.
func (t *Table) Rows(partition string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, p := range t.partitions {
		if partition == "" || name == partition {
			n += len(p.rows)
		}
	}
	return n
}

// Get implements [table.Store].
func (t *Table) Get(ctx context.Context, partition, key string) (table.Row, error) {
	row, err := send(ctx, &t.wire, "Get", partition, func() (table.Row, error) {
		if p := t.partitions[partition]; p != nil {
			if i, ok := p.find(key); ok {
				return p.rows[i].row(partition, table.Query{}), nil
			}
		}
		return table.Row{}, table.ErrNotFound
	})
	if err != nil {
		return table.Row{}, fmt.Errorf("get row %.80q of %.80q: %w", key, partition, err)
	}
	return row, nil
}

// Query implements [table.Store].
func (t *Table) Query(ctx context.Context, q table.Query) (table.Page, error) {
	from, err := parseToken(q.After)
	err = cmp.Or(table.CheckQuery(q), err)
	var page table.Page
	if err == nil {
		page, err = send(ctx, &t.wire, "Query", q.Partition, func() (table.Page, error) {
			page := t.page(q, from)
			page.ReadAt = time.Now().UTC().Truncate(time.Second)
			if q.MaxBytes > 0 && sizeOf(page.Rows) > q.MaxBytes {
				return table.Page{}, table.ErrLarge
			}
			return page, nil
		})
	}
	if err != nil {
		return table.Page{}, fmt.Errorf("query rows of %.80q: %w", q.Partition, err)
	}
	return page, nil
}

// sizeOf counts the bytes of keys and values.
func sizeOf(rows []table.Row) (size int) {
	for _, row := range rows {
		size += len(row.Partition) + len(row.Key)
		for column, value := range row.Values {
			size += len(column) + len(value)
		}
	}
	return size
}

// position is the last row that a page read.
type position struct{ partition, key string }

func (t *Table) page(q table.Query, from position) table.Page {
	left := -1
	if t.scan != nil {
		left = t.scan(q.Top)
	}
	var page table.Page
	names := t.names
	if q.Partition != "" {
		names = []string{q.Partition}
	}
	begin, _ := slices.BinarySearch(names, from.partition)
	at := from
	for _, name := range names[begin:] {
		p := t.partitions[name]
		if p == nil {
			continue
		}
		first := 0
		if name == from.partition {
			first, _ = p.find(from.key + "\x00")
		}
		if q.Above != "" {
			above, _ := p.find(q.Above + "\x00")
			first = max(first, above)
		}
		end := len(p.rows)
		if q.Below != "" {
			end, _ = p.find(q.Below)
		}
		for _, r := range p.rows[min(first, end):end] {
			if left == 0 || len(page.Rows) == q.Top {
				page.Next = at.token()
				return page
			}
			left--
			at = position{name, r.key}
			if (q.Key == "" || q.Key == r.key) && (q.Column == "" || r.values[q.Column] == q.Value) {
				page.Rows = append(page.Rows, r.row(name, q))
			}
		}
	}
	if left == 0 {
		page.Next = at.token()
	}
	return page
}

// Submit implements [table.Store].
func (t *Table) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	err := table.CheckWrites(writes)
	if err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	name := writes[0].Row.Partition
	versions, err := send(ctx, &t.wire, "Submit", name, func() ([]string, error) { return t.apply(name, writes) })
	if err != nil {
		return nil, fmt.Errorf("submit to partition %.80q: %w", name, err)
	}
	return versions, nil
}

// apply applies all writes or none.
func (t *Table) apply(name string, writes []table.Write) ([]string, error) {
	p := t.partitions[name]
	if p == nil {
		p = &partition{}
	}
	for i, w := range writes {
		if w.Verb == table.Upsert {
			continue
		}
		at, ok := p.find(w.Row.Key)
		var err error
		switch {
		case w.Verb == table.Insert && ok:
			err = table.ErrExists
		case w.Verb != table.Insert && !ok:
			err = table.ErrNotFound
		case w.Verb != table.Insert && w.If != table.AnyVersion && w.If != p.rows[at].version:
			err = table.ErrChanged
		}
		if err != nil {
			return nil, fmt.Errorf("row %d, %.80q: %w", i, w.Row.Key, err)
		}
	}
	versions := make([]string, len(writes))
	deleted := false
	for i, w := range writes {
		at, ok := p.find(w.Row.Key)
		if w.Verb == table.Delete {
			p.rows[at].version = "" // marks the row for removal below
			deleted = true
			continue
		}
		t.last++
		versions[i] = fmt.Sprintf(`W/"%d"`, t.last)
		next := storedRow{w.Row.Key, maps.Clone(w.Row.Values), versions[i], time.Now().UTC()}
		if !ok {
			p.rows = slices.Insert(p.rows, at, next)
			continue
		}
		if w.Verb == table.Merge {
			next.values = make(map[string]string)
			maps.Copy(next.values, p.rows[at].values)
			maps.Copy(next.values, w.Row.Values)
		}
		p.rows[at] = next
	}
	if deleted {
		p.rows = slices.DeleteFunc(p.rows, func(r storedRow) bool { return r.version == "" })
	}
	t.keep(name, p)
	return versions, nil
}

// keep adds a new partition and removes an empty one.
func (t *Table) keep(name string, p *partition) {
	at, known := slices.BinarySearch(t.names, name)
	switch {
	case len(p.rows) > 0 && !known:
		t.names = slices.Insert(t.names, at, name)
		t.partitions[name] = p
	case len(p.rows) == 0 && known:
		t.names = slices.Delete(t.names, at, at+1)
		delete(t.partitions, name)
	}
}

// find returns where a key is, or would be.
func (p *partition) find(key string) (int, bool) {
	return slices.BinarySearchFunc(p.rows, key, func(r storedRow, key string) int { return cmp.Compare(r.key, key) })
}

// row returns the parts of the row that a query selects.
func (r storedRow) row(partition string, q table.Query) table.Row {
	row := table.Row{Partition: partition, Key: r.key}
	if q.KeysOnly {
		return row
	}
	row.WrittenAt = r.at
	if q.Columns != nil {
		row.Values = make(map[string]string)
		for _, column := range q.Columns {
			if value, ok := r.values[column]; ok {
				row.Values[column] = value
			}
		}
		return row
	}
	row.Version = r.version
	row.Values = maps.Clone(r.values)
	if row.Values == nil {
		row.Values = map[string]string{}
	}
	return row
}

func (p position) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.partition + "\n" + p.key))
}

func parseToken(token string) (position, error) {
	if token == "" {
		return position{}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	partition, key, ok := strings.Cut(string(text), "\n")
	if err != nil || !ok {
		return position{}, errors.Join(table.ErrToken, err)
	}
	return position{partition, key}, nil
}

// ClockOff is a table whose clock differs from that of this process.
type ClockOff struct {
	*Table
	By time.Duration
}

// Query implements [table.Store].
func (c ClockOff) Query(ctx context.Context, q table.Query) (table.Page, error) {
	page, err := c.Table.Query(ctx, q)
	page.ReadAt = page.ReadAt.Add(c.By)
	for i := range page.Rows {
		page.Rows[i].WrittenAt = page.Rows[i].WrittenAt.Add(c.By)
	}
	return page, err
}
