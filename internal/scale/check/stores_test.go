package check

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/azure"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestStores: a check does in memory and on storage what the tests in virtual
// time rely on.
func TestStores(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *laterStores{"memory": inMemory, "Azurite": onStorage} {
		t.Run(name, func(t *testing.T) {
			for name, test := range map[string]func(*testing.T, *laterStores){
				"AtOnce": oneAtOnce, "Rules": rulesOfOthers, "Largest": largestRecord, "Pages": pagesOfHistory, "Expiry": expiryOfHistory,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, open(t))
				})
			}
		})
	}
}

// laterStores are stores whose clock can be moved forward.
type laterStores struct {
	table.Store
	blobs queue.Blobs

	mu      sync.RWMutex             // held during each write, so that reads know when it was made
	ahead   time.Duration            // guarded by mu
	written map[string]time.Duration // ahead, by the version of a row; guarded by mu
}

func inMemory(*testing.T) *laterStores {
	return &laterStores{Store: memory.NewTable(nil), blobs: memory.NewContainer(nil), written: make(map[string]time.Duration)}
}

func onStorage(t *testing.T) *laterStores {
	storetest.OnlyInProve(t)
	account := azure.Account{ConnectionString: storetest.Storage(t).ConnectionString()}
	tables, err := account.OpenTables(nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := azure.NewTable(tables, "Scale"+strings.ReplaceAll(storetest.Name(), "-", ""))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := account.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &laterStores{Store: rows, blobs: azure.NewContainer(blobs, storetest.Name()), written: make(map[string]time.Duration)}
}

func (s *laterStores) later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

func (s *laterStores) Query(ctx context.Context, q table.Query) (table.Page, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	page, err := s.Store.Query(ctx, q)
	page.ReadAt = page.ReadAt.Add(s.ahead)
	for i, row := range page.Rows {
		page.Rows[i].WrittenAt = row.WrittenAt.Add(s.written[row.Version])
	}
	return page, err
}

func (s *laterStores) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions, err := s.Store.Submit(ctx, writes...)
	for _, version := range versions {
		s.written[version] = s.ahead
	}
	return versions, err
}

