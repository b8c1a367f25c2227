package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kennel/devstore/internal/rest"
)

// maxPolicies is how many stored access policies a table may have.
const maxPolicies = 5

// A table is one table of an account.
type table struct {
	name     string // as it was created; names do not differ by case alone
	names    *dictionary
	policies []rest.Policy
	rows     rows
}

func newTable(name string) *table { return &table{name: name, names: newDictionary()} }

// accounts has the tables of each account by their names in lower case.
type accounts map[string]map[string]*table

func (a accounts) find(account, name string) *table {
	return a[account][strings.ToLower(name)]
}

func (a accounts) add(account string, t *table) {
	if a[account] == nil {
		a[account] = make(map[string]*table)
	}
	a[account][strings.ToLower(t.name)] = t
}

func (a accounts) remove(account, name string) {
	delete(a[account], strings.ToLower(name))
}

// sorted returns the tables of an account in the order of their names.
func (a accounts) sorted(account string) []*table {
	tables := make([]*table, 0, len(a[account]))
	for _, name := range slices.Sorted(maps.Keys(a[account])) {
		tables = append(tables, a[account][name])
	}
	return tables
}

// A record has a version, its type, and texts, of which the first two are the
// account and the name of the table if it is about a table.
const (
	recordVersion = 1

	putTable    = 't' // its policies, four texts each
	deleteTable = 'd'
	changeRows  = 'r' // pairs of an operation and what it is about
	setStamp    = 's' // a time after which all later changes are
	setProperty = 'p' // a record of the service properties instead of texts
	forgetAll   = 'f'

	putRow    = "+" // with a row
	deleteRow = "-" // with a key
)

var errDamaged = errors.New("table: the record is damaged")

func newRecord(kind byte, texts ...string) []byte {
	return appendTexts([]byte{recordVersion, kind}, texts...)
}

func appendTexts(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b
}

// tableRecord returns the record of a table without its rows.
func tableRecord(account string, t *table) []byte {
	b := newRecord(putTable, account, t.name)
	for _, p := range t.policies {
		b = appendTexts(b, p.ID, p.Start, p.Expiry, p.Permission)
	}
	return b
}

// A change is a new row or, if that is "", the end of the row with a key.
type change struct {
	key string
	row row
}

// appendTo appends the change to a record.
func (c change) appendTo(b []byte, d *dictionary) []byte {
	if c.row == "" {
		return appendTexts(b, deleteRow, c.key)
	}
	b = appendTexts(b, putRow)
	start := len(b)
	b = c.row.appendTo(b, d)
	var length [binary.MaxVarintLen64]byte
	return slices.Insert(b, start, binary.AppendUvarint(length[:0], uint64(len(b)-start))...)
}

func (t *table) change(c change) {
	if c.row == "" {
		t.rows.remove(c.key)
	} else {
		t.rows.put(c.row)
	}
}

// parseRecord returns the type and the texts of a record.
func parseRecord(record []byte) (kind byte, texts []string, err error) {
	if len(record) < 2 || record[0] != recordVersion {
		return 0, nil, errors.New("table: the record has an unknown version")
	}
	kind = record[1]
	if kind == setProperty {
		return kind, nil, nil
	}
	for text := string(record[2:]); text != ""; {
		next, after, ok := readText(text)
		if !ok {
			return 0, nil, errDamaged
		}
		texts, text = append(texts, next), after
	}
	return kind, texts, nil
}

// apply makes the change of a record about a table and returns the last time in
// it.
func (a accounts) apply(kind byte, texts []string) (stamp int64, err error) {
	if len(texts) < 2 {
		return 0, errDamaged
	}
	account, name := texts[0], texts[1]
	switch kind {
	case putTable:
		return 0, a.applyTable(account, name, texts[2:])
	case deleteTable:
		a.remove(account, name)
		return 0, nil
	case changeRows:
		return a.applyRows(account, name, texts[2:])
	default:
		return 0, fmt.Errorf("table: the record has the unknown type %q", kind)
	}
}

func (a accounts) applyTable(account, name string, texts []string) error {
	if len(texts)%4 != 0 {
		return errDamaged
	}
	t := a.find(account, name)
	if t == nil {
		t = newTable(name)
		a.add(account, t)
	}
	t.policies = nil
	for p := range slices.Chunk(texts, 4) {
		t.policies = append(t.policies, rest.Policy{ID: p[0], Start: p[1], Expiry: p[2], Permission: p[3]})
	}
	return nil
}

func (a accounts) applyRows(account, name string, texts []string) (stamp int64, err error) {
	t := a.find(account, name)
	if t == nil || len(texts)%2 != 0 {
		return 0, errDamaged
	}
	for pair := range slices.Chunk(texts, 2) {
		switch pair[0] {
		case putRow:
			r, ok := readRow(t.names, pair[1])
			if !ok {
				return 0, errDamaged
			}
			stamp = max(stamp, r.stamp())
			t.rows.put(r)
		case deleteRow:
			t.rows.remove(pair[1])
		default:
			return 0, errDamaged
		}
	}
	return stamp, nil
}

// snapshotSize is the size of records with rows in snapshots.
const snapshotSize = 256 << 10

// snapshot emits the records of all tables.
func (a accounts) snapshot(emit func([]byte) error) error {
	for _, account := range slices.Sorted(maps.Keys(a)) {
		for _, t := range a.sorted(account) {
			if err := emit(tableRecord(account, t)); err != nil {
				return err
			}
			if err := t.snapshot(account, emit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *table) snapshot(account string, emit func([]byte) error) error {
	empty := len(newRecord(changeRows, account, t.name))
	b := newRecord(changeRows, account, t.name)
	for r := range t.rows.from("") {
		b = change{row: r}.appendTo(b, t.names)
		if len(b) >= snapshotSize {
			if err := emit(b); err != nil {
				return err
			}
			b = newRecord(changeRows, account, t.name)
		}
	}
	if len(b) == empty {
		return nil
	}
	return emit(b)
}

func stampRecord(stamp int64) []byte {
	return newRecord(setStamp, string(binary.BigEndian.AppendUint64(nil, uint64(stamp))))
}
