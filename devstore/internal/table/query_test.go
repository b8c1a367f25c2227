package table

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sort"
	"strings"
	"testing"

	"kennel/devstore/internal/rest"
)

func TestFilters(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	a.put("p", "1", `"Text":"it's","N":1,"L":"1","L@odata.type":"Edm.Int64","D":1.5,"Yes":true`)
	a.put("p", "2", `"Text":"b","N":2,"L":"5000000000","L@odata.type":"Edm.Int64","D":2.0,"Yes":false,"At":"2026-01-01T00:00:00Z","At@odata.type":"Edm.DateTime"`)
	a.put("q", "1", `"Text":3,"Id":"4185404a-5818-48c3-b9be-f217df0dba6f","Id@odata.type":"Edm.Guid","B":"q80=","B@odata.type":"Edm.Binary","D@odata.type":"Edm.Double","D":"NaN"`)
	for _, c := range []struct{ filter, want string }{
		{"", "p/1 p/2 q/1"},
		{"Text eq 'it''s'", "p/1"},
		{"'it''s' eq Text", "p/1"},
		{"Text ne 'b'", "p/1"}, // not q/1, where it is a number
		{"not (Text eq 'b')", "p/1 q/1"},
		{"not Text eq 'b'", "p/1 q/1"},
		{"Text eq 3", "q/1"},
		{"Missing ne 1", ""},
		{"not (Missing eq 1)", "p/1 p/2 q/1"},
		{"N gt 1", "p/2"},
		{"1 lt N", "p/2"},
		{"N ge 1", "p/1 p/2"},
		{"N le -1", ""},
		{"N eq 1L", ""}, // Azure widens the literal, not the property
		{"N eq 1.0", ""},
		{"L eq 1", "p/1"},
		{"L gt 4999999999L", "p/2"},
		{"D eq 2", "p/2"},
		{"D eq 2L", ""},
		{"D ge 1.5", "p/1 p/2"},
		{"D lt 2e0", "p/1"},
		{"D eq 15e-1d", "p/1"},
		{"D ne 7.5", "p/1 p/2 q/1"},
		{"D lt INF", "p/1 p/2"},
		{"D gt -INF", "p/1 p/2"},
		{"D eq NaN", ""},
		{"Yes", "p/1"},
		{"not Yes", "p/2 q/1"},
		{"Yes eq false", "p/2"},
		{"At ge datetime'2026-01-01T00:00:00Z'", "p/2"},
		{"At gt datetime'2026-01-01'", ""},
		{"At eq datetime'2026-01-01T01:00+01:00'", "p/2"},
		{"Timestamp ge datetime'2026-01-02T03:04:05Z'", "p/1 p/2 q/1"},
		{"Id eq guid'4185404A-5818-48c3-b9be-f217df0dba6f'", "q/1"},
		{"B eq X'abCD'", "q/1"},
		{"B eq binary'abcd'", "q/1"},
		{"B gt X'abcc' and B lt X'abce'", "q/1"},
		{"N eq 1 or N eq 2 and Text eq 'x'", "p/1"},
		{"(N eq 1 or N eq 2) and Text eq 'b'", "p/2"},
		{"((((N eq 1))))", "p/1"},
		{"not not (N eq 1)", "p/1"},
		{"PartitionKey eq 'p' and RowKey ge '2'", "p/2"},
		{"PartitionKey gt 'p'", "q/1"},
		{"PartitionKey eq 'p' or PartitionKey eq 'q' and RowKey eq '1'", "p/1 p/2 q/1"},
		{"PartitionKey le 'p\x01'", "p/1 p/2"},
		{"  N\teq  1 ", "p/1"},
	} {
		if got, _ := a.query("$filter", c.filter); strings.Join(got, " ") != c.want {
			t.Errorf("%s: found %q, want %q", c.filter, got, c.want)
		}
	}
	for filter, code := range map[string]string{
		"N": "", "N eq": "InvalidInput", "N eq 1)": "InvalidInput", "(N eq 1": "InvalidInput", "eq 1": "InvalidInput", "N eq 'a": "InvalidInput",
		"N eq 1 and": "InvalidInput", "N EQ 1": "InvalidInput", "N eq N": "InvalidInput", "1 eq 1": "InvalidInput", "N eq null": "InvalidInput",
		"N eq 5000000000": "InvalidInput", "N eq 0x10": "InvalidInput", "N eq 1_0": "InvalidInput", "N eq 1.2.3": "InvalidInput", "N eq --1": "InvalidInput",
		"N eq guid'x'": "InvalidInput", "N eq datetime'x'": "InvalidInput", "N eq foo'x'": "InvalidInput", "N eq X'*'": "InvalidInput", "N & 1": "InvalidInput",
		"startswith(Text,'a')": "NotImplemented", "N add 1 eq 2": "NotImplemented", "Text eq tolower('A')": "NotImplemented",
		strings.Repeat("(", 1000) + "N eq 1" + strings.Repeat(")", 1000): "InvalidInput",
		strings.Repeat("not ", 1000) + "N eq 1":                          "InvalidInput",
		"N eq 1" + strings.Repeat(" or N eq 1", 1000):                    "",
	} {
		status := map[string]int{"": 200, "InvalidInput": 400, "NotImplemented": 501}[code]
		a.Run(filter[:min(len(filter), 20)], func(t *testing.T) {
			a := &account{T: t, service: a.service, now: a.now}
			a.must(status, code, a.do("GET", "blogs()?$filter="+url.QueryEscape(filter), ""))
		})
	}
	for query, code := range map[string]string{
		"$top=0": "InvalidInput", "$top=1001": "InvalidInput", "$top=x": "InvalidInput", "$orderby=N": "NotImplemented", "$select=a-b": "InvalidInput",
		"NextPartitionKey=x": "InvalidInput", "NextPartitionKey=1!3!abcd": "InvalidInput", "NextPartitionKey=1!4!****": "",
	} {
		status := map[string]int{"": 200, "InvalidInput": 400, "NotImplemented": 501}[code]
		a.must(status, code, a.do("GET", "blogs()?"+query, ""))
	}
}

