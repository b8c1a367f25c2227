package table_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/table"
)

var errReset = errors.New("connection reset by peer")

// Reads and writes are repeated until they are answered. A write's error is
// unclear unless the first try was answered.
func TestRetry(t *testing.T) {
	lost, replyLost := memory.Fault{Err: errReset, Lost: true}, memory.Fault{Err: errReset}
	refused, silent := memory.Fault{Err: table.ErrRefused, Lost: true}, memory.Fault{Lost: true}
	insert := func(ctx context.Context, t *table.Table) error {
		_, err := t.Submit(ctx, table.Write{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "a"}})
		return err
	}
	once := func(ctx context.Context, t *table.Table) error {
		_, err := t.SubmitOnce(ctx, table.Write{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "a"}})
		return err
	}
	get := func(ctx context.Context, t *table.Table) error { _, err := t.Get(ctx, "p", "a"); return err }
	query := func(ctx context.Context, t *table.Table) error {
		_, err := t.Query(ctx, table.Query{Partition: "p", Top: 1})
		return err
	}
	for _, tt := range []struct {
		name    string
		do      func(context.Context, *table.Table) error
		faults  []memory.Fault // of the first requests
		tries   int64
		want    error
		unclear bool
	}{
		{"insert", insert, nil, 1, nil, false},
		{"insert, refused", insert, []memory.Fault{refused}, 1, table.ErrRefused, false},
		{"insert, lost", insert, []memory.Fault{lost}, 2, nil, false},
		{"insert, no answer", insert, []memory.Fault{silent}, 2, nil, false},
		{"insert, reply lost", insert, []memory.Fault{replyLost}, 2, table.ErrExists, true},
		{"insert, lost and refused", insert, []memory.Fault{lost, refused}, 2, table.ErrRefused, true},
		{"insert, always lost", insert, []memory.Fault{lost, lost, lost, lost, lost}, 4, errReset, true},
		{"insert once, refused", once, []memory.Fault{refused}, 1, table.ErrRefused, false},
		{"insert once, lost", once, []memory.Fault{lost}, 1, errReset, true},
		{"get", get, nil, 1, table.ErrNotFound, false},
		{"get, lost", get, []memory.Fault{lost}, 2, table.ErrNotFound, false},
		{"get, lost and refused", get, []memory.Fault{lost, refused}, 2, table.ErrRefused, false},
		{"get, always lost", get, []memory.Fault{lost, lost, lost, lost, lost}, 4, errReset, false},
		{"query, lost", query, []memory.Fault{lost}, 2, nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(c memory.Call) memory.Fault {
				if int(c.N) <= len(tt.faults) {
					return tt.faults[c.N-1]
				}
				return memory.Fault{}
			}, OnMisuse: func(problem string) { t.Error(problem) }}})
			err := tt.do(t.Context(), open(t, store))
			if !errors.Is(err, tt.want) || errors.Is(err, table.ErrUnclear) != tt.unclear || store.Calls() != tt.tries {
				t.Errorf("%s: %v after %d tries, want %v after %d; unclear: %v", tt.name, err, store.Calls(), tt.want, tt.tries, tt.unclear)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := tt.do(ended, open(t, store)); !errors.Is(err, context.Canceled) || errors.Is(err, table.ErrUnclear) {
				t.Errorf("%s after the end of its context: %v, want %v alone", tt.name, err, context.Canceled)
			}
		})
	}
	if _, err := table.New(nil); err == nil {
		t.Error("New without a store succeeded")
	}
}

// A try without an answer leaves time for others before the deadline of the
// call, also for reading back a write that is sent once.
func TestTriesShareTheTime(t *testing.T) {
	for _, tt := range []struct {
		silent int64 // requests without an answer
		want   error // of the read
	}{
		{1, nil}, {3, nil}, {9, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			rows := open(t, memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(c memory.Call) memory.Fault {
				return memory.Fault{Lost: c.N <= tt.silent}
			}}}))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			_, err := rows.SubmitOnce(ctx, table.Write{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "a"}})
			_, _, readErr := rows.ReadBack(ctx, err, "p", "a")
			if took := time.Since(began); !errors.Is(err, table.ErrUnclear) || !errors.Is(readErr, tt.want) || took > 10*time.Second {
				t.Errorf("%d requests without an answer: %v, then %v after %v, want %v within 10 s", tt.silent, err, readErr, took, tt.want)
			}
		})
	}
}

// ReadBack makes no read if the outcome is certain. The error of a failed read
// is unclear only if the write's is.
func TestReadBack(t *testing.T) {
	exists := fmt.Errorf("insert: %w", table.ErrExists)
	for _, tt := range []struct {
		name    string
		write   error
		read    error // instead of the row; nil: the row
		found   bool
		want    error
		unclear bool
	}{
		{"refused", table.ErrRefused, errReset, false, table.ErrRefused, false},
		{"beyond the limits", table.ErrLimit, errReset, false, table.ErrLimit, false},
		{"unclear, refused later", table.Unclear(table.ErrRefused), nil, true, nil, false},
		{"lost, row exists", table.Unclear(errReset), nil, true, nil, false},
		{"lost, row missing", table.Unclear(errReset), table.ErrNotFound, false, nil, false},
		{"lost, read fails", table.Unclear(exists), table.ErrRefused, false, table.ErrRefused, true},
		{"answered, read fails", exists, table.ErrRefused, false, table.ErrRefused, false},
	} {
		store := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(c memory.Call) memory.Fault {
			if c.Op == "Get" && tt.read != nil {
				return memory.Fault{Err: tt.read, Lost: true}
			}
			return memory.Fault{}
		}}})
		rows := open(t, store)
		if _, err := rows.Submit(t.Context(), table.Write{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "a"}}); err != nil {
			t.Fatal(err)
		}
		row, found, err := rows.ReadBack(t.Context(), tt.write, "p", "a")
		if found != tt.found || found != (row.Key == "a") || !errors.Is(err, tt.want) || errors.Is(err, table.ErrUnclear) != tt.unclear {
			t.Errorf("%s: %+v, %v, %v, want %v, %v; unclear: %v", tt.name, row, found, err, tt.found, tt.want, tt.unclear)
		}
		if errors.Is(err, table.ErrExists) {
			t.Errorf("%s: the error wraps the answer to the write", tt.name)
		}
	}
}

func open(t *testing.T, store table.Store) *table.Table {
	t.Helper()
	rows, err := table.New(store)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
