package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/faultproxy"
	"kennel/internal/parts"
	scalecheck "kennel/internal/scale/check"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// hurriedPause is the time between two checks of hurriedHandler, at least.
const hurriedPause = 45 * time.Second / 120

// hurriedHandler returns the handler with a check of scaling for which half a
// second is a minute.
func hurriedHandler(t *testing.T) func() (string, error) {
	t.Helper()
	source, err := filepath.Abs("../internal/scale/check/run.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	for _, constant := range []string{"every = time.Minute", "minPause     = 45 * time.Second", "standbyPause = 90 * time.Second"} {
		if strings.Count(string(text), constant) != 1 {
			t.Fatalf("%s does not have %q", source, constant)
		}
		text = []byte(strings.Replace(string(text), constant, constant+" / 120", 1))
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "run.go"), filepath.Join(dir, "overlay.json")
	replace, err1 := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	err2 := os.WriteFile(changed, text, 0o600)
	err3 := os.WriteFile(overlay, replace, 0o600)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return func() (string, error) { return storetest.BuildOverlay("handler", overlay) }
}

// scaleWatch follows the checks of several processes through their proxies.
type scaleWatch struct {
	t     *testing.T
	rows  table.Store
	check *scalecheck.Check // reads the history

	writing sync.Mutex // held during each write, so that they are seen one by one
	row     table.Row  // of the check; guarded by writing

	mu     sync.Mutex
	begun  int        // guarded by mu
	killed []*process // in the middle of a check; guarded by mu
	kills  chan struct{}
}

// attach follows a process.
func (w *scaleWatch) attach(proxy *faultproxy.Proxy, p *process) {
	for _, operation := range []string{"insert", "merge", "transaction"} {
		proxy.Add(faultproxy.Fault{Service: "table", Operation: operation,
			Before: func(faultproxy.Request) { w.writing.Lock() },
			After: func(faultproxy.Request) {
				defer w.writing.Unlock()
				w.written(operation != "transaction")
			}})
	}
	// After its claim a check reads the rules. No other blob is read here.
	proxy.Add(faultproxy.Fault{Service: "blob", Operation: "get", Before: func(faultproxy.Request) { w.middle(p) }})
}

// written looks at the row after a write: a claim must not follow another write
// too early by the clock of the store.
func (w *scaleWatch) written(claim bool) {
	page, err := w.rows.Query(w.t.Context(), table.Query{Partition: "scale", Key: "advice", Top: 1})
	if err != nil || len(page.Rows) == 0 || page.Rows[0].Version == w.row.Version {
		return // another row was written, or the test has ended
	}
	row := page.Rows[0]
	if pause := row.WrittenAt.Sub(w.row.WrittenAt); claim && pause < hurriedPause {
		w.t.Errorf("a check began %v after another one", pause)
	}
	w.row = row
}

// middle is called in the middle of each check. The second and the fourth
// process does not survive it.
func (w *scaleWatch) middle(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun++; w.begun == 2 || w.begun == 4 {
		w.killed = append(w.killed, p)
		p.kill()
		w.kills <- struct{}{}
	}
}

func (w *scaleWatch) isKilled(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.killed, p)
}

// callOften calls the check of an app several times at once, and far too often,
// until the app is killed or the context ends.
func (w *scaleWatch) callOften(ctx context.Context, app *process) {
	tick := customhandler.Trigger{Function: "ScaleCheck", Binding: "tick"}.Timer(customhandler.Tick{})
	for ctx.Err() == nil {
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				if err := app.invoke(w.t, "ScaleCheck", tick); err != nil && !w.isKilled(app) {
					w.t.Error(err)
				}
			})
		}
		calls.Wait()
		if w.isKilled(app) || table.Pause(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}

// history waits for so many checks that have ended, and returns all of them.
func (w *scaleWatch) history(n int) []scalecheck.Record {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		records, _, err := w.check.History(w.t.Context(), scalecheck.Page{Top: 100})
		if err == nil && len(records) >= n {
			return records
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d of %d checks, %v", len(records), n, err)
		}
	}
}

// TestScaleKilled kills the process that checks scaling in the middle of a
// check, twice: one of two workers, then a worker or the app, whose host calls
// its check far too often. Another process takes over when the claim of the
// killed one has ended and not before, and goes on with what that one knew.
func TestScaleKilled(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	program := hurriedHandler(t)
	connection := storetest.OwnStorage(t).ConnectionString()
	stores, err1 := parts.OpenScaleStores(azure.Account{ConnectionString: connection}, &azure.Options{})
	check, err2 := scalecheck.New(stores.Rows, stores.Rules, func(context.Context) (scalecheck.Facts, error) { panic("it only reads") }, nil)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	putRules := func(minimum string) {
		t.Helper()
		_, err := check.PutRules(t.Context(), []byte(`{"version":1,"instances":{"min":`+minimum+`,"max":4},"depth":[{"from":0,"hands":8}]}`))
		if err != nil {
			t.Fatal(err)
		}
	}
	putRules("3")
	w := &scaleWatch{t: t, rows: stores.Rows, check: check, kills: make(chan struct{}, 2)}
	proxied := func() (*faultproxy.Proxy, string) {
		proxy, err := faultproxy.Start(connection)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		return proxy, "AzureWebJobsStorage=" + proxy.ConnectionString()
	}
	proxy, storage := proxied()
	app := start(t, program, storage)
	w.attach(proxy, app)
	for range 2 {
		proxy, storage := proxied()
		w.attach(proxy, launchProgramWorker(t, program, storage).process)
	}

	w.history(1)
	<-w.kills
	putRules("1") // the advice stays for the cool-down, if the one before is known
	ctx, stop := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	calling.Go(func() { w.callOften(ctx, app) })
	<-w.kills
	records := w.history(3)
	stop()
	calling.Wait()

	for i, r := range records {
		if i > 0 && !r.At.After(records[i-1].At) {
			t.Errorf("checks at %v and %v", records[i-1].At, r.At)
		}
		if n := *r.Advice[0].Instances; n != 3 {
			t.Errorf("check %d advises %d instances: %s", i+1, n, r.Advice[0].Reason)
		}
	}
	t.Logf("%d checks; the second process that was killed is the app: %t", len(records), w.isKilled(app))
}
