package parts

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/attempt"
)

// TestStarts: a function of OnStart that panics or ends its goroutine fails the
// start, and one that ignores the end of its context does not hold up the stop.
func TestStarts(t *testing.T) {
	type stop = func(context.Context) error
	for _, tt := range []struct {
		name  string
		start func(context.Context) (stop, error)
		want  error
		text  string // of the error
	}{
		{"panics", func(context.Context) (stop, error) { panic("no table") }, nil, "panic: no table\n"},
		{"ends its goroutine", func(context.Context) (stop, error) { runtime.Goexit(); return nil, nil }, attempt.ErrGoexit, ""},
		{"hangs", func(context.Context) (stop, error) { time.Sleep(time.Minute); return nil, nil }, context.Canceled, "has not returned 5s after"},
		{"ends with its context", func(ctx context.Context) (stop, error) { <-ctx.Done(); return nil, ctx.Err() }, context.Canceled, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Second, cancel)
				begun := time.Now()
				l := &life{begun: make(chan struct{}), starts: []func(context.Context) (func(context.Context) error, error){tt.start}}
				err := l.begin(ctx)
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(begun); took > 15*time.Second {
					t.Errorf("it took %v", took)
				}
				select {
				case <-l.begun:
					t.Error("the program has started")
				default:
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
