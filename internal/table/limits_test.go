package table

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

type values = map[string]string

func insert(partition, key string, v values) Write {
	return Write{Verb: Insert, Row: Row{Partition: partition, Key: key, Values: v}}
}

func remove(partition, key, version string) Write {
	return Write{Verb: Delete, Row: Row{Partition: partition, Key: key}, If: version}
}

// CheckWrites rejects transactions that Azure would reject, even if the
// emulator would accept them.
func TestCheckWrites(t *testing.T) {
	rows := func(n int, v values) (writes []Write) {
		for i := range n {
			writes = append(writes, insert("p", fmt.Sprint("r", i), v))
		}
		return writes
	}
	wide := values{}
	for i := range 253 {
		wide[fmt.Sprint("c", i)] = ""
	}
	heavy := values{}
	for i := range 16 {
		heavy[fmt.Sprint("c", i)] = strings.Repeat("x", 32<<10)
	}
	tests := map[string][]Write{
		"no rows":              {},
		"101 rows":             rows(101, nil),
		"two partitions":       {insert("p", "a", nil), insert("q", "b", nil)},
		"a row twice":          {insert("p", "a", nil), insert("p", "a", nil)},
		"deleted and inserted": {remove("p", "a", AnyVersion), insert("p", "a", nil)},
		"row of 1 MiB":         {insert("p", "a", heavy)},
		"253 columns":          {insert("p", "a", wide)},
		"value above 64 KiB":   {insert("p", "a", values{"x": strings.Repeat("x", 32<<10+1)})},
		"above it in UTF-16":   {insert("p", "a", values{"x": strings.Repeat("🐕", 16<<10+1)})},
		"4 MiB at once":        rows(100, values{"x": strings.Repeat("x", 32<<10), "y": strings.Repeat("x", 10<<10)}),
		"4 MiB when escaped":   rows(100, values{"x": strings.Repeat("<", 8<<10)}),
		"not UTF-8":            {insert("p", "a", values{"x": "\xff"})},
		"NUL":                  {insert("p", "a", values{"x": "a\x00b"})},
		"no verb":              {{Row: Row{Partition: "p", Key: "a"}}},
		"unknown verb":         {{Verb: Upsert + 1, Row: Row{Partition: "p", Key: "a"}, If: AnyVersion}},
		"insert on condition":  {{Verb: Insert, Row: Row{Partition: "p", Key: "a"}, If: AnyVersion}},
		"upsert on condition":  {{Verb: Upsert, Row: Row{Partition: "p", Key: "a"}, If: AnyVersion}},
		"delete without":       {remove("p", "a", "")},
	}
	for _, key := range []string{"", "a/b", `a\b`, "a#b", "a?b", "a'b", "a\x00b", "a\tb", "a\nb", "\x1f", "\x7f", "\u0085", "\u009f", "\xff",
		strings.Repeat("k", 513), strings.Repeat("🐕", 257), strings.Repeat("k", 2<<10)} {
		tests[fmt.Sprintf("key %.20q", key)] = []Write{insert("p", key, nil)}
		tests[fmt.Sprintf("partition %.20q", key)] = []Write{insert(key, "a", nil)}
		tests[fmt.Sprintf("deleted key %.20q", key)] = []Write{insert("p", "a", nil), remove("p", key, AnyVersion)}
	}
	for _, column := range []string{"", "PartitionKey", "RowKey", "Timestamp", "1a", "_a", "a b", "a.b", "a-b", "ä", "odata.etag", "a@odata.type", strings.Repeat("c", 256)} {
		tests[fmt.Sprintf("column %.20q", column)] = []Write{insert("p", "a", values{column: ""})}
	}
	for name, writes := range tests {
		if err := CheckWrites(writes); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v, want %v", name, err, ErrLimit)
		}
	}
	if err := CheckWrites(rows(100, values{"x": strings.Repeat("x", 32<<9)})); err != nil {
		t.Error(err)
	}
}

func TestCheckQuery(t *testing.T) {
	for name, q := range map[string]Query{
		"top 0":     {Top: 0},
		"top -1":    {Top: -1},
		"top 1001":  {Top: 1001},
		"partition": {Partition: "a/b", Top: 1},
		"key":       {Key: "a'b", Top: 1},
		"above":     {Above: "a\x00", Top: 1},
		"below":     {Below: "a?b", Top: 1},
		"column":    {Column: "a eq b or c", Value: "1", Top: 1},
	} {
		if err := CheckQuery(q); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v, want %v", name, err, ErrLimit)
		}
	}
	if err := CheckQuery(Query{Partition: "p", Above: "!fence", Below: "~", Column: "state", Value: "it's", Top: MaxPage}); err != nil {
		t.Error(err)
	}
}
