package work_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/azure"
	"kennel/internal/storetest"
	"kennel/queue"
	"kennel/work"
)

// onStorage returns stores in an account, whose tables and containers have
// names that begin with prefix.
func onStorage(t testing.TB, connection, prefix string) stores {
	t.Helper()
	account := azure.Account{ConnectionString: connection}
	tables, err := account.OpenTables(nil)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := account.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := account.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	newTable := func(name string) *azure.Table {
		name = strings.ReplaceAll(prefix+name, "-", "")
		rows, err := azure.NewTable(tables, name)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	return stores{
		rows: newTable("batches"), claimRows: newTable("claims"), queues: queues, peeker: queues,
		staging: azure.NewContainer(blobs, prefix+"-staging"), reports: azure.NewContainer(blobs, prefix+"-reports"),
		claimBlobs: azure.NewContainer(blobs, prefix+"-claims"),
	}
}

// generated returns the items of a batch as they are read, one by one.
func generated(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		out := bufio.NewWriter(w)
		encoder := json.NewEncoder(out)
		for i := range n {
			_ = encoder.Encode(item{ID: fmt.Sprint("transaction-", i), Amount: int64(i % 1000), Pad: noise[i*7%len(noise)/2:][:60]})
		}
		_ = out.Flush()
		_ = w.Close()
	}()
	return r
}

func sumTo(n int) (sum int64) {
	for i := range n {
		sum += int64(i % 1000)
	}
	return sum
}

// runBatch submits a batch and works until it is done.
func runBatch(t testing.TB, s stores, items, hands int) {
	t.Helper()
	batches, _ := open(t, s, &sums{quiet: true}, nil)
	submitted, _, err := batches.Submit(t.Context(), work.Submission{Processor: processor, Body: generated(items)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l := listen(t, batches, s.queues, &queue.ListenerOptions{Hands: hands, MaxIdle: time.Second})
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	b := submitted
	for began := time.Now(); b.State != work.Done; time.Sleep(20 * time.Millisecond) {
		if b, err = batches.Get(t.Context(), submitted.ID); err != nil || time.Since(began) > 5*time.Minute {
			t.Fatalf("batch %+v, %v", b, err)
		}
	}
	stop()
	running.Wait()
	report, err := batches.Report(t.Context(), b.ID, false)
	var got total
	if err != nil || json.Unmarshal(report, &got) != nil || got.Amount != sumTo(items) || got.Done != items {
		t.Errorf("report %s, %v, want the sum %d of %d items", report, err, sumTo(items), items)
	}
}

// TestStorage processes a batch on storage.
func TestStorage(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	runBatch(t, onStorage(t, storetest.OwnStorage(t).ConnectionString(), storetest.Name()), 3_000, 32)
}

// BenchmarkAzurite compares a batch with a loop that puts one message for each
// item, receives 32 at a time, processes and deletes them, on the same Azurite.
func BenchmarkAzurite(b *testing.B) {
	const items, single = 20_000, 600
	s := onStorage(b, storetest.OwnStorage(b).ConnectionString(), storetest.Name())
	runBatch(b, s, 200, 32) // creates tables, containers and queues
	for b.Loop() {
		loop := seconds(func() { runSingly(b, s.queues, single) }) / single
		ours := seconds(func() { runBatch(b, s, items, 32) }) / items
		b.Logf("figure: items submitted, processed and reported on Azurite (%.0f/s here) | %.0f × the rate of a loop with one message for each item | ≥ 20 ×", 1/ours, loop/ours)
	}
}

// runSingly processes items that are a message each.
func runSingly(t testing.TB, queues queue.Store, items int) {
	t.Helper()
	p := &sums{quiet: true}
	name := storetest.Name()
	slots := make(chan struct{}, 16)
	var running sync.WaitGroup
	do := func(one func() error) {
		slots <- struct{}{}
		running.Go(func() {
			if err := one(); err != nil {
				t.Error(err)
			}
			<-slots
		})
	}
	lines := bufio.NewScanner(generated(items))
	for lines.Scan() {
		body := lines.Text()
		do(func() error {
			_, err := queues.Put(t.Context(), name, body, 0)
			return err
		})
	}
	running.Wait()
	report := p.NewReport("")
	for received := 0; received < items && !t.Failed(); {
		messages, err := queues.Receive(t.Context(), name, 32, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			received++
			var i item
			err := json.Unmarshal([]byte(m.Body), &i)
			result, err2 := p.Process(t.Context(), work.Item{ID: i.ID, Data: []byte(m.Body)})
			if err3 := report.Add(work.Result{ID: i.ID, Outcome: work.ItemDone, Result: result}); err != nil || err2 != nil || err3 != nil {
				t.Fatal(err, err2, err3)
			}
			do(func() error { return queues.Delete(t.Context(), name, m) })
		}
	}
	running.Wait()
	if _, err := report.JSON(); err != nil {
		t.Fatal(err)
	}
}

var inMemory = flag.String("memory-of-batch", "", "connection string and prefix of names: run as the process of TestMemory")

// TestMemory measures the resident memory of a process that submits a batch of
// 100,000 items and works on it, on storage.
func TestMemory(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	const items, limit = 100_000, 100
	if *inMemory != "" {
		connection, prefix, _ := strings.Cut(*inMemory, " ")
		runBatch(t, onStorage(t, connection, prefix), items, 16)
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
		return
	}
	connection := storetest.OwnStorage(t).ConnectionString()
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemory$", "-test.v", "-memory-of-batch="+connection+" "+storetest.Name())
	output, err := process.CombinedOutput()
	if err != nil {
		t.Fatalf("the process failed: %v\n%s", err, output)
	}
	_, after, _ := bytes.Cut(output, []byte("peak KiB: "))
	var peak int
	if _, err := fmt.Sscan(string(after), &peak); err != nil {
		t.Fatalf("the process reported no memory: %v\n%s", err, output)
	}
	t.Logf("figure: peak resident memory of a process that submits and processes %d items | %d MiB | ≤ %d MiB", items, peak>>10, limit)
	if peak>>10 > limit {
		t.Errorf("the process took %d MiB, want at most %d", peak>>10, limit)
	}
}
