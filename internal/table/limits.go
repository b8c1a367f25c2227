package table

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Azure's limits for tables, some of which the Azurite emulator does not check.
const (
	MaxPage        = 1000 // rows of one page
	MaxTransaction = 100  // rows of one transaction

	maxPayload = 4 << 20 // bytes of one transaction as it is sent
	maxRow     = 1 << 20 // bytes of one row as it is stored: texts are UTF-16 there
	maxKey     = 1 << 10 // bytes of a key as it is stored
	maxValue   = 64 << 10
	maxColumns = 252
	maxColumn  = 255 // characters of a column's name
)

// partOverhead bounds the bytes that the multipart format adds to each row,
// without the keys in its address.
const partOverhead = 1 << 10

// CheckWrites returns ErrLimit for a transaction that Azure would reject: more
// than 100 rows, more than 4 MiB, several partitions, a row twice, a row above
// 1 MiB, and keys, columns or values that are too long or hold forbidden
// characters.
//
// It also rejects single quotes in keys. Azure accepts them, but they must be
// doubled in addresses, which not every client does within transactions.
func CheckWrites(writes []Write) error {
	if len(writes) == 0 || len(writes) > MaxTransaction {
		return fmt.Errorf("transaction of %d rows: use 1 to %d: %w", len(writes), MaxTransaction, ErrLimit)
	}
	partition := writes[0].Row.Partition
	inPartition, err := measureKey(partition)
	if err != nil {
		return fmt.Errorf("partition: %w", err)
	}
	payload := 0
	seen := make(map[string]bool, len(writes))
	for _, w := range writes {
		if w.Row.Partition != partition {
			return fmt.Errorf("transaction with two partitions, %.80q and %.80q: %w", partition, w.Row.Partition, ErrLimit)
		}
		if seen[w.Row.Key] {
			return fmt.Errorf("row %.80q occurs twice in a transaction: %w", w.Row.Key, ErrLimit)
		}
		seen[w.Row.Key] = true
		row, err := measure(w)
		if err != nil {
			return fmt.Errorf("row %.80q: %w", w.Row.Key, err)
		}
		if stored := row.stored + inPartition.stored; stored > maxRow {
			return fmt.Errorf("row %.80q of %d bytes is larger than %d: %w", w.Row.Key, stored, maxRow, ErrLimit)
		}
		payload += row.sent + inPartition.sent
	}
	if payload > maxPayload {
		return fmt.Errorf("transaction of %d bytes is larger than %d: %w", payload, maxPayload, ErrLimit)
	}
	return nil
}

// CheckQuery returns ErrLimit for a query that Azure would reject.
func CheckQuery(q Query) error {
	if q.Top < 1 || q.Top > MaxPage {
		return fmt.Errorf("page of %d rows: use 1 to %d: %w", q.Top, MaxPage, ErrLimit)
	}
	for _, key := range []string{q.Partition, q.Key, q.Above, q.Below} {
		if key != "" {
			if _, err := measureKey(key); err != nil {
				return err
			}
		}
	}
	for _, column := range q.Columns {
		if !isColumn(column) {
			return fmt.Errorf("column name %.80q: %w", column, ErrLimit)
		}
	}
	if q.Column != "" && !isColumn(q.Column) {
		return fmt.Errorf("column name %.80q: %w", q.Column, ErrLimit)
	}
	return nil
}

// size is a length in bytes.
type size struct {
	stored int // texts are stored as UTF-16
	sent   int // upper bound; texts are sent as JSON, and keys also in the address
}

// measure checks a write and returns its size without its partition.
func measure(w Write) (size, error) {
	if w.Verb < Insert || w.Verb > Upsert || (w.Verb == Insert || w.Verb == Upsert) != (w.If == "") {
		return size{}, fmt.Errorf("verb %d does not allow the condition %.80q: %w", w.Verb, w.If, ErrLimit)
	}
	total, err := measureKey(w.Row.Key)
	if err != nil {
		return size{}, err
	}
	total.stored += 4
	total.sent += partOverhead
	if w.Verb == Delete {
		return total, nil
	}
	if len(w.Row.Values) > maxColumns {
		return size{}, fmt.Errorf("%d columns are more than %d: %w", len(w.Row.Values), maxColumns, ErrLimit)
	}
	for column, value := range w.Row.Values {
		if !isColumn(column) {
			return size{}, fmt.Errorf("column name %.80q: use a letter and up to %d letters, digits and underscores, and no name reserved by the store: %w",
				column, maxColumn-1, ErrLimit)
		}
		text := measureText(value)
		if text.stored > maxValue {
			return size{}, fmt.Errorf("value of %d bytes in column %q is larger than %d: %w", text.stored, column, maxValue, ErrLimit)
		}
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return size{}, fmt.Errorf("value in column %q holds invalid UTF-8 or a NUL: %w", column, ErrLimit)
		}
		total.stored += 8 + 2*len(column) + 4 + text.stored
		total.sent += len(column) + 4 + text.sent
	}
	return total, nil
}

func measureKey(key string) (size, error) {
	s := measureText(key)
	if s.stored == 0 || s.stored > maxKey {
		return size{}, fmt.Errorf("key of %d bytes: use 1 to %d: %w", s.stored, maxKey, ErrLimit)
	}
	if !utf8.ValidString(key) || strings.ContainsFunc(key, notInKeys) {
		return size{}, fmt.Errorf("key %.80q holds forbidden characters: %w", key, ErrLimit)
	}
	s.sent += 3 * len(key) // percent-encoded in the address
	return s, nil
}

func notInKeys(r rune) bool {
	switch r {
	case '/', '\\', '#', '?', '\'':
		return true
	}
	return unicode.IsControl(r)
}

// measureText counts six bytes for each character that JSON may escape.
func measureText(text string) size {
	s := size{sent: 2}
	for _, r := range text {
		s.stored += 2 * max(1, utf16.RuneLen(r))
		switch {
		case r < ' ', r == '"', r == '\\', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029':
			s.sent += 6
		default:
			s.sent += utf8.RuneLen(r)
		}
	}
	return s
}

// isColumn reports whether every part of the service accepts the name.
func isColumn(name string) bool {
	switch name {
	case "PartitionKey", "RowKey", "Timestamp":
		return false
	}
	for i, r := range []byte(name) {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '_' && (r < '0' || r > '9')) {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= maxColumn
}
