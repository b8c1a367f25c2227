package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/queue"
)

// TestContainers checks the contract of [queue.Container]. Each call of
// newContainer returns a container that does not exist yet.
func TestContainers(t *testing.T, newContainer func(t *testing.T) queue.Container) {
	for name, test := range map[string]func(*containerTest){
		"Absent": absentBlobs, "Contents": blobContents, "Isolation": blobIsolation, "Large": largeBlobs,
		"PutTogether": putTogether, "List": listBlobs, "Names": blobNames, "Cancelled": cancelledBlobs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			test(&containerTest{t, ctx, newContainer(t)})
		})
	}
}

// containerTest is one test with its container.
type containerTest struct {
	*testing.T
	ctx   context.Context
	blobs queue.Container
}

func (t *containerTest) put(name string, content []byte) {
	t.Helper()
	if err := t.blobs.Put(t.ctx, name, content); err != nil {
		t.Fatal(err)
	}
}

func (t *containerTest) holds(name string, want []byte) {
	t.Helper()
	got, err := t.blobs.Get(t.ctx, name, len(want))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("blob %.80q: got %d bytes, %v, want %d", name, len(got), err, len(want))
	}
}

func (t *containerTest) missing(name string) {
	t.Helper()
	if got, err := t.blobs.Get(t.ctx, name, 10); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("blob %.80q: got %q, %v, want ErrNotFound", name, got, err)
	}
}

func (t *containerTest) lists(max int, want ...string) {
	t.Helper()
	if got, err := t.blobs.List(t.ctx, max); err != nil || !slices.Equal(got, want) {
		t.Errorf("the first %d names: %q, %v, want %q", max, got, err, want)
	}
}

func absentBlobs(t *containerTest) {
	for range 2 { // without the container, and with it
		t.missing("a")
		t.lists(10)
		if err := t.blobs.Delete(t.ctx, "a"); err != nil {
			t.Errorf("delete what does not exist: %v", err)
		}
		t.put("b", nil)
		if err := t.blobs.Delete(t.ctx, "b"); err != nil {
			t.Error(err)
		}
	}
}

func blobContents(t *containerTest) {
	all := []byte{}
	for i := range 256 {
		all = append(all, byte(i))
	}
	for _, content := range [][]byte{all, {}, bytes.Repeat(all, 16<<10)} {
		t.put("a", content) // in place of the one before
		t.holds("a", content)
	}
}

func blobIsolation(t *containerTest) {
	mine := []byte("mine")
	t.put("a", mine)
	mine[0] = 'x'
	got, err := t.blobs.Get(t.ctx, "a", 4)
	if err != nil {
		t.Fatal(err)
	}
	got[1] = 'x'
	t.holds("a", []byte("mine"))
}

func largeBlobs(t *containerTest) {
	t.put("a", []byte("12345"))
	if got, err := t.blobs.Get(t.ctx, "a", 4); !errors.Is(err, queue.ErrLarge) {
		t.Errorf("got %q, %v, want ErrLarge", got, err)
	}
	t.holds("a", []byte("12345"))
}

// Several processes create the container together.
func putTogether(t *containerTest) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := t.blobs.Put(t.ctx, fmt.Sprint(i%4), []byte("x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.lists(10, "0", "1", "2", "3")
}

func listBlobs(t *containerTest) {
	for _, name := range []string{"2026-07-10-B", "2026-07-09-Z", "2026-07-10-A", "2025-12-31-A", "other"} {
		t.put(name, []byte("x"))
	}
	all := []string{"2025-12-31-A", "2026-07-09-Z", "2026-07-10-A", "2026-07-10-B", "other"}
	for _, max := range []int{1, 3, 5, 1000} {
		t.lists(max, all[:min(max, len(all))]...)
	}
	if err := t.blobs.Delete(t.ctx, all[0]); err != nil {
		t.Error(err)
	}
	t.lists(1, all[1])
}

func blobNames(t *containerTest) {
	for _, name := range []string{"", "a.", "a/", "a\x01", strings.Repeat("a", 1025)} {
		_, err := t.blobs.Get(t.ctx, name, 1)
		for op, err := range map[string]error{"put": t.blobs.Put(t.ctx, name, nil), "get": err, "delete": t.blobs.Delete(t.ctx, name)} {
			if err == nil || errors.Is(err, queue.ErrNotFound) {
				t.Errorf("%s %.20q: %v, want another error", op, name, err)
			}
		}
	}
}

func cancelledBlobs(t *containerTest) {
	t.put("a", []byte("x"))
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	_, got := t.blobs.Get(ctx, "a", 1)
	_, listed := t.blobs.List(ctx, 1)
	for op, err := range map[string]error{"put": t.blobs.Put(ctx, "b", nil), "get": got, "delete": t.blobs.Delete(ctx, "a"), "list": listed} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", op, err, context.Canceled)
		}
	}
	t.lists(10, "a")
}
