package devstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"kennel/devstore"
	"kennel/internal/storetest"
)

// A process that holds 100,000 small rows in memory stays small.
func TestManyRows(t *testing.T) {
	storetest.OnlyInProve(t)
	const partitions, rows, bar = 100, 1000, 60
	cmd, connection := server(t, inMemory)
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	tables := connect(t, connection, nil).tables
	if _, err := tables.CreateTable(t.Context(), "rows", nil); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 140) // 200 bytes as JSON
	var all sync.WaitGroup
	for caller := range 4 {
		all.Go(func() {
			for partition := caller; partition < partitions; partition += 4 {
				for first := 0; first < rows; first += 100 {
					var group []aztables.TransactionAction
					for row := first; row < first+100; row++ {
						group = append(group, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd,
							Entity: fmt.Appendf(nil, `{"PartitionKey":"p%d","RowKey":"%06d","number":%d,"text":%q}`, partition, row, row, text)})
					}
					if _, err := tables.NewClient("rows").SubmitTransaction(t.Context(), group, nil); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	size := residentMiB(t, cmd.Process.Pid)
	for range 20 { // until the runtime has given back what it needed for the requests
		time.Sleep(200 * time.Millisecond)
		size = min(size, residentMiB(t, cmd.Process.Pid))
	}
	t.Logf("figure: resident memory of a process with 100,000 rows of 200 bytes | %.0f MiB | ≤ %d MiB", size, bar)
	if size > bar {
		t.Errorf("the process with %d rows needs %.0f MiB, want at most %d MiB", partitions*rows, size, bar)
	}
}

func residentMiB(t *testing.T, pid int) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip(err) // another system
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

// What was deleted, replaced, given away or has expired leaves nothing behind,
// neither in memory nor in the folder.
func TestChurn(t *testing.T) {
	storetest.OnlyInProve(t)
	for _, where := range []string{"memory", "folder"} {
		t.Run(where, func(t *testing.T) {
			seed := storetest.Seed(t)
			folder := ""
			if where == "folder" {
				folder = t.TempDir()
			}
			store, err := devstore.Open(folder, &devstore.Options{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			c := &churn{clients: connect(t, store.InProcess(), store), ctx: t.Context()}
			c.begin(t)
			rounds := 300
			if folder != "" {
				rounds = 90
			}
			var first, last int64
			for round := range rounds {
				if err := c.round(rand.New(rand.NewPCG(seed, uint64(round)))); err != nil {
					t.Fatal(err)
				}
				switch round {
				case rounds / 3:
					first = c.atRest(t)
				case rounds - 1:
					last = c.atRest(t)
				}
			}
			const slack = 512 << 10 // of the test itself
			t.Logf("figure: growth of memory over the second two thirds of a churn, in a %s (%d requests) | %.1f %% | ≤ 10 %%", where, c.requests.Load(), 100*float64(last-first)/float64(first))
			if last > first+first/10+slack {
				t.Errorf("the heap grew from %d to %d bytes", first, last)
			}
			if folder != "" {
				c.checkFolder(t, folder)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// atRest returns the size of the heap when what was to expire has expired.
func (c *churn) atRest(t *testing.T) int64 {
	t.Helper()
	time.Sleep(1100 * time.Millisecond)
	if err := c.round(rand.New(rand.NewPCG(1, 1))); err != nil {
		t.Error(err)
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// churn is a storage whose content is always about the same.
type churn struct {
	clients
	ctx      context.Context
	requests atomic.Int64
}

func (c *churn) begin(t *testing.T) {
	t.Helper()
	_, err1 := c.blobs.CreateContainer(c.ctx, "box", nil)
	_, err2 := c.queues.CreateQueue(c.ctx, "work", nil)
	_, err3 := c.queues.CreateQueue(c.ctx, "untouched", nil)
	_, err4 := c.tables.CreateTable(c.ctx, "rows", nil)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
}

// round writes, replaces and removes, with several callers.
func (c *churn) round(rng *rand.Rand) error {
	var all sync.WaitGroup
	errs := make([]error, 20)
	for n := range errs {
		text, key := strings.Repeat("x", rng.IntN(1000)), rng.IntN(100)
		all.Go(func() { errs[n] = c.use(n, key, text) })
	}
	all.Wait()
	_, err := c.queues.NewQueueClient("work").ClearMessages(c.ctx, nil)
	return errors.Join(append(errs, err, c.clear(c.tables.NewClient("rows")))...)
}

// use is one caller's part of a round.
func (c *churn) use(n, key int, text string) error {
	queue, rows := c.queues.NewQueueClient("work"), c.tables.NewClient("rows")
	var all []error
	did := func(_ any, err error) { c.requests.Add(1); all = append(all, err) }
	soon := &azqueue.EnqueueMessageOptions{TimeToLive: ptr(int32(1))}
	did(queue.EnqueueMessage(c.ctx, text, nil))
	did(queue.EnqueueMessage(c.ctx, text, soon))
	did(c.queues.NewQueueClient("untouched").EnqueueMessage(c.ctx, text, soon))
	got, err := queue.DequeueMessage(c.ctx, nil)
	did(nil, err)
	for _, m := range got.Messages {
		did(queue.DeleteMessage(c.ctx, *m.MessageID, *m.PopReceipt, nil))
	}
	did(rows.UpsertEntity(c.ctx, fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"%d","text":%q}`, key, text), nil))
	did(rows.UpsertEntity(c.ctx, fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"new-%d","text":%q}`, c.requests.Load()*100+int64(n), text), nil))
	did(c.blobs.UploadBuffer(c.ctx, "box", fmt.Sprintf("blob-%d", key), []byte(text), nil))
	// Some blocks are committed, others never.
	blob := c.blobs.ServiceClient().NewContainerClient("box").NewBlockBlobClient(fmt.Sprintf("blocks-%d", n))
	did(blob.StageBlock(c.ctx, "QUFBQQ==", streaming.NopCloser(strings.NewReader(text+"x")), nil))
	if n%2 == 0 {
		did(blob.CommitBlockList(c.ctx, []string{"QUFBQQ=="}, nil))
	}
	return errors.Join(all...)
}

// clear deletes the rows that have a name of their own.
func (c *churn) clear(rows *aztables.Client) error {
	for pages := rows.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: ptr("RowKey ge 'new'"), Select: ptr("PartitionKey,RowKey")}); pages.More(); {
		page, err := pages.NextPage(c.ctx)
		if err != nil {
			return err
		}
		for _, row := range page.Entities {
			_, after, _ := strings.Cut(string(row), `"RowKey":"`)
			key, _, _ := strings.Cut(after, `"`)
			c.requests.Add(1)
			if _, err := rows.DeleteEntity(c.ctx, "p", key, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *churn) checkFolder(t *testing.T, folder string) {
	t.Helper()
	var size int64
	err := filepath.WalkDir(folder, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const bar = 64
	t.Logf("figure: size of the folder after a churn (%d requests) | %.1f MiB | ≤ %d MiB", c.requests.Load(), float64(size)/(1<<20), bar)
	if size > bar<<20 {
		t.Errorf("the folder has %d bytes after %d requests", size, c.requests.Load())
	}
}

// Several callers get pages of large rows at once.
func TestLargePages(t *testing.T) {
	storetest.OnlyInProve(t)
	store := devstore.New(t, nil)
	tables := connect(t, store.ConnectionString(), nil).tables
	if _, err := tables.CreateTable(t.Context(), "rows", nil); err != nil {
		t.Fatal(err)
	}
	const rows = 100
	part := strings.Repeat("x", 31_000) // UTF-16 units, of which a property has 32 Ki at most
	for row := range rows {
		var entity bytes.Buffer
		fmt.Fprintf(&entity, `{"PartitionKey":"p","RowKey":"%03d"`, row)
		for n := range 8 {
			fmt.Fprintf(&entity, `,"part%d":%q`, n, part)
		}
		entity.WriteString("}")
		if _, err := tables.NewClient("rows").AddEntity(t.Context(), entity.Bytes(), nil); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			found := 0
			for pages := tables.NewClient("rows").NewListEntitiesPager(nil); pages.More(); {
				page, err := pages.NextPage(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				found += len(page.Entities)
			}
			if found != rows {
				t.Errorf("%d of %d rows are there", found, rows)
			}
		})
	}
	all.Wait()
}
