package format

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/model"
)

const someBatch = "20261122210601123-abcdefgh"

func someParcel() Parcel {
	return Parcel{
		Batch: someBatch, Processor: "billing", ID: ParcelID{Parcel: 7, Try: 1}, Indexes: []int{3, 99}, Attempts: []int{1, 2}, Waits: []int64{0, 90_000},
		SubmittedAt: time.Date(2026, 11, 22, 21, 6, 1, 123e6, time.UTC),
		Items:       []model.Item{{ID: "a", Data: []byte(`{"id":"a"}`)}, {ID: "é\"\\", Data: []byte(`{"x":1,"id":"é\"\\"}`)}},
	}
}

func TestReadable(t *testing.T) {
	c := new(Coders)
	p := someParcel()
	got := c.Readable(p.Pack(c, p.Lines()))
	if _, err := parseParcel(got); err != nil || !bytes.HasSuffix(got, p.Lines()) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, body := range []string{"", `{"v":1}`, "\x28\xb5\x2f\xfdcut"} {
		if got := c.Readable([]byte(body)); string(got) != body {
			t.Errorf("got %q, want %q", got, body)
		}
	}
}

func FuzzParcel(f *testing.F) {
	c := new(Coders)
	first := someParcel()
	first.ID.Try, first.Indexes, first.Attempts, first.Waits = 0, nil, nil, nil
	for _, p := range []Parcel{first, someParcel()} {
		body, err := c.decompress(p.Pack(c, p.Lines()))
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
		again, err := UnpackParcel(c, p.Pack(c, p.Lines()))
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("parcel %+v is read back as %+v, %v", p, again, err)
		}
		if len(p.Items) > model.LargeParcel || p.ID.Check() != nil {
			t.Errorf("parcel %+v is invalid", p)
		}
	})
}

func FuzzResults(f *testing.F) {
	c := new(Coders)
	for _, text := range []string{"1\nd\"a\"{\"x\":1}\nr\"b\"\"bad\"\nf\"é\\\"\"\"\\u0000\"\n", "1\n", "2\n", "1\nd\"a\"\n", "1\nx\"a\"1\n"} {
		f.Add([]byte(text), 1, 1, 1)
	}
	f.Fuzz(func(t *testing.T, body []byte, done, rejected, failed int) {
		if min(done, rejected, failed) < 0 || max(done, rejected, failed) > model.LargeParcel {
			return // which ReadResultRow rejects
		}
		row := ResultRow{Done: done, Rejected: rejected, Failed: failed, Packed: c.Compress(body)}
		results, err := row.parseResults(c)
		if err != nil {
			return
		}
		if len(results) != row.Count() {
			t.Errorf("%d results, want %d", len(results), row.Count())
		}
		for _, r := range results {
			again, err := parseResult(bytes.TrimSuffix(AppendResult(nil, r), []byte("\n")))
			if err != nil || !reflect.DeepEqual(again, r) {
				t.Errorf("result %+v is read back as %+v, %v", r, again, err)
			}
		}
	})
}

func FuzzResultRow(f *testing.F) {
	row := ResultRow{ID: ParcelID{Parcel: 3}, Done: 2, Remaining: []int{0, 99}, Attempts: []int{1, 3}, Waits: []int64{0, 60_000}, NextAt: time.Unix(3, 0), Operations: 1.5, Packed: []byte("packed")}.Row(someBatch)
	f.Add(row.Key, row.Values["v"], row.Values["done"], row.Values["remaining"], row.Values["operations"], row.Values["c0"], row.Values["attempts"], row.Values["waits"], row.Values["nextAt"])
	f.Fuzz(func(t *testing.T, key, v, done, remaining, operations, c0, attempts, waits, nextAt string) {
		r, err := ReadResultRow(table.Row{Partition: someBatch, Key: key, Values: map[string]string{
			"v": v, "done": done, "rejected": "0", "failed": "0", "remaining": remaining, "operations": operations, "c0": c0,
			"attempts": attempts, "waits": waits, "nextAt": nextAt,
		}})
		if err != nil {
			return
		}
		again, err := ReadResultRow(r.Row(someBatch))
		r.Operations, again.Operations = 0, 0 // of which four digits are stored
		if err != nil || len(r.Packed) != len(again.Packed) || !reflect.DeepEqual(r.Remaining, again.Remaining) || !reflect.DeepEqual(r.Attempts, again.Attempts) || !slices.Equal(r.Waits, again.Waits) || !r.NextAt.Equal(again.NextAt) || r.ID != again.ID {
			t.Errorf("%+v is read back as %+v, %v", r, again, err)
		}
	})
}

