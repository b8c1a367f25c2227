package table

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"kennel/devstore/internal/rest"
)

// A kind is the type of a property. Its numbers are in the log.
type kind byte

const (
	kindString kind = iota + 1
	kindInt32
	kindInt64
	kindDouble
	kindBoolean
	kindDateTime
	kindGUID
	kindBinary
)

// kindNames has the names of the types in annotations.
var kindNames = [...]string{
	kindString:   "Edm.String",
	kindInt32:    "Edm.Int32",
	kindInt64:    "Edm.Int64",
	kindDouble:   "Edm.Double",
	kindBoolean:  "Edm.Boolean",
	kindDateTime: "Edm.DateTime",
	kindGUID:     "Edm.Guid",
	kindBinary:   "Edm.Binary",
}

// kindOf returns the type with a name, 0 for none.
func kindOf(name string) kind { return kind(max(slices.Index(kindNames[1:], name)+1, 0)) }

// A value is the value of a property or a literal of a filter.
type value struct {
	kind kind
	text string // a string, the bytes of a binary, or the 16 bytes of a GUID
	bits int64  // an integer, 0 or 1, ticks, or the bits of a double
}

func textValue(s string) value { return value{kind: kindString, text: s} }

func doubleValue(f float64) value {
	return value{kind: kindDouble, bits: int64(math.Float64bits(f))}
}

func boolValue(b bool) value {
	if b {
		return value{kind: kindBoolean, bits: 1}
	}
	return value{kind: kindBoolean}
}

func (v value) double() float64 { return math.Float64frombits(uint64(v.bits)) }

// appendTo appends the value as rows hold it.
func (v value) appendTo(b []byte) []byte {
	b = append(b, byte(v.kind))
	switch v.kind {
	case kindString, kindBinary:
		b = binary.AppendUvarint(b, uint64(len(v.text)))
		return append(b, v.text...)
	case kindGUID:
		return append(b, v.text...)
	case kindDouble:
		return binary.BigEndian.AppendUint64(b, uint64(v.bits))
	default:
		return binary.AppendVarint(b, v.bits)
	}
}

// readValue reads a value at the front of s and returns the rest. It reports
// false for a damaged value.
func readValue(s string) (value, string, bool) {
	if s == "" {
		return value{}, "", false
	}
	v := value{kind: kind(s[0])}
	s = s[1:]
	var ok bool
	switch v.kind {
	case kindString, kindBinary:
		v.text, s, ok = readText(s)
	case kindGUID:
		if ok = len(s) >= 16; ok {
			v.text, s = s[:16], s[16:]
		}
	case kindDouble:
		if ok = len(s) >= 8; ok {
			v.bits, s = readInt64(s), s[8:]
		}
	case kindInt32, kindInt64, kindBoolean, kindDateTime:
		v.bits, s, ok = readVarint(s)
	}
	return v, s, ok
}

// readText reads a text with its length before it.
func readText(s string) (text, rest string, ok bool) {
	n, s, ok := readUvarint(s)
	if !ok || n > uint64(len(s)) {
		return "", "", false
	}
	return s[:n], s[n:], true
}

func readUvarint(s string) (uint64, string, bool) {
	var n uint64
	for i := 0; i < len(s) && i < binary.MaxVarintLen64; i++ {
		n |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return n, s[i+1:], true
		}
	}
	return 0, "", false
}

func readVarint(s string) (int64, string, bool) {
	u, s, ok := readUvarint(s)
	return int64(u>>1) ^ -int64(u&1), s, ok
}

// readInt64 reads the 8 bytes at the front of s.
func readInt64(s string) int64 {
	var n uint64
	for i := range 8 {
		n = n<<8 | uint64(s[i])
	}
	return int64(n)
}

