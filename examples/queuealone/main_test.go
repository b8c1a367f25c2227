package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/storetest"
	"kennel/queue"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestLetters sends messages, one of them too long for a message of storage, and
// works on them. The first attempt of each fails.
func TestLetters(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	storage := storetest.OwnStorage(t).ConnectionString()
	long := strings.Repeat("long letter ", 100_000)
	var out strings.Builder
	if err := run(ctx, storage, []string{"send", "hello", long}, &out); err != nil {
		t.Fatal(err)
	}
	if want := "sent hello\nsent " + long[:60] + "\n"; out.String() != want {
		t.Errorf("output %q, want %q", &out, want)
	}

	p, err := open(storage)
	if err != nil {
		t.Fatal(err)
	}
	life, stop := context.WithCancel(ctx)
	var mu sync.Mutex
	done := make(map[string]int64) // the number of the attempt that did it
	err = p.work(life, func(_ context.Context, d queue.Delivery[[]byte]) error {
		if d.Attempt == 1 {
			return errors.New("planned")
		}
		mu.Lock()
		defer mu.Unlock()
		if done[string(d.Body)] = d.Attempt; len(done) == 2 {
			stop()
		}
		return nil
	})
	if err != nil || ctx.Err() != nil {
		t.Fatalf("work: %v, %v", err, ctx.Err())
	}
	if done["hello"] != 2 || done[long] != 2 {
		t.Errorf("%d letters were done, %d and %d by the second attempts", len(done), done["hello"], done[long])
	}
	if n, err := p.queues.Count(ctx, name); n != 0 || err != nil {
		t.Errorf("%d messages are left, %v", n, err)
	}
}

func TestUsage(t *testing.T) {
	storage := storetest.Storage(t).ConnectionString()
	for _, args := range [][]string{nil, {"send"}, {"work", "now"}, {"other"}} {
		if err := run(t.Context(), storage, args, &strings.Builder{}); err == nil || !strings.HasPrefix(err.Error(), "usage: ") {
			t.Errorf("%q: %v, want the usage", args, err)
		}
	}
	if err := run(t.Context(), "", []string{"work"}, &strings.Builder{}); err == nil {
		t.Error("no error without a connection string")
	}
}
