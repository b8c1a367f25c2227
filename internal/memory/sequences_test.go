package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/storetest"
)

var errWire = errors.New("connection reset")

func TestFates(t *testing.T) {
	for _, test := range []struct {
		name    string
		fate    Fate
		timeout time.Duration
		err     error
		heard   time.Duration // when the caller hears
		early   bool          // stored when the caller hears
		late    bool          // stored in the end
		end     time.Duration // when nothing is under way any more
	}{
		{name: "undisturbed", timeout: time.Minute, early: true, late: true},
		{name: "slow", fate: Fate{Delay: 2 * time.Second, Back: time.Second}, timeout: time.Minute,
			heard: 3 * time.Second, early: true, late: true, end: 3 * time.Second},
		{name: "refused", fate: Fate{Delay: time.Second, Err: errWire, Lost: true}, timeout: time.Minute,
			err: errWire, heard: time.Second, end: time.Second},
		{name: "lost reply", fate: Fate{Back: time.Second, Err: errWire}, timeout: time.Minute,
			err: errWire, heard: time.Second, early: true, late: true, end: time.Second},
		{name: "straggler", fate: Fate{Back: time.Second, Err: errWire, After: time.Hour}, timeout: time.Minute,
			err: errWire, heard: time.Second, late: true, end: time.Hour + time.Second},
		{name: "caller leaves before the request arrives", fate: Fate{Delay: time.Hour}, timeout: time.Minute,
			err: context.DeadlineExceeded, heard: time.Minute, late: true, end: time.Hour},
		{name: "caller leaves before the reply arrives", fate: Fate{Back: time.Hour}, timeout: time.Minute,
			err: context.DeadlineExceeded, heard: time.Minute, early: true, late: true, end: time.Minute},
		{name: "caller leaves a lost request", fate: Fate{Delay: time.Hour, Err: errWire, Lost: true}, timeout: time.Minute,
			err: context.DeadlineExceeded, heard: time.Minute, end: time.Minute},
		{name: "silence", fate: Fate{Lost: true}, timeout: time.Minute,
			err: context.DeadlineExceeded, heard: time.Minute, end: time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := NewSequences(&Options{Fate: func(Call) Fate { return test.fate }})
				ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
				defer cancel()
				start := time.Now()
				_, err := store.Replace(ctx, "orders", ids.Mark{}, ids.Mark{Text: "1001"})
				if !errors.Is(err, test.err) {
					t.Errorf("caller hears %v, want %v", err, test.err)
				}
				if got := time.Since(start); got != test.heard {
					t.Errorf("caller hears after %v, want %v", got, test.heard)
				}
				if _, got := store.Get("orders"); got != test.early {
					t.Errorf("stored when the caller hears: %v, want %v", got, test.early)
				}
				store.Wait()
				if _, got := store.Get("orders"); got != test.late {
					t.Errorf("stored in the end: %v, want %v", got, test.late)
				}
				if got := time.Since(start); got != test.end {
					t.Errorf("under way for %v, want %v", got, test.end)
				}
			})
		})
	}
}

func TestNth(t *testing.T) {
	for _, test := range []struct {
		name string
		fate func(Call) Fate
		want string // left by three writes of which the second fails
	}{
		{"refused", RefuseNth(2, errWire), "1"},
		{"done but reported as failed", LoseReplyNth(2, errWire), "2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := NewSequences(&Options{Fate: test.fate})
			first, err := store.Replace(t.Context(), "orders", ids.Mark{}, ids.Mark{Text: "1"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = store.Replace(t.Context(), "orders", first, ids.Mark{Text: "2"}); !errors.Is(err, errWire) {
				t.Errorf("second write: %v, want %v", err, errWire)
			}
			mark, err := store.Load(t.Context(), "orders")
			if err != nil || mark.Text != test.want {
				t.Errorf("left %q, %v, want %q", mark.Text, err, test.want)
			}
			if got := [...]int64{store.Calls(), store.CallsOf("Load"), store.CallsOf("Replace")}; got != [...]int64{3, 1, 2} {
				t.Errorf("calls, loads and replaces are %v, want 3, 1, 2", got)
			}
		})
	}
}

// The version is judged when the request arrives, not when it is sent: a
// straggler whose state is gone changes nothing.
func TestStragglerIsJudgedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewSequences(&Options{Fate: func(c Call) Fate {
			if c.N == 2 {
				return Fate{Err: errWire, After: time.Minute}
			}
			return Fate{}
		}})
		first, err := store.Replace(t.Context(), "orders", ids.Mark{}, ids.Mark{Text: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Replace(t.Context(), "orders", first, ids.Mark{Text: "2"}); !errors.Is(err, errWire) {
			t.Errorf("straggler: %v, want %v", err, errWire)
		}
		if _, err := store.Replace(t.Context(), "orders", first, ids.Mark{Text: "3"}); err != nil {
			t.Error(err)
		}
		store.Wait()
		if mark, _ := store.Get("orders"); mark.Text != "3" {
			t.Errorf("left %q, want 3", mark.Text)
		}
	})
}

func TestPolice(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(ctx context.Context, store *Sequences, held ids.Mark)
		want int
	}{
		{"correct", func(ctx context.Context, store *Sequences, held ids.Mark) {
			store.Load(ctx, "orders")
			store.Replace(ctx, "orders", held, ids.Mark{Text: "2", Writer: "b"})
			store.Replace(ctx, "orders", held, ids.Mark{Text: "2", Writer: "b"}) // the same once more
		}, 0},
		{"no deadline", func(_ context.Context, store *Sequences, _ ids.Mark) {
			store.Load(context.Background(), "orders")
		}, 1},
		{"version made up", func(ctx context.Context, store *Sequences, _ ids.Mark) {
			store.Replace(ctx, "orders", ids.Mark{Version: "77"}, ids.Mark{Text: "2", Writer: "b"})
			store.Replace(ctx, "orders", ids.Mark{Version: "abc"}, ids.Mark{Text: "2", Writer: "b"})
		}, 2},
		{"writer's name twice", func(ctx context.Context, store *Sequences, held ids.Mark) {
			store.Replace(ctx, "orders", held, ids.Mark{Text: "2", Writer: "a"})
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var problems []string
			store := NewSequences(&Options{Police: func(p string) { problems = append(problems, p) }})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			held, err := store.Replace(ctx, "orders", ids.Mark{}, ids.Mark{Text: "1", Writer: "a"})
			if err != nil {
				t.Fatal(err)
			}
			test.do(ctx, store, held)
			if len(problems) != test.want {
				t.Errorf("reported %q, want %d problems", problems, test.want)
			}
		})
	}
}

func TestSequences(t *testing.T) {
	storetest.TestSequences(t, func(t *testing.T) storetest.Sequences {
		store := NewSequences(nil)
		return storetest.Sequences{
			Store:  store,
			Set:    func(_ *testing.T, sequence, text string) { store.Set(sequence, text) },
			Delete: func(_ *testing.T, sequence string) { store.Delete(sequence) },
		}
	})
}
