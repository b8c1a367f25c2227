package table

import (
	"encoding/binary"
	"iter"
	"net/url"
	"strings"
)

// A row is an entity in one piece of memory: the length of its key, the key,
// the time of its last change in ticks, and names and values of its properties.
// It is never changed. Texts and names that are read from it share its memory.
type row string

// A property is one name and its value.
type property struct {
	name  string
	value value
}

// keySeparator stands between the two keys of a row. Keys have no control
// characters, so rows are sorted by partition, then by row.
const keySeparator = "\x00"

func joinKey(partition, key string) string { return partition + keySeparator + key }

func splitKey(key string) (partition, row string) {
	partition, row, _ = strings.Cut(key, keySeparator)
	return partition, row
}

func newRow(key string, stamp int64, properties []property) row {
	n := len(key) + 10
	for _, p := range properties {
		n += len(p.name) + len(p.value.text) + 10
	}
	b := binary.AppendUvarint(make([]byte, 0, n), uint64(len(key)))
	b = append(b, key...)
	b = binary.BigEndian.AppendUint64(b, uint64(stamp))
	for _, p := range properties {
		b = binary.AppendUvarint(b, uint64(len(p.name)))
		b = append(b, p.name...)
		b = p.value.appendTo(b)
	}
	return row(b)
}

// split returns the key and what follows it.
func (r row) split() (key, rest string) {
	key, rest, _ = readText(string(r))
	return key, rest
}

func (r row) key() string {
	key, _ := r.split()
	return key
}

func (r row) stamp() int64 {
	_, rest := r.split()
	return readInt64(rest)
}

// properties yields the properties in the order in which they were written.
func (r row) properties() iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		_, rest := r.split()
		for rest = rest[8:]; rest != ""; {
			var name string
			var v value
			name, rest, _ = readText(rest)
			v, rest, _ = readValue(rest)
			if !yield(name, v) {
				return
			}
		}
	}
}

// find returns a property, also one of the three that every row has.
func (r row) find(name string) (value, bool) {
	switch name {
	case "PartitionKey":
		partition, _ := splitKey(r.key())
		return textValue(partition), true
	case "RowKey":
		_, key := splitKey(r.key())
		return textValue(key), true
	case "Timestamp":
		return value{kind: kindDateTime, bits: r.stamp()}, true
	}
	for found, v := range r.properties() {
		if found == name {
			return v, true
		}
	}
	return value{}, false
}

// valid reports whether a row from a log is intact.
func (r row) valid() bool {
	key, rest, ok := readText(string(r))
	if !ok || len(rest) < 8 || strings.Count(key, keySeparator) != 1 {
		return false
	}
	for rest = rest[8:]; rest != ""; {
		if _, rest, ok = readText(rest); !ok {
			return false
		}
		if _, rest, ok = readValue(rest); !ok {
			return false
		}
	}
	return true
}

// merge returns the properties of the row with those of another entity in place
// of its own.
func (r row) merge(set []property) []property {
	at := make(map[string]int, len(set))
	var merged []property
	for name, v := range r.properties() {
		at[name] = len(merged)
		merged = append(merged, property{name, v})
	}
	for _, p := range set {
		if i, ok := at[p.name]; ok {
			merged[i] = p
		} else {
			merged = append(merged, p)
		}
	}
	return merged
}

// etag returns the version of a row that changed at this time.
func etag(stamp int64) string {
	return `W/"datetime'` + strings.ReplaceAll(formatTicks(stamp), ":", "%3A") + `'"`
}

// parseETag returns the time of a version.
func parseETag(s string) (int64, bool) {
	s, ok := strings.CutPrefix(s, `W/"datetime'`)
	if !ok {
		return 0, false
	}
	if s, ok = strings.CutSuffix(s, `'"`); !ok {
		return 0, false
	}
	s, err := url.PathUnescape(s)
	if err != nil {
		return 0, false
	}
	return parseTicks(s)
}
