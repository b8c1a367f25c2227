package table

import (
	"encoding/binary"
	"iter"
	"net/url"
	"strings"
)

// A row is an entity in one piece of memory: the length of its key, the key,
// the time of its last change in ticks, and names and values of its properties.
// It is never changed. Texts that are read from it share its memory.
//
// A name is a number of a dictionary or, in the log, the name itself.
type row string

// maxNames bounds a dictionary. Later names are kept in the rows.
const maxNames = 1 << 12

// A dictionary has names of properties, so that rows need not repeat them. A nil
// one has none. It is guarded by the lock of the service.
type dictionary struct {
	names   []string
	numbers map[string]int
}

func newDictionary() *dictionary { return &dictionary{numbers: make(map[string]int)} }

// add adds a name if there is place.
func (d *dictionary) add(name string) {
	if _, ok := d.numbers[name]; !ok && len(d.names) < maxNames {
		name = strings.Clone(name)
		d.numbers[name] = len(d.names)
		d.names = append(d.names, name)
	}
}

// appendName appends a name: twice its number and one, or twice its length and
// the name.
func (d *dictionary) appendName(b []byte, name string) []byte {
	if d != nil {
		if n, ok := d.numbers[name]; ok {
			return binary.AppendUvarint(b, uint64(n)<<1|1)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(name))<<1)
	return append(b, name...)
}

// readName reads what appendName appended.
func (d *dictionary) readName(s string) (name, rest string, ok bool) {
	n, s, ok := readUvarint(s)
	if !ok {
		return "", "", false
	}
	inline := n&1 == 0
	n >>= 1
	switch {
	case inline && n <= uint64(len(s)):
		return s[:n], s[n:], true
	case !inline && d != nil && n < uint64(len(d.names)):
		return d.names[n], s, true
	default:
		return "", "", false
	}
}

// A property is one name and its value.
type property struct {
	name  string
	value value
}

// keySeparator stands between the two keys of a row. Keys have no control
// characters, so rows are sorted by partition, then by row.
const keySeparator = "\x00"

// isControl reports whether Azure takes a character for a control character.
func isControl(r rune) bool { return r < 0x20 || r >= 0x7f && r <= 0x9f }

func joinKey(partition, key string) string { return partition + keySeparator + key }

func splitKey(key string) (partition, row string) {
	partition, row, _ = strings.Cut(key, keySeparator)
	return partition, row
}

// newRow returns a row. It adds the names of its properties to the dictionary.
func newRow(d *dictionary, key string, stamp int64, properties []property) row {
	var space [1 << 10]byte // most rows are built without another allocation
	b := binary.AppendUvarint(space[:0], uint64(len(key)))
	b = append(b, key...)
	b = binary.BigEndian.AppendUint64(b, uint64(stamp))
	for _, p := range properties {
		d.add(p.name)
		b = d.appendName(b, p.name)
		b = p.value.appendTo(b)
	}
	return row(b)
}

// appendTo appends the row with its names, as the log has it.
func (r row) appendTo(b []byte, d *dictionary) []byte {
	key, _ := r.split()
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.stamp()))
	for name, v := range r.properties(d) {
		b = (*dictionary)(nil).appendName(b, name)
		b = v.appendTo(b)
	}
	return b
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
func (r row) properties(d *dictionary) iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		_, rest := r.split()
		for rest = rest[8:]; rest != ""; {
			var name string
			var v value
			name, rest, _ = d.readName(rest)
			v, rest, _ = readValue(rest)
			if !yield(name, v) {
				return
			}
		}
	}
}

// find returns a property, also one of the three that every row has.
func (r row) find(d *dictionary, name string) (value, bool) {
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
	for found, v := range r.properties(d) {
		if found == name {
			return v, true
		}
	}
	return value{}, false
}

// readRow reads a row from the log.
func readRow(d *dictionary, s string) (row, bool) {
	key, rest, ok := readText(s)
	if !ok || len(rest) < 8 || strings.Count(key, keySeparator) != 1 {
		return "", false
	}
	stamp := readInt64(rest)
	var properties []property
	for rest = rest[8:]; rest != ""; {
		var p property
		if p.name, rest, ok = (*dictionary)(nil).readName(rest); !ok {
			return "", false
		}
		if p.value, rest, ok = readValue(rest); !ok {
			return "", false
		}
		properties = append(properties, p)
	}
	return newRow(d, key, stamp, properties), true
}

// merge returns the properties of the row with those of another entity in place
// of its own.
func (r row) merge(d *dictionary, set []property) []property {
	at := make(map[string]int, len(set))
	var merged []property
	for name, v := range r.properties(d) {
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
	var time, tag [64]byte
	b := append(tag[:0], `W/"datetime'`...)
	for _, c := range appendTicks(time[:0], stamp) {
		if c == ':' {
			b = append(b, "%3A"...)
		} else {
			b = append(b, c)
		}
	}
	return string(append(b, `'"`...))
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
