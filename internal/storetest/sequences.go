package storetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/ids"
)

// Sequences is a store under test, together with the hands of an outsider who
// reaches past it.
type Sequences struct {
	ids.Store
	Set    func(t *testing.T, sequence, text string) // stores a text without metadata, as other programs do
	Delete func(t *testing.T, sequence string)
}

// TestSequences checks everything that [ids.Store] promises. Each call of
// newStore returns an empty store of which not even a container exists.
func TestSequences(t *testing.T, newStore func(t *testing.T) Sequences) {
	for _, test := range []struct {
		name string
		run  func(*sequenceTest)
	}{
		{"Absent", absent},
		{"Create", create},
		{"CreateTwice", createTwice},
		{"CreateTogether", createTogether},
		{"Replace", replace},
		{"StaleVersion", staleVersion},
		{"SameText", sameText},
		{"Metadata", metadataRoundTrip},
		{"Text", textRoundTrip},
		{"LongText", longText},
		{"Refused", refused},
		{"Names", sequenceNames},
		{"Independence", independence},
		{"Outsider", outsider},
		{"DeletedUnderHolder", deletedUnderHolder},
		{"Contention", contention},
		{"Cancelled", cancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			test.run(&sequenceTest{T: t, ctx: ctx, store: newStore(t)})
		})
	}
}

// sequenceTest is one test with its store.
type sequenceTest struct {
	*testing.T
	ctx   context.Context
	store Sequences
}

// load returns what is stored, which must be something.
func (t *sequenceTest) load(sequence string) ids.Mark {
	t.Helper()
	mark, err := t.store.Load(t.ctx, sequence)
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

// replace must succeed, and return what was written under a version.
func (t *sequenceTest) replace(sequence string, old, next ids.Mark) ids.Mark {
	t.Helper()
	got, err := t.store.Replace(t.ctx, sequence, old, next)
	if err != nil {
		t.Fatal(err)
	}
	if got.Version == "" || got.Version == old.Version {
		t.Fatalf("replace returned version %q after %q", got.Version, old.Version)
	}
	next.Version = got.Version
	if diff := cmp.Diff(got, next); diff != "" {
		t.Fatalf("replace returned (-) something else than was written (+):\n%s", diff)
	}
	return got
}

// unchanged says that replacing old fails with want and changes nothing.
func (t *sequenceTest) unchanged(sequence string, old, next ids.Mark, want error) {
	t.Helper()
	before := t.load(sequence)
	if _, err := t.store.Replace(t.ctx, sequence, old, next); !errors.Is(err, want) {
		t.Errorf("replace version %q: %v, want %v", old.Version, err, want)
	}
	t.holds(sequence, before)
}

func (t *sequenceTest) holds(sequence string, want ids.Mark) {
	t.Helper()
	if diff := cmp.Diff(t.load(sequence), want); diff != "" {
		t.Errorf("stored (-), want (+):\n%s", diff)
	}
}

func (t *sequenceTest) missing(sequence string) {
	t.Helper()
	if mark, err := t.store.Load(t.ctx, sequence); !errors.Is(err, ids.ErrNotFound) {
		t.Errorf("load %.80q: %+v, %v, want %v", sequence, mark, err, ids.ErrNotFound)
	}
}

func absent(t *sequenceTest) {
	t.missing("orders") // without a container
	t.replace("others", ids.Mark{}, ids.Mark{Text: "1"})
	t.missing("orders") // with one
	_, err := t.store.Replace(t.ctx, "orders", ids.Mark{Text: "1", Version: t.load("others").Version}, ids.Mark{Text: "2"})
	if !errors.Is(err, ids.ErrChanged) {
		t.Errorf("replace what is absent: %v, want %v", err, ids.ErrChanged)
	}
	t.missing("orders")
}

func create(t *sequenceTest) {
	made := t.replace("orders", ids.Mark{}, ids.Mark{Text: "1001", Writer: "a-1", Floor: "1"})
	t.holds("orders", made)
}

func createTwice(t *sequenceTest) {
	t.replace("orders", ids.Mark{}, ids.Mark{Text: "1001", Writer: "a-1"})
	t.unchanged("orders", ids.Mark{}, ids.Mark{Text: "1001", Writer: "b-1"}, ids.ErrChanged)
	t.unchanged("orders", ids.Mark{}, ids.Mark{Text: "1001", Writer: "a-1"}, ids.ErrChanged) // an echo of the first
}

func createTogether(t *sequenceTest) {
	const nodes = 16
	var mu sync.Mutex
	var winners []ids.Mark
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			mark, err := t.store.Replace(t.ctx, "orders", ids.Mark{}, ids.Mark{Text: "1001", Writer: strconv.Itoa(i)})
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, mark)
			} else if !errors.Is(err, ids.ErrChanged) {
				t.Errorf("create: %v, want success or %v", err, ids.ErrChanged)
			}
		})
	}
	wg.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d of %d created the sequence, want 1", len(winners), nodes)
	}
	t.holds("orders", winners[0])
}