// check returns the check of another process.
func (s *laterStores) check(t *testing.T, facts Facts, o *Options) *Check {
	t.Helper()
	c, err := New(s, s.blobs, func(context.Context) (Facts, error) { return facts, nil }, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustRun(t *testing.T, c *Check) {
	t.Helper()
	if ran, err := c.Run(t.Context()); err != nil || !ran {
		t.Fatalf("ran %t, %v, want a check", ran, err)
	}
}

// oneAtOnce: the row of the check admits one of many processes, also the first
// time, and none soon after.
func oneAtOnce(t *testing.T, s *laterStores) {
	const processes, rounds = 8, 5
	for round := range rounds {
		var ran atomic.Int64
		var running sync.WaitGroup
		for range processes {
			c := s.check(t, busy(), nil)
			running.Go(func() {
				did, err := c.Run(t.Context())
				if err != nil {
					t.Error(err)
				}
				if did {
					ran.Add(1)
				}
			})
		}
		running.Wait()
		if n := ran.Load(); n != 1 {
			t.Errorf("round %d: %d of %d processes checked, want one", round, n, processes)
		}
		s.later(time.Minute)
	}
	records, _, err := s.check(t, Facts{}, nil).History(t.Context(), Page{Top: 100})
	if err != nil || len(records) != rounds {
		t.Errorf("%d checks in the history, %v, want %d", len(records), err, rounds)
	}
}

// rulesOfOthers: rules that another program writes are used by the next check;
// instead of invalid ones, those before them.
func rulesOfOthers(t *testing.T, s *laterStores) {
	minimum := func(want string, c *Check) {
		t.Helper()
		rules, err := c.Rules(t.Context())
		if err != nil || !strings.Contains(marshal(t, rules), `"min":`+want) {
			t.Errorf("rules %s, %v, want a minimum of %s", marshal(t, rules), err, want)
		}
	}
	first := s.check(t, Facts{}, nil)
	minimum("1", first)
	mustRun(t, first)
	for _, text := range []string{twoToFour, `{"version": 1, "instances": {"min": 3, "max": 2}}`, strings.Repeat(" ", maxRules+1)} {
		if err := s.blobs.Put(t.Context(), rulesBlob, []byte(text)); err != nil {
			t.Fatal(err)
		}
		s.later(5 * time.Minute) // the change before is over
		c := s.check(t, Facts{}, nil)
		mustRun(t, c)
		if invalid := len(c.Problems()) == 1; invalid == (text == twoToFour) {
			t.Errorf("%.20q: problems %+v", text, c.Problems())
		}
		r, err := c.Latest(t.Context())
		if err != nil || *r.Advice[0].Instances != 2 {
			t.Errorf("%.20q: %+v, %v, want advice by the valid rules", text, r.Advice, err)
		}
		minimum("2", c)
	}
}

// largestRecord: a check of as many queues as an app can have, of which each
// needs the longest reason, fits into a row.
func largestRecord(t *testing.T, s *laterStores) {
	facts := Facts{Reports: []instances.Report{busy().Reports[0], idle()}, Depths: make(map[string]instances.QueueSample)}
	const queues = 32 + 3 // KENNEL_PARTITIONS at most, and those of single parcels, results and deletions
	for i := range queues {
		name := fmt.Sprintf("delete-channel-and-blogs-%d", i)
		facts.Depths[name] = instances.QueueSample{Ready: 1e11, InFlight: 1e11, Delayed: 1e11, OldestSeconds: 604_799.999, Held: i%2 == 0}
		instances.RunningSection.Add(&facts.Reports[1], map[string]int64{name: 1e9})
		if i == 1 {
			instances.RecentSection.Add(&facts.Reports[1], map[string]instances.Recent{name: {Completed: 1e9, HandSeconds: 1e9 / 3, Latencies: []int64{0, 0, 0, 0, 0, 0, 0, 0, 0, 1e9}}})
		}
	}
	for range 10 { // until the other queues are stuck
		mustRun(t, s.check(t, facts, nil))
		s.later(time.Minute)
	}
	k, _, err := s.check(t, facts, nil).load(t.Context())
	if err != nil || !k.checked || len(k.record.Samples) != queues || !strings.Contains(k.record.Advice[0].Reason, "is stuck") {
		t.Errorf("%+v, %v, want a check of %d queues", k.record.Advice[0], err, queues)
	}
	t.Logf("%d bytes of a record, %d of the state, of %d", len(textOf(t, k.record)), len(textOf(t, k.state)), 64<<10/2)
}

func textOf(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pagesOfHistory: the pages have each check once, in its order, also where one
// page of the store is not enough.
func pagesOfHistory(t *testing.T, s *laterStores) {
	c := s.check(t, busy(), nil)
	mustRun(t, c)
	r, err := c.Latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const older = table.MaxPage + table.MaxTransaction
	at := r.At.Add(-older * time.Minute)
	for range older / table.MaxTransaction {
		var writes []table.Write
		for range table.MaxTransaction {
			r.At = at
			at = at.Add(time.Minute)
			writes = append(writes, table.Write{Verb: table.Upsert, Row: table.Row{Partition: partition, Key: keyOf(r.At),
				Values: map[string]string{formatColumn: format, recordColumn: textOf(t, r)}}})
		}
		if _, err := s.Submit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	for _, top := range []int{table.MaxPage, 700} {
		var last time.Time
		n := 0
		for p := (Page{Top: top}); ; {
			records, next, err := c.History(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if !r.At.After(last) {
					t.Fatalf("top %d: %v after %v", top, r.At, last)
				}
				last = r.At
			}
			n += len(records)
			if p.Continuation = next; next == "" {
				break
			}
		}
		if n != older+1 {
			t.Errorf("top %d: %d checks, want %d", top, n, older+1)
		}
	}
	from := at.Add(-30 * time.Minute)
	records, next, err := c.History(t.Context(), Page{From: from, To: from.Add(10 * time.Minute), Top: 100})
	if err != nil || next != "" || len(records) != 10 || !records[0].At.Equal(from) {
		t.Errorf("%d checks within ten minutes, %q, %v", len(records), next, err)
	}
}

// expiryOfHistory: checks that are too old are removed, once an hour.
func expiryOfHistory(t *testing.T, s *laterStores) {
	const keep, pause = 3 * time.Hour, 10 * time.Minute
	c := s.check(t, busy(), &Options{Keep: keep})
	for range 36 {
		mustRun(t, c)
		s.later(pause)
	}
	records, _, err := c.History(t.Context(), Page{Top: 100})
	if n := len(records); err != nil || n < int(keep/pause) || n > int((keep+sweepEvery)/pause)+1 {
		t.Errorf("%d checks are left, %v, want those of three hours", n, err)
	}
	if latest, err := c.Latest(t.Context()); err != nil || !latest.At.Equal(records[len(records)-1].At) {
		t.Errorf("the last check is that of %v, %v", latest.At, err)
	}
}
