package devstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"kennel/devstore"
	"kennel/internal/storetest"
)

// asServer makes this test binary a program that serves the storage in a
// folder, prints its connection string and waits until it is killed.
const asServer = "DEVSTORE_TEST_FOLDER"

// inMemory stands for no folder.
const inMemory = "(memory)"

func TestMain(m *testing.M) {
	folder := os.Getenv(asServer)
	if folder == "" {
		os.Exit(m.Run())
	}
	store, err := devstore.Open(strings.TrimPrefix(folder, inMemory), &devstore.Options{Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = fmt.Println(store.ConnectionString())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test has ended
}

// server starts the program above, and returns its connection string.
func server(t *testing.T, folder string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asServer+"="+folder)
	cmd.Stderr = os.Stderr
	_, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server of %s does not start: %v", folder, err)
	}
	return cmd, strings.TrimSpace(line)
}

// acknowledged is what the storage has said yes to.
type acknowledged struct {
	mu       sync.Mutex
	blobs    map[string]string
	messages map[string]bool // true: was deleted
	groups   map[string]bool // rows p/0 to p/9 of one transaction
	changes  int             // how many of them there were
}

func (a *acknowledged) do(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes++
	change()
}

// write writes until the server is gone.
func (a *acknowledged) write(ctx context.Context, c clients, name string) {
	queue, rows, box := c.queues.NewQueueClient("work"), c.tables.NewClient("rows"), "box"
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("%s-%d", name, i)
		if _, err := c.blobs.UploadBuffer(ctx, box, "blob-"+name, []byte(id), nil); err != nil {
			return
		}
		a.do(func() { a.blobs["blob-"+name] = id })
		put, err := queue.EnqueueMessage(ctx, id, nil)
		if err != nil {
			return
		}
		a.do(func() { a.messages[id] = false })
		if i%2 == 0 {
			a.do(func() { delete(a.messages, id) }) // undecided until the answer
			if _, err := queue.DeleteMessage(ctx, *put.Messages[0].MessageID, *put.Messages[0].PopReceipt, nil); err != nil {
				return
			}
			a.do(func() { a.messages[id] = true })
		}
		var group []aztables.TransactionAction
		for row := range 10 {
			group = append(group, aztables.TransactionAction{
				ActionType: aztables.TransactionTypeAdd, Entity: fmt.Appendf(nil, `{"PartitionKey":%q,"RowKey":"%d"}`, id, row),
			})
		}
		if _, err := rows.SubmitTransaction(ctx, group, nil); err != nil {
			return
		}
		a.do(func() { a.groups[id] = true })
	}
}

// check reads all from the storage and compares.
func (a *acknowledged) check(t *testing.T, c clients) {
	t.Helper()
	ctx := t.Context()
	for name, want := range a.blobs {
		answer, err := c.blobs.DownloadStream(ctx, "box", name, nil)
		if err != nil {
			t.Fatalf("blob %s: %v", name, err)
		}
		text, err := io.ReadAll(answer.Body)
		// The write that the kill interrupted may have been done.
		var number, wanted int
		_, err1 := fmt.Sscanf(string(text[strings.LastIndexByte(string(text), '-')+1:]), "%d", &number)
		_, err2 := fmt.Sscanf(want[strings.LastIndexByte(want, '-')+1:], "%d", &wanted)
		if errors.Join(err, err1, err2, answer.Body.Close()) != nil || number < wanted || number > wanted+1 {
			t.Errorf("blob %s is %q, acknowledged was %q", name, text, want)
		}
	}
	there := make(map[string]bool)
	queue := c.queues.NewQueueClient("work")
	for {
		got, err := queue.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: ptr(int32(32)), VisibilityTimeout: ptr(int32(1000))})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Messages) == 0 {
			break
		}
		for _, m := range got.Messages {
			there[*m.MessageText] = true
		}
	}
	for id, deleted := range a.messages {
		if there[id] == deleted {
			t.Errorf("message %s: there is %t, deleted is %t", id, there[id], deleted)
		}
	}
	rows := make(map[string]int)
	for pages := c.tables.NewClient("rows").NewListEntitiesPager(nil); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Entities {
			_, rest, _ := strings.Cut(string(row), `"PartitionKey":"`)
			id, _, _ := strings.Cut(rest, `"`)
			rows[id]++
		}
	}
	for id, n := range rows {
		if n != 10 {
			t.Errorf("of the transaction %s, %d of 10 rows are there", id, n)
		}
	}
	for id := range a.groups {
		if rows[id] == 0 {
			t.Errorf("the transaction %s is lost", id)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// A process that is killed while it is written to loses nothing that it
// acknowledged, and keeps no part of a transaction.
func TestKilled(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	folder := t.TempDir()
	kept := acknowledged{blobs: make(map[string]string), messages: make(map[string]bool), groups: make(map[string]bool)}
	rounds := storetest.Scale(6, 200)
	for round := range rounds {
		cmd, connection := server(t, folder)
		c := connect(t, connection, nil)
		if round == 0 {
			_, err1 := c.blobs.CreateContainer(t.Context(), "box", nil)
			_, err2 := c.queues.CreateQueue(t.Context(), "work", nil)
			_, err3 := c.tables.CreateTable(t.Context(), "rows", nil)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
		}
		var writers sync.WaitGroup
		for writer := range 8 {
			writers.Go(func() { kept.write(t.Context(), c, fmt.Sprintf("%d-%d", round, writer)) })
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond) // anywhere
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		writers.Wait()
		_ = cmd.Wait() // it was killed
		kept.checkAgain(t, folder)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	t.Logf("figure: acknowledged writes that a kill lost, and transactions in part (%d kills, %d writes) | 0 | 0", rounds, kept.changes)
}

// checkAgain opens the folder in this process, and checks what is there. Every
// tenth time it begins with less, so that a run does not slow down.
func (a *acknowledged) checkAgain(t *testing.T, folder string) {
	t.Helper()
	store, err := devstore.Open(folder, &devstore.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, store.InProcess(), store)
	a.check(t, c)
	clear(a.messages)
	if _, err := c.queues.NewQueueClient("work").ClearMessages(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if len(a.groups) > 500 {
		_, err1 := c.tables.DeleteTable(t.Context(), "rows", nil)
		_, err2 := c.tables.CreateTable(t.Context(), "rows", nil)
		_, err3 := c.blobs.DeleteContainer(t.Context(), "box", nil)
		_, err4 := c.blobs.CreateContainer(t.Context(), "box", nil)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Error(err)
		}
		clear(a.groups)
		clear(a.blobs)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