func replace(t *sequenceTest) {
	mark := ids.Mark{}
	versions := make(map[string]bool)
	for _, text := range []string{"1001", "2001", "1500", "3001"} { // also back, when a tail is returned
		mark = t.replace("orders", mark, ids.Mark{Text: text, Writer: "w" + text})
		t.holds("orders", mark)
		if versions[mark.Version] {
			t.Errorf("version %q came twice", mark.Version)
		}
		versions[mark.Version] = true
	}
}

func staleVersion(t *sequenceTest) {
	first := t.replace("orders", ids.Mark{}, ids.Mark{Text: "1001"})
	second := t.replace("orders", first, ids.Mark{Text: "2001"})
	t.unchanged("orders", first, ids.Mark{Text: "2001"}, ids.ErrChanged)
	// What was there once is there again, under a version of its own.
	t.replace("orders", second, ids.Mark{Text: "1001"})
	t.unchanged("orders", first, ids.Mark{Text: "2001"}, ids.ErrChanged)
	t.unchanged("orders", second, ids.Mark{Text: "2001"}, ids.ErrChanged)
}

func sameText(t *sequenceTest) {
	first := t.replace("orders", ids.Mark{}, ids.Mark{Text: "1001", Writer: "a"})
	t.replace("orders", first, ids.Mark{Text: "1001", Writer: "a"})
	t.unchanged("orders", first, ids.Mark{Text: "2001"}, ids.ErrChanged)
}

func metadataRoundTrip(t *sequenceTest) {
	mark := ids.Mark{}
	for _, next := range []ids.Mark{
		{Text: "1", Writer: "node-7/0198f1", Floor: "9223372036854775808"},
		{Text: "2", Floor: "5"},
		{Text: "3", Writer: "Ab=:;,\"'%20 ~"},
		{Text: "4"},
		{Text: "5", Writer: strings.Repeat("w", 256), Floor: strings.Repeat("9", 256)},
	} {
		mark = t.replace("orders", mark, next)
		t.holds("orders", mark)
	}
}

func textRoundTrip(t *sequenceTest) {
	mark := ids.Mark{}
	for _, text := range []string{
		"1001",
		"",
		"\uFEFF1001", // as editors and .NET write it
		"1001\n",
		"1001\r\n",
		"  7\t",
		"9007199254740992",
		"9223372036854775808",
		"18446744073709551616",
		"nonsense",
		"\x00\xff\xfe",
		strings.Repeat("9", 64),
	} {
		mark = t.replace("orders", mark, ids.Mark{Text: text})
		t.holds("orders", mark)
		t.store.Set(t.T, "orders", text)
		if mark = t.load("orders"); mark.Text != text {
			t.Errorf("loaded %q, want %q", mark.Text, text)
		}
	}
}

// A number cut short would be another number.
func longText(t *sequenceTest) {
	for _, text := range []string{
		strings.Repeat("1", 65),
		"1001" + strings.Repeat("\n", 100) + "2",
		strings.Repeat("\x00", 1<<20),
	} {
		t.store.Set(t.T, "orders", text)
		mark := t.load("orders")
		if len(mark.Text) > 200 {
			t.Errorf("loaded %d bytes of %d", len(mark.Text), len(text))
		}
		if want := "… (" + strconv.Itoa(len(text)) + " bytes)"; !strings.HasSuffix(mark.Text, want) {
			t.Errorf("loaded %q, which does not end with %q", mark.Text, want)
		}
		t.replace("orders", mark, ids.Mark{Text: "1001"}) // it can be repaired
	}
}

func refused(t *sequenceTest) {
	t.replace("orders", ids.Mark{}, ids.Mark{Text: "1001"})
	for _, next := range []ids.Mark{
		{Text: strings.Repeat("1", 65)},
		{Text: "1", Writer: strings.Repeat("w", 257)},
		{Text: "1", Writer: " padded"},
		{Text: "1", Writer: "two\nlines"},
		{Text: "1", Floor: "ä"},
	} {
		before := t.load("orders")
		_, err := t.store.Replace(t.ctx, "orders", before, next)
		if err == nil || errors.Is(err, ids.ErrChanged) || errors.Is(err, ids.ErrNotFound) {
			t.Errorf("replace by %+v: %v, want a refusal of its own", next, err)
		}
		t.holds("orders", before)
	}
}

