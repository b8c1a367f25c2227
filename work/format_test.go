package work

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"kennel/internal/table"
)

const someBatch = "20261122210601123-abcdefgh"

func someParcel() parcel {
	return parcel{
		Batch: someBatch, Processor: "billing", ID: parcelID{Parcel: 7, Try: 1}, Indexes: []int{3, 99},
		SubmittedAt: time.Date(2026, 11, 22, 21, 6, 1, 123e6, time.UTC),
		Items:       []Item{{ID: "a", Data: []byte(`{"id":"a"}`)}, {ID: "é\"\\", Data: []byte(`{"x":1,"id":"é\"\\"}`)}},
	}
}

func TestReadable(t *testing.T) {
	b := new(Batches)
	p := someParcel()
	got := b.Readable(p.pack(&b.coders, p.lines()))
	if _, err := parseParcel(got); err != nil || !bytes.HasSuffix(got, p.lines()) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, body := range []string{"", `{"v":1}`, "\x28\xb5\x2f\xfdcut"} {
		if got := b.Readable([]byte(body)); string(got) != body {
			t.Errorf("got %q, want %q", got, body)
		}
	}
}

func FuzzParcel(f *testing.F) {
	b := new(Batches)
	first := someParcel()
	first.ID.Try, first.Indexes = 0, nil
	for _, p := range []parcel{first, someParcel()} {
		body, err := b.coders.decompress(p.pack(&b.coders, p.lines()))
		if err != nil {
			f.Fatal(err)
		}
		if got, err := parseParcel(body); err != nil || !reflect.DeepEqual(got, p) {
			f.Fatalf("parcel %+v, %v, want %+v", got, err, p)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parseParcel(body)
		if err != nil {
			return
		}
		again, err := b.unpackParcel(p.pack(&b.coders, p.lines()))
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("parcel %+v is read back as %+v, %v", p, again, err)
		}
		if len(p.Items) > LargeParcel || p.ID.check() != nil {
			t.Errorf("parcel %+v is invalid", p)
		}
	})
}

func FuzzResults(f *testing.F) {
	c := new(coders)
	for _, text := range []string{"1\nd\"a\"{\"x\":1}\nr\"b\"\"bad\"\nf\"é\\\"\"\"\\u0000\"\n", "1\n", "2\n", "1\nd\"a\"\n", "1\nx\"a\"1\n"} {
		f.Add([]byte(text), 1, 1, 1)
	}
	f.Fuzz(func(t *testing.T, body []byte, done, rejected, failed int) {
		if min(done, rejected, failed) < 0 || max(done, rejected, failed) > LargeParcel {
			return // which readResults rejects
		}
		row := resultRow{done: done, rejected: rejected, failed: failed, packed: c.compress(body)}
		results, err := row.parseResults(c)
		if err != nil {
			return
		}
		if len(results) != row.count() {
			t.Errorf("%d results, want %d", len(results), row.count())
		}
		for _, r := range results {
			again, err := parseResult(bytes.TrimSuffix(appendResult(nil, r), []byte("\n")))
			if err != nil || !reflect.DeepEqual(again, r) {
				t.Errorf("result %+v is read back as %+v, %v", r, again, err)
			}
		}
	})
}

func FuzzResultRow(f *testing.F) {
	row := resultRow{id: parcelID{Parcel: 3}, done: 2, remaining: []int{0, 99}, operations: 1.5, packed: []byte("packed")}.row(someBatch)
	f.Add(row.Key, row.Values["v"], row.Values["done"], row.Values["remaining"], row.Values["operations"], row.Values["c0"])
	f.Fuzz(func(t *testing.T, key, v, done, remaining, operations, c0 string) {
		r, err := readResults(table.Row{Partition: someBatch, Key: key, Values: map[string]string{
			"v": v, "done": done, "rejected": "0", "failed": "0", "remaining": remaining, "operations": operations, "c0": c0,
		}})
		if err != nil {
			return
		}
		again, err := readResults(r.row(someBatch))
		r.operations, again.operations = 0, 0 // of which four digits are stored
		if err != nil || len(r.packed) != len(again.packed) || !reflect.DeepEqual(r.remaining, again.remaining) || r.id != again.id {
			t.Errorf("%+v is read back as %+v, %v", r, again, err)
		}
	})
}

func FuzzLedger(f *testing.F) {
	l := newLedger(details{ID: someBatch, Processor: "billing", Items: 5, Parcels: 2, Chunks: 1, Partitions: 4, SubmittedAt: time.Unix(1, 0)})
	l.counted.set(6)
	l.done, l.finishedAt, l.lateBy, l.restarts = 3, time.Unix(2, 5), time.Second, 2
	row := l.row()
	f.Add(row.Values["v"], row.Values["details"], row.Values["state"], row.Values["counted"], row.Values["finishedAt"], row.Values["lateBy"], row.Values["done"])
	f.Fuzz(func(t *testing.T, v, details, state, counted, finishedAt, lateBy, done string) {
		row := table.Row{Partition: someBatch, Key: ledgerKey, Values: map[string]string{
			"v": v, "details": details, "state": state, "counted": counted, "finishedAt": finishedAt, "lateBy": lateBy, "done": done,
			"rejected": "0", "failed": "0", "operations": "0", "queuedAt": "", "restartedAt": "", "restarts": "0", "error": "",
		}}
		l, err := readLedger(row)
		if err != nil {
			return
		}
		again, err := readLedger(l.row())
		if err != nil || again.done != l.done || !bytes.Equal(again.counted, l.counted) || again.state != l.state || again.lateBy != l.lateBy {
			t.Errorf("%+v is read back as %+v, %v", l, again, err)
		}
	})
}

// TestLedgerFits checks that the largest ledger fits into a row.
func TestLedgerFits(t *testing.T) {
	l := newLedger(details{ID: someBatch, Name: strings.Repeat("x", MaxName), Items: maxItems, Parcels: maxParcels})
	l.counted.set(parcelID{maxParcels - 1, MaxTries - 1}.bit())
	if err := table.CheckWrites([]table.Write{{Verb: table.Replace, Row: l.row(), If: "1"}}); err != nil {
		t.Error(err)
	}
}

// TestResultsFit checks that the longest results of a parcel fit into a row.
func TestResultsFit(t *testing.T) {
	r := resultRow{done: ParcelItems, packed: make([]byte, ParcelItems*(MaxResult+MaxItemID+16))}
	if err := table.CheckWrites([]table.Write{{Verb: table.Insert, Row: r.row(someBatch)}}); err != nil {
		t.Error(err)
	}
	again, err := readResults(r.row(someBatch))
	if err != nil || len(again.packed) != len(r.packed) {
		t.Errorf("%d bytes, %v, want %d", len(again.packed), err, len(r.packed))
	}
}

// TestBitSet compares the set with a map.
func TestBitSet(t *testing.T) {
	var s bitSet
	for _, n := range []int{0, 7, 8, 1000} {
		if s.has(n) {
			t.Errorf("the set has %d", n)
		}
		s.set(n)
		if !s.has(n) || s.has(n+1) {
			t.Errorf("the set has %d: %t, and %d: %t", n, s.has(n), n+1, s.has(n+1))
		}
	}
}

// TestResultsOfAnotherVersion checks that their format is an error, not a guess.
func TestResultsOfAnotherVersion(t *testing.T) {
	row := resultRow{done: 1}.row(someBatch)
	row.Values["v"] = "2"
	if _, err := readResults(row); err == nil || !strings.Contains(err.Error(), `"1"`) {
		t.Errorf("error %v, want one that names the known version", err)
	}
}
