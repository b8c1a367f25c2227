package instances

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// readBy reads the reports with a reader that other calls use as well.
func readBy(t *testing.T, r *Reader, rows table.Querier, parts ...Part) Directory {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := r.Read(ctx, rows, parts...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRowsAreDecodedOnce counts the lists that a reader decodes.
func TestRowsAreDecodedOnce(t *testing.T) {
	section := func(name string, isLong bool) (*Section[[]int], *atomic.Int64) {
		var n atomic.Int64
		return List(name, &Items[int]{IsLong: isLong, Parse: func(list []byte) (all []int, err error) {
			n.Add(1)
			return all, json.Unmarshal(list, &all)
		}}), &n
	}
	short, ofShort := section("short", false)
	long, ofLong := section("long", true)
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		write := func(name string, value int) {
			r := Report{Process: Process{Instance: name}, At: time.Now().UTC()}
			short.Add(&r, []int{value})
			long.Add(&r, []int{value})
			put(t, rows, r)
		}
		for i := range 5 {
			write(fmt.Sprint("p", i), i)
		}
		var r Reader
		check := func(when string, wantShort, wantLong int64, wantKept int) {
			t.Helper()
			r.mu.Lock()
			kept := len(r.rows)
			r.mu.Unlock()
			if short, long := ofShort.Load(), ofLong.Load(); short != wantShort || long != wantLong || kept != wantKept {
				t.Errorf("%s: decoded %d short and %d long lists, and kept %d rows, want %d, %d and %d", when, short, long, kept, wantShort, wantLong, wantKept)
			}
		}
		for range 3 {
			readBy(t, &r, rows, short)
		}
		check("three calls", 5, 0, 5)
		readBy(t, &r, rows, long)
		readBy(t, &r, rows, long)
		check("two calls for other lists", 5, 10, 5)
		readBy(t, &r, rows, short, Problems)
		check("a call for more", 5, 10, 5)

		time.Sleep(time.Second)
		write("p3", 33)
		d := readBy(t, &r, rows, short)
		check("a row is written", 6, 10, 5)
		for i, want := range []int{0, 1, 2, 33, 4} {
			if got := short.Of(d.Live[i].Report); !slices.Equal(got, []int{want}) {
				t.Errorf("%s has %v, want %d", d.Live[i].Instance, got, want)
			}
		}
		if _, err := table.Store(rows).Submit(within(t), remove(table.Row{Partition: partition, Key: "p0"}, table.AnyVersion)); err != nil {
			t.Fatal(err)
		}
		readBy(t, &r, rows)
		check("a row is removed", 6, 10, 4)
		time.Sleep(renewEvery - time.Second)
		readBy(t, &r, rows, short)
		check("a call in time", 6, 10, 4)
		time.Sleep(renewEvery + time.Second)
		check("no call for long", 6, 10, 0)
		readBy(t, &r, rows, short)
		check("a late call", 10, 10, 4)
	})
}

// TestKeptRows: what a reader returns does not depend on its calls before, while
// processes write, end and return, also with wrong clocks.
func TestKeptRows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := append(all(), HighestSection)
	some := func() []Part {
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		return slices.Clone(parts[:random.IntN(len(parts)+1)])
	}
	inBubble(t, memory.Options{}, func(t *testing.T, memoryRows *memory.Table) {
		rows := memory.ClockOff{Table: memoryRows, By: time.Hour}
		var r Reader
		for i := range storetest.Scale(100, 200) {
			name := fmt.Sprint("p", random.IntN(8))
			switch random.IntN(5) {
			case 0:
				time.Sleep(time.Duration(random.IntN(int(LiveFor))))
			case 1:
				_, _ = rows.Submit(within(t), remove(table.Row{Partition: partition, Key: name}, table.AnyVersion)) // there may be none
			default:
				time.Sleep(time.Millisecond) // no process makes two reports at once
				one := full(name, random.IntN(4))
				one.At = one.At.Add(time.Duration(random.IntN(2)) * time.Hour)
				written, err := row(one)
				if err != nil {
					t.Fatal(err)
				}
				if random.IntN(10) == 0 {
					written.Values["gates"] = "{"
				}
				putRow(t, rows, written)
			}
			var reading sync.WaitGroup
			for range 3 {
				parts := some()
				reading.Go(func() { readBy(t, &r, rows, parts...) })
			}
			reading.Wait()
			parts := some()
			want, got := readBy(t, new(Reader), rows, parts...), readBy(t, &r, rows, parts...)
			if want.ReadAt != got.ReadAt || want.Unreadable != got.Unreadable || namesOf(want.Live) != namesOf(got.Live) || namesOf(want.Gone) != namesOf(got.Gone) {
				t.Fatalf("%d: %+v, want %+v", i, got, want)
			}
			for n, want := range append(want.Live, want.Gone...) {
				got := append(got.Live, got.Gone...)[n]
				if diff := diff(want.Report, got.Report) + cmp.Diff(HighestSection.Of(want.Report), HighestSection.Of(got.Report)); diff != "" || want.SeenAt != got.SeenAt {
					t.Fatalf("%d: a new reader (-), this reader (+):\n%s", i, diff)
				}
			}
		}
	})
}

// TestHighest: a digest has what the list has.
func TestHighest(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		want := full("p", 3)
		put(t, rows, want)
		put(t, rows, full("q", 0))
		d := readBy(t, new(Reader), rows, HighestSection, SequenceSection)
		for i, n := range []int{3, 0} {
			sequences, highest := SequenceSection.Of(d.Live[i].Report), HighestSection.Of(d.Live[i].Report)
			if len(sequences) != n || len(highest) != n {
				t.Fatalf("%d sequences and %d in the digest, want %d", len(sequences), len(highest), n)
			}
			for i, s := range sequences {
				if (highest[i] != Highest{s.Name, s.Highest}) {
					t.Errorf("%+v, want that of %+v", highest[i], s)
				}
			}
		}
	})
}

// TestKeptMemory measures what a reader keeps of a large app whose status names
// unusable sequences, and for which metrics are read as often.
func TestKeptMemory(t *testing.T) {
	const sequences = 100
	crowd := storetest.Scale(150, 500)
	limit := 6 * float64(crowd) / 500
	rows := memory.NewTable(nil)
	for i := range crowd {
		put(t, rows, full(fmt.Sprintf("p%03d", i), sequences))
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // also what a pool held
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / 1e6
	}
	var r Reader
	before := heap()
	readBy(t, &r, rows, Problems, QueueSection, RunningSection)
	readBy(t, &r, rows, HighestSection)
	ofStatus := heap() - before
	readBy(t, &r, rows, all()...)
	ofAll := heap() - before
	if r.forget(); ofAll > limit {
		t.Errorf("a reader keeps %.1f MB, want at most %.1f", ofAll, limit)
	}
	t.Logf("figure: memory that a reader of the status, and of all, keeps of %d instances with %d sequences each | %.1f, %.1f MB | ≤ 4, 6 MB", crowd, sequences, ofStatus, ofAll)
	if left := heap() - before; left > 1 {
		t.Errorf("a reader that forgot keeps %.1f MB", left)
	}
	runtime.KeepAlive(rows)
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