func sequenceNames(t *sequenceTest) {
	names := []string{
		"orders", "Orders", "orders/2024", "a b", "ümlaut", "100%", "x%2Fy", "x/y", "a+b", "a&b=c?d#e", "日本",
		strings.Repeat("n", 1024),
	}
	for i, name := range names {
		t.replace(name, ids.Mark{}, ids.Mark{Text: strconv.Itoa(i)})
	}
	for i, name := range names {
		if got := t.load(name).Text; got != strconv.Itoa(i) {
			t.Errorf("sequence %.80q holds %q, want %q: names are mixed up", name, got, strconv.Itoa(i))
		}
	}
	for _, name := range []string{"", strings.Repeat("n", 1025), "orders.", "orders/", `orders\`, "\x00", "\xff"} {
		_, err := t.store.Load(t.ctx, name)
		if err == nil || errors.Is(err, ids.ErrNotFound) {
			t.Errorf("load %.80q: %v, want a refusal", name, err)
		}
		_, err = t.store.Replace(t.ctx, name, ids.Mark{}, ids.Mark{Text: "1"})
		if err == nil || errors.Is(err, ids.ErrChanged) {
			t.Errorf("create %.80q: %v, want a refusal", name, err)
		}
	}
}

func independence(t *sequenceTest) {
	orders := t.replace("orders", ids.Mark{}, ids.Mark{Text: "1001", Writer: "a"})
	others := t.replace("others", ids.Mark{}, ids.Mark{Text: "1001", Writer: "a"})
	t.replace("others", others, ids.Mark{Text: "2001", Writer: "b"})
	t.holds("orders", orders)
	t.store.Delete(t.T, "others")
	t.holds("orders", orders)
	t.replace("orders", orders, ids.Mark{Text: "2001"})
	t.missing("others")
}

func outsider(t *sequenceTest) {
	held := t.replace("orders", ids.Mark{}, ids.Mark{Text: "1001", Writer: "a", Floor: "7"})
	t.store.Set(t.T, "orders", "5001")
	t.unchanged("orders", held, ids.Mark{Text: "2001", Writer: "a"}, ids.ErrChanged)
	seen := t.load("orders")
	if want := (ids.Mark{Text: "5001", Version: seen.Version}); seen != want {
		t.Errorf("loaded %+v, want %+v", seen, want)
	}
	t.replace("orders", seen, ids.Mark{Text: "6001", Writer: "a"})
}

func deletedUnderHolder(t *sequenceTest) {
	held := t.replace("orders", ids.Mark{}, ids.Mark{Text: "1001"})
	t.store.Delete(t.T, "orders")
	t.missing("orders")
	if _, err := t.store.Replace(t.ctx, "orders", held, ids.Mark{Text: "2001"}); !errors.Is(err, ids.ErrChanged) {
		t.Errorf("replace what was deleted: %v, want %v", err, ids.ErrChanged)
	}
	t.missing("orders")
	again := t.replace("orders", ids.Mark{}, ids.Mark{Text: "1001"})
	if again.Version == held.Version {
		t.Errorf("version %q came again", held.Version)
	}
	t.unchanged("orders", held, ids.Mark{Text: "2001"}, ids.ErrChanged)
}

// Many nodes add one by compare-and-swap: each success is one addition, and no
// addition overwrites another.
func contention(t *sequenceTest) {
	const nodes, each = 16, 4
	t.replace("orders", ids.Mark{}, ids.Mark{Text: "0"})
	var mu sync.Mutex
	wonBy := make(map[string]string)
	var wg sync.WaitGroup
	for node := range nodes {
		wg.Go(func() {
			name := strconv.Itoa(node)
			for done := 0; done < each; {
				old, err := t.store.Load(t.ctx, "orders")
				if err != nil {
					t.Error(err)
					return
				}
				n, err := strconv.Atoi(old.Text)
				if err != nil {
					t.Error(err)
					return
				}
				next := ids.Mark{Text: strconv.Itoa(n + 1), Writer: name + "/" + strconv.Itoa(done)}
				switch _, err = t.store.Replace(t.ctx, "orders", old, next); {
				case errors.Is(err, ids.ErrChanged):
					continue
				case err != nil:
					t.Error(err)
					return
				}
				done++
				mu.Lock()
				if other, ok := wonBy[next.Text]; ok {
					t.Errorf("%s was won by %s and by %s", next.Text, other, name)
				}
				wonBy[next.Text] = name
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if got, want := t.load("orders").Text, strconv.Itoa(nodes*each); got != want {
		t.Errorf("%s additions are left of %s", got, want)
	}
}

func cancelled(t *sequenceTest) {
	held := t.replace("orders", ids.Mark{}, ids.Mark{Text: "1001"})
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	if _, err := t.store.Load(ctx, "orders"); !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v, want %v", err, context.Canceled)
	}
	if _, err := t.store.Replace(ctx, "orders", held, ids.Mark{Text: "2001"}); !errors.Is(err, context.Canceled) {
		t.Errorf("replace: %v, want %v", err, context.Canceled)
	}
	if _, err := t.store.Replace(ctx, "others", ids.Mark{}, ids.Mark{Text: "1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("create: %v, want %v", err, context.Canceled)
	}
	t.holds("orders", held)
	t.missing("others")
}
