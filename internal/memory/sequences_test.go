package memory

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/storetest"
)

var errWire = errors.New("connection reset")

// TestFaults checks the result of a write and its effect under each fault.
func TestFaults(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	timedOut := context.DeadlineExceeded // of the caller, after a minute
	for _, tt := range []struct {
		name   string
		fault  Fault
		err    error
		answer time.Duration // when the call returns
		early  bool          // stored by then
		late   bool          // stored at the end
		end    time.Duration // when no request is in transit
	}{
		{"undisturbed", Fault{}, nil, 0, true, true, 0},
		{"slow", Fault{Delay: 2 * s, Back: s}, nil, 3 * s, true, true, 3 * s},
		{"refused", Fault{Delay: s, Err: errWire, Lost: true}, errWire, s, false, false, s},
		{"lost reply", Fault{Back: s, Err: errWire}, errWire, s, true, true, s},
		{"applied later", Fault{Back: s, Err: errWire, After: h}, errWire, s, false, true, h + s},
		{"caller gives up before the request arrives", Fault{Delay: h}, timedOut, m, false, true, h},
		{"caller gives up before the reply arrives", Fault{Back: h}, timedOut, m, true, true, m},
		{"caller of a lost request gives up", Fault{Delay: h, Err: errWire, Lost: true}, timedOut, m, false, false, m},
		{"no reply", Fault{Lost: true}, timedOut, m, false, false, m},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := NewSequences(&Options{Fault: func(Call) Fault { return tt.fault }})
				ctx, cancel := context.WithTimeout(t.Context(), m)
				defer cancel()
				start := time.Now()
				_, err := store.Replace(ctx, "orders", ids.Value{}, ids.Value{Text: "1001"})
				answer := time.Since(start)
				_, early := store.Get("orders")
				if !errors.Is(err, tt.err) || answer != tt.answer || early != tt.early {
					t.Errorf("after %v: %v, stored: %v; want after %v: %v, stored: %v", answer, err, early, tt.answer, tt.err, tt.early)
				}
				store.Wait()
				end := time.Since(start)
				if _, late := store.Get("orders"); late != tt.late || end != tt.end {
					t.Errorf("at the end, after %v, stored: %v; want after %v: %v", end, late, tt.end, tt.late)
				}
			})
		})
	}
}

// TestLateWrite checks that the version of a write is compared when it arrives,
// not when it is sent, so that a late write has no effect.
func TestLateWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewSequences(&Options{Fault: func(c Call) Fault {
			if c.N == 2 {
				return Fault{Err: errWire, After: time.Minute}
			}
			return Fault{}
		}})
		var first ids.Value
		for i, want := range []error{nil, errWire, nil} {
			mark, err := store.Replace(t.Context(), "orders", first, ids.Value{Text: strconv.Itoa(i + 1)})
			if !errors.Is(err, want) {
				t.Errorf("write %d: %v, want %v", i+1, err, want)
			}
			if i == 0 {
				first = mark
			}
		}
		store.Wait()
		if mark, _ := store.Get("orders"); mark.Text != "3" || store.Calls() != 3 || store.CallsOf("Load") != 0 {
			t.Errorf("stored %q after %d calls, want 3 after 3", mark.Text, store.Calls())
		}
	})
}

func TestMisuse(t *testing.T) {
	var problems []string
	store := NewSequences(&Options{OnMisuse: func(p string) { problems = append(problems, p) }})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var held ids.Value
	replace := func(ctx context.Context, old ids.Value, writer string) {
		if mark, err := store.Replace(ctx, "orders", old, ids.Mark{Text: "1", Writer: writer}.Value()); err == nil {
			held = mark
		}
	}
	for _, tt := range []struct {
		name string
		do   func()
		want int
	}{
		{"create", func() { replace(ctx, ids.Value{}, "a") }, 0},
		{"replace, and the same again", func() { old := held; replace(ctx, old, "b"); replace(ctx, old, "b") }, 0},
		{"no deadline", func() { store.Load(context.Background(), "orders", "") }, 1},
		{"a future version", func() { replace(ctx, ids.Value{Version: "77"}, "c") }, 1},
		{"a version that is not a number", func() { replace(ctx, ids.Value{Version: "abc"}, "c") }, 1},
		{"a writer's name twice", func() { replace(ctx, held, "a") }, 1},
	} {
		problems = nil
		if tt.do(); len(problems) != tt.want {
			t.Errorf("%s: reported %q, want %d problems", tt.name, problems, tt.want)
		}
	}
}

func TestSequences(t *testing.T) {
	store := NewSequences(nil)
	storetest.TestSequences(t, storetest.Sequences{Store: store, Delete: func(_ *testing.T, sequence string) { store.Delete(sequence) }})
}
