package amqp

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sameValues are options to compare decoded values. NaN equals itself, and nil
// and empty lists are equal.
var sameValues = cmp.Options{cmpopts.EquateNaNs(), cmpopts.EquateEmpty()}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The encodings are written by hand from the tables of the specification.
func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bytes string
		want  any
	}{
		{"null", "40", nil},
		{"true", "41", true},
		{"false", "42", false},
		{"boolean", "5601", true},
		{"ubyte", "50ff", uint8(255)},
		{"byte", "51ff", int8(-1)},
		{"ushort", "600102", uint16(0x0102)},
		{"short", "61ffff", int16(-1)},
		{"uint0", "43", uint32(0)},
		{"smalluint", "52ff", uint32(255)},
		{"uint", "7000000100", uint32(256)},
		{"smallint", "54ff", int32(-1)},
		{"int", "71fffffffe", int32(-2)},
		{"ulong0", "44", uint64(0)},
		{"smallulong", "53ff", uint64(255)},
		{"ulong", "80ffffffffffffffff", uint64(math.MaxUint64)},
		{"smalllong", "5580", int64(-128)},
		{"long", "818000000000000000", int64(math.MinInt64)},
		{"float", "723fc00000", float32(1.5)},
		{"double", "823ff8000000000000", 1.5},
		{"char", "7300000041", Char('A')},
		{"timestamp", "830000018bcfe56800", time.UnixMilli(1700000000000).UTC()},
		{"uuid", "98000102030405060708090a0b0c0d0e0f", UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
		{"binary", "a0020102", []byte{1, 2}},
		{"long binary", "b0000000020102", []byte{1, 2}},
		{"string", "a1026869", "hi"},
		{"symbol", "a3026869", Symbol("hi")},
		{"decimal", "7401020304", Decimal("\x01\x02\x03\x04")},
		{"empty list", "45", []any{}},
		{"list", "c00302" + "4142", []any{true, false}},
		{"long list", "d000000006" + "00000002" + "4142", []any{true, false}},
		{"map", "c10502" + "a10161" + "41", Map{"a", true}},
		{"map with a key that Go cannot hash", "c10502" + "a00161" + "41", Map{[]byte("a"), true}},
		{"array of longs", "e00402" + "55" + "01ff", Array{ctorLong, []any{int64(1), int64(-1)}}},
		{"array of nulls", "e00203" + "40", Array{ctorNull, []any{nil, nil, nil}}},
		{"described", "00" + "5328" + "41", Described{uint64(0x28), true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, rest, err := Decode(append(unhex(t, tt.bytes), 0xee))
			if err != nil || !bytes.Equal(rest, []byte{0xee}) {
				t.Fatalf("got rest %x and error %v", rest, err)
			}
			if diff := cmp.Diff(tt.want, got, sameValues); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			again, _, err := Decode(AppendValue(nil, got))
			if diff := cmp.Diff(got, again, sameValues); diff != "" || err != nil {
				t.Errorf("after encoding and decoding, error %v (-first +second):\n%s", err, diff)
			}
			for short := unhex(t, tt.bytes); len(short) > 0; {
				short = short[:len(short)-1]
				if v, _, err := Decode(short); err == nil {
					t.Errorf("truncated to %x: decoded to %v", short, v)
				}
			}
		})
	}
}

func TestDecodeBounds(t *testing.T) {
	for name, text := range map[string]string{
		"a length of 4 GB":             "b1ffffffff",
		"a list of 4 billion":          "d0000000" + "04ffffffff",
		"an array of 2 billion":        "f0000000057fffffff40",
		"a map with half a pair":       "c10401a10161",
		"an unknown type":              "3f",
		"an array of described values": "e00501005328" + "41",
		"a descriptor and no value":    "005328",
		"lists nested too deeply":      strings.Repeat("c0ff01", 40) + "40",
		"described too deeply":         strings.Repeat("00", 100) + "40",
		"arrays nested too deeply":     strings.Repeat("f0000000ff00000001", 40) + "40",
	} {
		if v, _, err := Decode(unhex(t, text)); err == nil {
			t.Errorf("%s: decoded to %v", name, v)
		}
	}
}

// Slices become arrays of exactly the type that the SDKs require.
func TestAppendArrays(t *testing.T) {
	at := time.UnixMilli(1).UTC()
	for _, pair := range [][2]any{
		{[]time.Time{at, at}, Array{ctorTimestamp, []any{at, at}}},
		{[]int64{1, -1}, Array{ctorLong, []any{int64(1), int64(-1)}}},
		{[]string{"a", ""}, Array{ctorString32, []any{"a", ""}}},
		{[]Symbol{"a"}, Array{ctorSymbol32, []any{Symbol("a")}}},
		{[]int64{}, Array{ctorLong, nil}},
	} {
		got, _, err := Decode(AppendValue(nil, pair[0]))
		if diff := cmp.Diff(pair[1], got, sameValues); diff != "" || err != nil {
			t.Errorf("%T, error %v (-want +got):\n%s", pair[0], err, diff)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, v := range []any{
		nil, "text", []any{true, uint32(7), []byte{1}}, Map{Symbol("k"), Described{uint64(1), int64(-1)}},
		[]time.Time{time.Unix(1, 0)}, []string{"a", "b"}, Array{ctorList32, []any{[]any{"x"}, []any{}}},
		Array{ctorSmallInt, nil}, []any{Char('a'), UUID{}, Decimal("1234"), float32(1), 2.0, uint16(3), int16(4), int8(5), uint8(6), uint64(7)},
		Array{ctorBool, []any{true, false}}, Array{ctorUint, []any{uint32(1)}}, Array{ctorBinary32, []any{[]byte{1}}},
	} {
		f.Add(AppendValue(nil, v))
	}
	f.Add([]byte("\x00\x00AAA")) // a descriptor with a descriptor
	f.Fuzz(func(t *testing.T, b []byte) {
		v, rest, err := Decode(b)
		if err != nil {
			return
		}
		if after, err := skip(b); err != nil || len(after) != len(rest) {
			t.Errorf("skip leaves %d bytes, error %v; Decode leaves %d", len(after), err, len(rest))
		}
		again, rest, err := Decode(AppendValue(nil, v))
		if err != nil || len(rest) != 0 {
			t.Fatalf("an encoded value cannot be decoded: %d bytes left, error %v", len(rest), err)
		}
		if diff := cmp.Diff(v, again, sameValues); diff != "" {
			t.Errorf("decoded, encoded and decoded (-first +second):\n%s", diff)
		}
	})
}
