package azure

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"kennel/channels"
	"kennel/gate"
	"kennel/ids"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

func openTables(t testing.TB, o *Options) *Tables {
	t.Helper()
	tables, err := Account{ConnectionString: storetest.Azurite(t).ConnectionString()}.OpenTables(o)
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
	blobs, err := Account{ConnectionString: storetest.Azurite(t).ConnectionString()}.OpenBlobs(o)
	if err != nil {
		t.Fatal(err)
	}
	return blobs
}

func TestSequences(t *testing.T) {
	blobs := openBlobs(t, nil)
	storetest.TestSequences(t, func(t *testing.T) storetest.Sequences {
		store := NewSequences(blobs, storetest.Name())
		set, remove := outsider(&store.blobs)
		return storetest.Sequences{Store: store, Set: set, Delete: remove}
	})
}

// TestCopies: a blob that was stored again long after it was written is a copy,
// until it is written again.
func TestCopies(t *testing.T) {
	store := NewSequences(openBlobs(t, nil), storetest.Name())
	mark := ids.Mark{}
	write := func(text string) {
		t.Helper()
		if _, err := store.Load(t.Context(), "orders"); err != nil && !errors.Is(err, ids.ErrNotFound) {
			t.Fatal(err)
		}
		var err error
		if mark, err = store.Replace(t.Context(), "orders", mark, ids.Mark{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	load := func(want bool) (b casBlob) {
		t.Helper()
		var err1, err2 error
		mark, err1 = store.Load(t.Context(), "orders")
		b, err2 = store.blobs.read(t.Context(), "orders", "", 100)
		if err := errors.Join(err1, err2); err != nil || mark.Copied != want {
			t.Fatalf("%+v, %v, want a copy: %t", mark, err, want)
		}
		return b
	}
	write("1")
	b := load(false)
	written, err := strconv.ParseInt(metadata(b.metadata, writtenKey), 10, 64)
	if err != nil || b.modified.Sub(time.Unix(written, 0)).Abs() > 10*time.Second {
		t.Fatalf("written at %d, %v, stored at %v", written, err, b.modified)
	}
	for age, want := range map[int64]bool{10: false, 60: true} {
		text := strconv.FormatInt(written-age, 10)
		if _, err := store.blobs.replace(t.Context(), "orders", mark.Version, "1", map[string]*string{writtenKey: &text}); err != nil {
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
func outsider(c *casBlobs) (set func(t *testing.T, name, text string), remove func(t *testing.T, name string)) {
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

func TestGates(t *testing.T) {
	blobs := openBlobs(t, nil)
	storetest.TestGates(t, func(t *testing.T) storetest.Gates {
		store := NewGates(blobs, storetest.Name())
		set, remove := outsider(&store.blobs)
		return storetest.Gates{Store: store, Set: set, Delete: remove}
	})
}

// If the write of a release is refused once, or is applied but reported as
// failed, Release still succeeds with exactly one release.
func TestReleaseThroughFailures(t *testing.T) {
	for name, fault := range failures {
		t.Run(name, func(t *testing.T) {
			proxy, account := throughProxy(t)
			store := NewGates(opened(t, account.OpenBlobs, nil), storetest.Name())
			if err := store.blobs.create(t.Context()); err != nil {
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

// Without the service's clock a generation could be used twice, so Load returns
// an error.
func TestGateAnswerWithoutDate(t *testing.T) {
	account := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		refuse(404, "BlobNotFound")(w, r)
	})
	blobs := opened(t, account.OpenBlobs, nil)
	if f, err := NewGates(blobs, "globalflags").Load(t.Context(), "start", ""); err == nil {
		t.Errorf("loaded %+v, want an error", f)
	}
}

func openQueues(t testing.TB, o *Options) *Queues {
	t.Helper()
	queues, err := Account{ConnectionString: storetest.Azurite(t).ConnectionString()}.OpenQueues(o)
	if err != nil {
		t.Fatal(err)
	}
	return queues
}

func openOutbox(t testing.TB, queues *Queues, name string) *Outbox {
	t.Helper()
	outbox, err := NewOutbox(queues, name)
	if err != nil {
		t.Fatal(err)
	}
	return outbox
}

func TestQueues(t *testing.T) {
	queues := openQueues(t, nil)
	t.Run("Messages", func(t *testing.T) { storetest.TestQueues(t, queues) })
	t.Run("Outbox", func(t *testing.T) {
		storetest.TestOutbox(t, queues, func(name string) channels.Outbox { return openOutbox(t, queues, name) })
	})
}

func TestNames(t *testing.T) {
	if outbox, err := NewOutbox(openQueues(t, nil), "No_Queue"); err == nil {
		t.Errorf("opened %+v", outbox)
	}
	for _, name := range []string{"", "ab", "1abc", "a-b-c", "a_bc"} {
		if table, err := NewTable(openTables(t, nil), name); err == nil {
			t.Errorf("opened %+v", table)
		}
	}
}
