package azure

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

var largeMessages = flag.String("large-messages", "", "connection string and name of a queue: run as the worker of TestMemoryOfLargeMessages")

// TestMemoryOfLargeMessages publishes messages of 1 KB to 5 MB, and measures
// the resident memory of a process that works on them with default options. It
// does nothing but check each body, so it gets as many as it can hold.
func TestMemoryOfLargeMessages(t *testing.T) {
	storetest.OnlyInProve(t)
	const messages, limit = 500, 100
	if *largeMessages != "" {
		connection, name, _ := strings.Cut(*largeMessages, " ")
		workOnLargeMessages(t, connection, name, messages)
		return
	}
	connection, name := storetest.OwnStorage(t).ConnectionString(), storetest.Name()
	queues, claims := openClaims(t, connection, name)
	publisher, err := queue.NewPublisher(queues, nil)
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	var publishing sync.WaitGroup
	slots := make(chan struct{}, 8) // of bodies in this process
	for i := range messages {
		slots <- struct{}{}
		publishing.Go(func() {
			defer func() { <-slots }()
			body := largeBody(noise, i, messages)
			digest := sha256.Sum256(body)
			text, err := claims.Pack(t.Context(), queue.Envelope{ID: fmt.Sprintf("%d-%x", i, digest), Time: time.Now()}, body)
			if err == nil {
				err = publisher.Publish(t.Context(), name, text, 0)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	publishing.Wait()
	worker := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryOfLargeMessages$", "-test.v", "-large-messages="+connection+" "+name)
	output, err := worker.CombinedOutput()
	if err != nil {
		t.Fatalf("the worker failed: %v\n%s", err, output)
	}
	_, after, _ := bytes.Cut(output, []byte("peak KiB: "))
	var peak int
	if _, err := fmt.Sscan(string(after), &peak); err != nil {
		t.Fatalf("the worker reported no memory: %v\n%s", err, output)
	}
	t.Logf("figure: peak resident memory of a worker, %d messages of 1 KB to 5 MB | %d MiB | ≤ %d MiB", messages, peak>>10, limit)
	if peak>>10 > limit {
		t.Errorf("the worker took %d MiB, want at most %d", peak>>10, limit)
	}
}

// largeBody returns the i-th of n bodies, with lengths from 1 KB to 5 MB whose
// logarithms are uniform. Half of them cannot be compressed.
func largeBody(noise []byte, i, n int) []byte {
	size := int(1e3 * math.Pow(5e3, float64(i*7919%n)/float64(n-1)))
	if i%2 == 0 {
		return noise[i : i+size]
	}
	return bytes.Repeat(noise[i:i+(size+7)/8], 8)[:size]
}

func openClaims(t *testing.T, connection, name string) (*Queues, *queue.Claims) {
	t.Helper()
	account := Account{ConnectionString: connection}
	tables, blobs := opened(t, account.OpenTables, nil), opened(t, account.OpenBlobs, nil)
	rows, err := table.New(openTable(t, tables, strings.ReplaceAll(name, "-", "")))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := queue.NewClaims(rows, NewContainer(blobs, name))
	if err != nil {
		t.Fatal(err)
	}
	return opened(t, account.OpenQueues, nil), claims
}

// workOnLargeMessages works on the messages and prints the largest resident
// memory that the process had.
func workOnLargeMessages(t *testing.T, connection, name string, messages int) {
	queues, claims := openClaims(t, connection, name)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var mu sync.Mutex
	seen := make(map[string]bool)
	l, err := queue.NewListener(queues, []string{name}, queue.Packed{Claims: claims}, func(_ context.Context, d queue.Delivery[[]byte]) error {
		_, digest, _ := strings.Cut(d.ID, "-")
		if got := sha256.Sum256(d.Body); hex.EncodeToString(got[:]) != digest {
			t.Errorf("message %s has another body of %d bytes", d.ID, len(d.Body))
		}
		mu.Lock()
		defer mu.Unlock()
		if seen[d.ID] {
			t.Errorf("message %s was received twice", d.ID)
		}
		if seen[d.ID] = true; len(seen) == messages {
			stop()
		}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(ctx); err != nil {
		t.Error(err)
	}
	if s := l.State()[0]; len(seen) != messages || s.Done != int64(messages) {
		t.Errorf("%d of %d messages: %+v", len(seen), messages, s)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(peak, &kib); err != nil {
		t.Fatal(err)
	}
	fmt.Println("peak KiB:", kib)
}