// A query finds what it would find by looking at all rows, whatever the span of
// its filter is.
func TestSpans(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	a := newAccount(t)
	a.create("blogs")
	var rows []row
	keys := []string{"", "!", "a", "a!", "aa", "b", "ba", "é"}
	d := newDictionary()
	for _, partition := range keys {
		for _, key := range keys {
			if rng.IntN(3) > 0 {
				a.put(partition, key, "")
				rows = append(rows, newRow(d, joinKey(partition, key), 0, nil))
			}
		}
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].key() < rows[j].key() })
	var random func(depth int) string
	random = func(depth int) string {
		switch n := rng.IntN(6); {
		case depth > 3 || n < 3:
			name := []string{"PartitionKey", "RowKey"}[rng.IntN(2)]
			operator := []string{"eq", "ne", "gt", "ge", "lt", "le"}[rng.IntN(6)]
			literal := append(keys, "a\x00", "a\x01", "\x7f")[rng.IntN(len(keys)+3)]
			return name + " " + operator + " '" + literal + "'"
		case n == 3:
			return "not (" + random(depth+1) + ")"
		case n == 4:
			return "(" + random(depth+1) + " or " + random(depth+1) + ")"
		default:
			return "(" + random(depth+1) + " and " + random(depth+1) + ")"
		}
	}
	for range 1000 {
		text := random(0)
		f, err := parseFilter(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var want []string
		for _, r := range rows {
			if f.match(func(name string) (value, bool) { return r.find(d, name) }) {
				want = append(want, strings.ReplaceAll(r.key(), keySeparator, "/"))
			}
		}
		if got, _ := a.query("$filter", text); !slices.Equal(got, want) {
			t.Fatalf("seed %d, %s: found %q, want %q", seed, text, got, want)
		}
	}
}

// A query that names a partition or a range of its rows does not look at others.
func TestScansAreNarrow(t *testing.T) {
	for filter, want := range map[string]span{
		"PartitionKey eq 'p'":                   {"p\x00", "p\x01"},
		"PartitionKey eq 'p' and RowKey eq 'r'": {"p\x00r", "p\x00r\x00"},
		"RowKey gt 'a' and (N eq 1 and (PartitionKey eq 'p')) and RowKey le 'b'": {"p\x00a\x00", "p\x00b\x00"},
		"PartitionKey eq 'p' and (RowKey ge 'a' and RowKey lt 'b')":              {"p\x00a", "p\x00b"},
		"PartitionKey ge 'p' and PartitionKey lt 'q'":                            {"p\x00", "q\x00"},
		"PartitionKey gt 'p' and PartitionKey le 'q'":                            {"p\x01", "q\x01"},
		"PartitionKey eq 'a' or PartitionKey eq 'c'":                             {"a\x00", "c\x01"},
		"RowKey eq 'r'":                 {},
		"not (PartitionKey eq 'p')":     {},
		"PartitionKey ne 'p'":           {},
		"PartitionKey eq 1":             {},
		"PartitionKey eq 'p' or N eq 1": {},
	} {
		f, err := parseFilter(filter)
		if err != nil {
			t.Fatal(err)
		}
		if got := spanOf(f); got != want {
			t.Errorf("%s has the span %q, want %q", filter, got, want)
		}
	}
}