func FuzzBatchRow(f *testing.F) {
	l := NewBatchRow(Details{ID: someBatch, Processor: "billing", Items: 5, Parcels: 2, Chunks: 1, Partitions: 4, SubmittedAt: time.Unix(1, 0)})
	l.Tried.Count(1)
	l.Done, l.FinishedAt, l.LateBy, l.Restarts = 3, time.Unix(2, 5), time.Second, 2
	row := l.Row()
	f.Add(row.Values["v"], row.Values["details"], row.Values["state"], row.Values["tried0"], row.Values["finishedAt"], row.Values["lateBy"], row.Values["done"])
	f.Fuzz(func(t *testing.T, v, details, state, tried, finishedAt, lateBy, done string) {
		row := table.Row{Partition: someBatch, Key: BatchKey, Values: map[string]string{
			"v": v, "details": details, "state": state, "tried0": tried, "finishedAt": finishedAt, "lateBy": lateBy, "done": done,
			"rejected": "0", "failed": "0", "operations": "0", "queuedAt": "", "waitsUntil": "", "restartedAt": "", "restarts": "0", "error": "",
		}}
		l, err := ReadBatchRow(row)
		if err != nil {
			return
		}
		again, err := ReadBatchRow(l.Row())
		if err != nil || again.Done != l.Done || !bytes.Equal(again.Tried, l.Tried) || again.State != l.State || again.LateBy != l.LateBy {
			t.Errorf("%+v is read back as %+v, %v", l, again, err)
		}
	})
}

// TestBatchRowFits checks that the largest row of a batch fits into a row.
func TestBatchRowFits(t *testing.T) {
	l := NewBatchRow(Details{ID: someBatch, Processor: "billing", Name: strings.Repeat("x", model.MaxName), Items: MaxItems, Parcels: MaxParcels, Chunks: 1, Partitions: 4, SubmittedAt: time.Unix(1, 0)})
	for range model.ParcelTries {
		l.Tried.Count(MaxParcels - 1)
	}
	if err := table.CheckWrites([]table.Write{{Verb: table.Replace, Row: l.Row(), If: "1"}}); err != nil {
		t.Error(err)
	}
	if again, err := ReadBatchRow(l.Row()); err != nil || !again.Tried.Has(ParcelID{MaxParcels - 1, model.ParcelTries - 1}) || again.Tried.Has(ParcelID{0, 0}) {
		t.Errorf("%d tries of the last parcel, %v", again.Tried.Of(MaxParcels-1), err)
	}
}

// TestResultsFit checks that the longest results of a parcel fit into a row.
func TestResultsFit(t *testing.T) {
	r := ResultRow{Done: model.ParcelItems, Packed: make([]byte, model.ParcelItems*(model.MaxResult+model.MaxItemID+16))}
	if err := table.CheckWrites([]table.Write{{Verb: table.Insert, Row: r.Row(someBatch)}}); err != nil {
		t.Error(err)
	}
	again, err := ReadResultRow(r.Row(someBatch))
	if err != nil || len(again.Packed) != len(r.Packed) {
		t.Errorf("%d bytes, %v, want %d", len(again.Packed), err, len(r.Packed))
	}
}

// TestBitSet compares the set with a map.
func TestBitSet(t *testing.T) {
	var s BitSet
	for _, n := range []int{0, 7, 8, 1000} {
		if s.Has(n) {
			t.Errorf("the set has %d", n)
		}
		s.Set(n)
		if !s.Has(n) || s.Has(n+1) {
			t.Errorf("the set has %d: %t, and %d: %t", n, s.Has(n), n+1, s.Has(n+1))
		}
	}
}

// TestResultsOfAnotherVersion checks that their format is an error, not a guess.
func TestResultsOfAnotherVersion(t *testing.T) {
	row := ResultRow{Done: 1}.Row(someBatch)
	row.Values["v"] = "2"
	if _, err := ReadResultRow(row); err == nil || !strings.Contains(err.Error(), `"1"`) {
		t.Errorf("error %v, want one that names the known version", err)
	}
}
