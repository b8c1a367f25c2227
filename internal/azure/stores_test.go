package azure

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

func openTables(t testing.TB, o *Options) *Tables {
	t.Helper()
	tables, err := Account{ConnectionString: storetest.Storage(t).ConnectionString()}.OpenTables(o)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// uniqueTable returns a name like storetest.Name, without the hyphen, which
// table names cannot have.
func uniqueTable() string { return strings.ReplaceAll(storetest.Name(), "-", "") }

func openTable(t testing.TB, tables *Tables, name string) *Table {
	t.Helper()
	table, err := NewTable(tables, name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTables(t *testing.T) {
	tables := openTables(t, nil)
	newTable := func(t *testing.T) table.Store { return openTable(t, tables, uniqueTable()) }
	storetest.TestTables(t, newTable)
}

func TestMain(m *testing.M) {
	os.Exit(storetest.Main(m))
}

func openBlobs(t *testing.T, o *Options) *Blobs {
	t.Helper()
	blobs, err := Account{ConnectionString: storetest.Storage(t).ConnectionString()}.OpenBlobs(o)
	if err != nil {
		t.Fatal(err)
	}
	return blobs
}

func TestValues(t *testing.T) {
	blobs := openBlobs(t, nil)
	storetest.TestValues(t, func(t *testing.T) storetest.Values {
		store := newValues(blobs, storetest.Name(), "text/plain", "numbers")
		set, remove := outsider(&store)
		return storetest.Values{Store: store, Set: set, Delete: remove}
	})
}

func TestSequences(t *testing.T) {
	store := NewSequences(openBlobs(t, nil), storetest.Name())
	_, remove := outsider(&store.Values)
	storetest.TestSequences(t, storetest.Sequences{Store: store, Delete: remove})
}

// TestCopies: a blob that was stored again long after it was written is a copy,
// until it is written again.
func TestCopies(t *testing.T) {
	store := NewSequences(openBlobs(t, nil), storetest.Name())
	var v ids.Value
	write := func(text string) {
		t.Helper()
		if _, err := store.Load(t.Context(), "orders", ""); err != nil { // from it the store knows the time
			t.Fatal(err)
		}
		var err error
		if v, err = store.Replace(t.Context(), "orders", v, ids.Value{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	load := func(want bool) {
		t.Helper()
		var err error
		if v, err = store.Load(t.Context(), "orders", ""); err != nil || ids.MarkOf(v).Copied != want {
			t.Fatalf("%+v, %v, want a copy: %t", v, err, want)
		}
	}
	write("1")
	load(false)
	written := v.WrittenAt
	for age, want := range map[time.Duration]bool{10 * time.Second: false, time.Minute: true} {
		text := strconv.FormatInt(written.Add(-age).Unix(), 10)
		if _, err := store.upload(t.Context(), "orders", v.Version, "1", map[string]*string{writtenKey: &text}); err != nil {
			t.Fatal(err)
		}
		load(want)
	}
	write("2")
	load(false)
}

func TestContainers(t *testing.T) {
	blobs := openBlobs(t, nil)
	storetest.TestContainers(t, func(t *testing.T) queue.Container { return NewContainer(blobs, storetest.Name()) })
}

func TestClaims(t *testing.T) {
	blobs, tables := openBlobs(t, nil), openTables(t, nil)
	storetest.TestClaims(t, func(t *testing.T) storetest.ClaimStores {
		return storetest.ClaimStores{Rows: openTable(t, tables, uniqueTable()), Blobs: NewContainer(blobs, storetest.Name())}
	})
}

// outsider returns functions that change the blobs of a container like another
// program.
func outsider(c *Values) (set func(t *testing.T, name, text string), remove func(t *testing.T, name string)) {
	set = func(t *testing.T, name, text string) {
		t.Helper()
		if err := c.create(t.Context()); err != nil {
			t.Fatal(err)
		}
		body := streaming.NopCloser(strings.NewReader(text))
		if _, err := c.container.NewBlockBlobClient(name).Upload(t.Context(), body, nil); err != nil {
			t.Fatal(err)
		}
	}
	remove = func(t *testing.T, name string) {
		t.Helper()
		if _, err := c.container.NewBlobClient(name).Delete(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	return set, remove
}

// If the write of a release is refused once, or is applied but reported as
// failed, Release still succeeds with exactly one release.
func TestReleaseThroughFailures(t *testing.T) {
	for name, fault := range failures {
		t.Run(name, func(t *testing.T) {
			proxy, account := throughProxy(t)
			store := NewGates(opened(t, account.OpenBlobs, nil), storetest.Name())
			if err := store.create(t.Context()); err != nil {
				t.Fatal(err)
			}
			fault.Operation, fault.Nth = "put", 1
			proxy.Add(fault)
			gates, err := gate.New(store, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := gates.Release(t.Context(), "start", gate.Change{By: "ann"})
			if err != nil || !got.Changed || got.State.Releases != 1 || len(got.State.History) != 1 {
				t.Errorf("release: %+v, %v, want one release by ann", got, err)
			}
		})
	}
}

func openQueues(t testing.TB, o *Options) *Queues {
	t.Helper()
	queues, err := Account{ConnectionString: storetest.Storage(t).ConnectionString()}.OpenQueues(o)
	if err != nil {
		t.Fatal(err)
	}
	return queues
}

func openOutbox(t testing.TB, queues *Queues, name string) *queue.Outbox {
	t.Helper()
	outbox, err := queue.NewOutbox(queues, name)
	if err != nil {
		t.Fatal(err)
	}
	return outbox
}

func TestQueues(t *testing.T) {
	queues := openQueues(t, nil)
	t.Run("Messages", func(t *testing.T) { storetest.TestQueues(t, queues) })
	t.Run("Outbox", func(t *testing.T) {
		storetest.TestOutbox(t, queues)
	})
	t.Run("Endless", func(t *testing.T) {
		name := storetest.Name()
		endless := openQueues(t, &Options{Endless: func(queue string) bool { return queue == name }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for queue, want := range map[string]bool{name: true, storetest.Name(): false} {
			m, err := endless.Put(ctx, queue, "hello", 0)
			if never := m.Expires.Year() == 9999; err != nil || never != want {
				t.Errorf("a message expires at %v, %v; never: %v", m.Expires, err, want)
			}
		}
	})
}

func TestNames(t *testing.T) {
	if outbox, err := queue.NewOutbox(openQueues(t, nil), "No_Queue"); err == nil {
		t.Errorf("opened %+v", outbox)
	}
	for _, name := range []string{"", "ab", "1abc", "a-b-c", "a_bc"} {
		if table, err := NewTable(openTables(t, nil), name); err == nil {
			t.Errorf("opened %+v", table)
		}
	}
}