func TestPages(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	var want []string
	for i := range 2001 {
		a.put(fmt.Sprintf("p%d", i/700), fmt.Sprintf("%04d", i), fmt.Sprintf(`"N":%d`, i))
		want = append(want, fmt.Sprintf("p%d/%04d", i/700, i))
	}
	if got, pages := a.query(); !slices.Equal(got, want) || pages != 3 {
		t.Errorf("found %d rows on %d pages", len(got), pages)
	}
	if got, pages := a.query("$top", "667"); !slices.Equal(got, want) || pages != 3 {
		t.Errorf("found %d rows on %d pages of at most 667", len(got), pages)
	}
	if got, pages := a.query("$filter", "PartitionKey eq 'p1'", "$top", "700"); !slices.Equal(got, want[700:1400]) || pages != 1 {
		t.Errorf("found %d rows of a partition on %d pages", len(got), pages)
	}
	// The row at which a page would begin is deleted meanwhile.
	answer := a.must(200, "", a.do("GET", "blogs()?$top=2&$select=RowKey", ""))
	partition, key := answer.Header.Get("x-ms-continuation-NextPartitionKey"), answer.Header.Get("x-ms-continuation-NextRowKey")
	a.must(204, "", a.do("DELETE", "blogs(PartitionKey='p0',RowKey='0002')", "", "If-Match", "*"))
	answer = a.must(200, "", a.do("GET", "blogs()?$top=1&$select=RowKey&NextPartitionKey="+partition+"&NextRowKey="+key, "", "Accept", "application/json;odata=nometadata"))
	if string(answer.Body) != `{"value":[{"RowKey":"0003"}]}` {
		t.Errorf("continued with %s", answer.Body)
	}
	// Without a row, the partition begins.
	answer = a.must(200, "", a.do("GET", "blogs()?$top=1&$select=RowKey&NextPartitionKey="+writeToken("p1"), "", "Accept", "application/json;odata=nometadata"))
	if string(answer.Body) != `{"value":[{"RowKey":"0700"}]}` {
		t.Errorf("continued with %s", answer.Body)
	}
}

// A page of long rows ends before it is too long.
func TestLongPages(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	for i := range 3 {
		a.put("p", fmt.Sprintf("%04d", i), "")
	}
	long := make([]byte, fullPage-1)
	_, next := scan{page: page{top: 1000}}.run(long, a.service.accounts.find("devaccount", "blogs"))
	if want := joinKey("p", "0001"); next != want {
		t.Errorf("the next page begins at %q, want %q", next, want)
	}
}

// With a seed, pages end early and may be empty, but nothing is lost.
func TestEarlyEnds(t *testing.T) {
	for seed := range uint64(20) {
		a := newAccount(t)
		a.service = New(rest.Memory{}, seed+1)
		a.create("blogs")
		var want []string
		for i := range 50 {
			a.put("p", fmt.Sprintf("%04d", i), "")
			want = append(want, fmt.Sprintf("p/%04d", i))
		}
		ended, empty := false, false
		for range 20 {
			got, pages := a.query()
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: found %q", seed+1, got)
			}
			none, nonePages := a.query("$filter", "N eq 1")
			if len(none) != 0 {
				t.Fatalf("seed %d: found %q", seed+1, none)
			}
			ended, empty = ended || pages > 1, empty || nonePages > 1
		}
		if !ended || !empty {
			t.Errorf("seed %d: early ends %v, empty pages %v", seed+1, ended, empty)
		}
		names := 0
		for next, pages := "", 0; pages == 0 || next != ""; pages++ {
			answer := a.must(200, "", a.do("GET", "Tables?NextTableName="+next, ""))
			names += strings.Count(string(answer.Body), `"TableName"`)
			next = answer.Header.Get("x-ms-continuation-NextTableName")
		}
		if names != 1 {
			t.Errorf("seed %d: found %d tables", seed+1, names)
		}
	}
}

// Rows that arrive in order fill their chunks.
func TestRowsInOrder(t *testing.T) {
	var kept rows
	const full = 10
	for i := range full * maxChunk {
		kept.put(newRow(nil, joinKey("p", fmt.Sprintf("%06d", i)), 0, nil))
	}
	if len(kept.chunks) != full {
		t.Errorf("%d rows are in %d chunks", kept.count, len(kept.chunks))
	}
}

// Rows are kept as a map and a sort would keep them.
func TestRows(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, limit := range []int{10, 3000, 100_000} {
		var kept rows
		want := make(map[string]row)
		for step := range 20_000 {
			n := rng.IntN(limit)
			if limit == 100_000 && step < 5000 {
				n = step // in order
			}
			key := joinKey("p", fmt.Sprintf("%06d", n))
			if rng.IntN(5) < 3 && step < 15_000 || rng.IntN(5) == 0 {
				r := newRow(nil, key, int64(step), nil)
				kept.put(r)
				want[key] = r
			} else {
				kept.remove(key)
				delete(want, key)
			}
			if kept.get(key) != want[key] || kept.count != len(want) {
				t.Fatalf("seed %d: step %d: %q and %d rows, want %q and %d", seed, step, kept.get(key), kept.count, want[key], len(want))
			}
		}
		keys := make([]string, 0, len(want))
		for key := range want {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		from := joinKey("p", fmt.Sprintf("%06d", limit/2))
		i, _ := slices.BinarySearch(keys, from)
		for r := range kept.from(from) {
			if i == len(keys) || r != want[keys[i]] {
				t.Fatalf("seed %d: row %d is %q", seed, i, r)
			}
			i++
		}
		if i != len(keys) {
			t.Errorf("seed %d: %d of %d rows", seed, i, len(keys))
		}
		if least := 1 + kept.count/20; len(kept.chunks) > least {
			t.Errorf("seed %d: %d rows in %d chunks", seed, kept.count, len(kept.chunks))
		}
	}
}
