package table

import "strings"

// A span is a range of rows: from a key on and before another. An empty end is
// that of the table.
type span struct{ from, before string }

func (s span) contains(key string) bool {
	return key >= s.from && (s.before == "" || key < s.before)
}

// intersect returns what is in both spans.
func (s span) intersect(other span) span {
	s.from = max(s.from, other.from)
	if s.before == "" || other.before != "" && other.before < s.before {
		s.before = other.before
	}
	return s
}

// hull returns a span that has all of both.
func (s span) hull(other span) span {
	s.from = min(s.from, other.from)
	if s.before == "" || other.before == "" {
		s.before = ""
	} else {
		s.before = max(s.before, other.before)
	}
	return s
}

// Keys with one of these suffixes are before and after all rows of a partition,
// or just after one row. No key has a control character.
const (
	beforeRows = keySeparator
	afterRows  = "\x01"
	afterRow   = "\x00"
)

// spanOf returns a span that has all rows that a filter matches. It is narrow if
// the filter names a partition.
func spanOf(f filter) span {
	s := partitions(f)
	if partition, ok := onePartition(f); ok {
		s = s.intersect(rowsOf(f, partition))
	}
	return s
}

// plain reports whether a comparison is with a text that can be a key.
func (f comparison) plain() bool {
	return f.literal.kind == kindString && !strings.ContainsFunc(f.literal.text, isControl)
}

// partitions returns the span to which a filter limits the partitions.
func partitions(f filter) span {
	switch f := f.(type) {
	case both:
		return partitions(f.left).intersect(partitions(f.right))
	case either:
		return partitions(f.left).hull(partitions(f.right))
	case comparison:
		if f.name != "PartitionKey" || !f.plain() {
			break
		}
		first, last := f.literal.text+beforeRows, f.literal.text+afterRows
		switch f.operator {
		case "eq":
			return span{first, last}
		case "ge":
			return span{from: first}
		case "gt":
			return span{from: last}
		case "le":
			return span{before: last}
		case "lt":
			return span{before: first}
		}
	}
	return span{}
}

// onePartition returns the partition to which a filter limits its rows.
func onePartition(f filter) (string, bool) {
	switch f := f.(type) {
	case both:
		if partition, ok := onePartition(f.left); ok {
			return partition, true
		}
		return onePartition(f.right)
	case comparison:
		return f.literal.text, f.name == "PartitionKey" && f.operator == "eq" && f.plain()
	default:
		return "", false
	}
}

// rowsOf returns the span to which a filter limits the rows of a partition.
func rowsOf(f filter, partition string) span {
	switch f := f.(type) {
	case both:
		return rowsOf(f.left, partition).intersect(rowsOf(f.right, partition))
	case either:
		return rowsOf(f.left, partition).hull(rowsOf(f.right, partition))
	case comparison:
		if f.name != "RowKey" || !f.plain() {
			break
		}
		key := joinKey(partition, f.literal.text)
		switch f.operator {
		case "eq":
			return span{key, key + afterRow}
		case "ge":
			return span{from: key}
		case "gt":
			return span{from: key + afterRow}
		case "le":
			return span{before: key + afterRow}
		case "lt":
			return span{before: key}
		}
	}
	return span{}
}