// size is how many bytes Azure counts for the value.
func (v value) size() int {
	switch v.kind {
	case kindString:
		return 2*units(v.text) + 4
	case kindBinary:
		return len(v.text) + 4
	case kindGUID:
		return 16
	case kindInt32:
		return 4
	case kindBoolean:
		return 1
	default:
		return 8
	}
}

// units returns the length of a text in UTF-16, in which Azure stores it.
func units(s string) int {
	if ascii(s) {
		return len(s)
	}
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// promote returns a literal as the type of the property with which it is
// compared. Azure widens only integers of 32 bits.
func (v value) promote(k kind) value {
	if v.kind == kindInt32 {
		switch k {
		case kindInt64:
			v.kind = kindInt64
		case kindDouble:
			return doubleValue(float64(v.bits))
		}
	}
	return v
}

// compare returns the order of two values of the same type. It reports false if
// they have none, as for NaN.
func (v value) compare(w value) (int, bool) {
	switch v.kind {
	case kindString, kindBinary, kindGUID:
		return strings.Compare(v.text, w.text), true
	case kindDouble:
		f, g := v.double(), w.double()
		return cmp.Compare(f, g), f == f && g == g
	default:
		return cmp.Compare(v.bits, w.bits), true
	}
}

// annotated reports whether JSON shows the type only with an annotation.
func (v value) annotated() bool {
	switch v.kind {
	case kindInt64, kindDateTime, kindGUID, kindBinary:
		return true
	case kindDouble:
		f := v.double()
		return math.IsNaN(f) || math.IsInf(f, 0)
	default:
		return false
	}
}

// appendJSON appends the value as JSON.
func (v value) appendJSON(b []byte) []byte {
	switch v.kind {
	case kindString:
		return appendQuoted(b, v.text)
	case kindInt32:
		return strconv.AppendInt(b, v.bits, 10)
	case kindInt64:
		b = append(b, '"')
		b = strconv.AppendInt(b, v.bits, 10)
		return append(b, '"')
	case kindDouble:
		return appendDouble(b, v.double())
	case kindBoolean:
		return strconv.AppendBool(b, v.bits != 0)
	case kindDateTime:
		b = append(b, '"')
		b = appendTicks(b, v.bits)
		return append(b, '"')
	case kindGUID:
		b = append(b, '"')
		b = append(b, rest.GUID([16]byte([]byte(v.text)))...)
		return append(b, '"')
	default:
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, []byte(v.text))
		return append(b, '"')
	}
}

// appendDouble appends a number that readers do not take for an integer.
func appendDouble(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(b, `"-Infinity"`...)
	}
	format := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-5 || size >= 1e15) {
		format = 'e'
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if !strings.ContainsAny(string(b[start:]), ".e") {
		b = append(b, ".0"...)
	}
	return b
}

// appendQuoted appends a JSON string.
func appendQuoted(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		if c >= 0x20 {
			b = append(b, '\\', c)
		} else {
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// Times are counted in ticks of 100 ns since 1970, as exactly as Azure keeps
// them.
const ticksPerSecond = 10_000_000

func ticks(t time.Time) int64 {
	return t.Unix()*ticksPerSecond + int64(t.Nanosecond()/100)
}

func timeOf(ticks int64) time.Time {
	seconds, rest := ticks/ticksPerSecond, ticks%ticksPerSecond
	return time.Unix(seconds, rest*100).UTC()
}

func appendTicks(b []byte, ticks int64) []byte {
	return timeOf(ticks).AppendFormat(b, "2006-01-02T15:04:05.9999999Z")
}

// parseTicks parses a time. One without a zone is in UTC.
func parseTicks(s string) (int64, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return ticks(t.UTC()), true
		}
	}
	return 0, false
}

// minTicks is the first time that Azure stores: the beginning of 1601.
var minTicks = ticks(time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC))

// parseGUID returns the 16 bytes of a GUID.
func parseGUID(s string) (string, bool) {
	id, ok := rest.ParseGUID(s)
	return string(id[:]), ok
}
