package console_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/otlptest"
	"kennel/internal/storetest"
	"kennel/internal/trace"
)

const (
	pageRows  = 100
	pageFiles = 20 // of the page itself, that a view loads at most
	rounds    = 3  // of which the median is the figure
)

// largeView is a view of a large app.
type largeView struct {
	Hash  string `json:"hash"`
	Items string `json:"items"` // the selector of what its first page has
	Count int    `json:"count"` // of them; 0: one at least

	name  string
	calls []string // of the API, besides me and timers
}

// views returns all views, and one of each kind of item in them.
func (l *large) views() []largeView {
	rows := func(table string) string { return `table[aria-label="` + table + `"] tbody tr` }
	sequence, batch, channel := "sequences/"+sequenceName(1), "batches/"+l.batch, "channels/"+largeChannel
	return []largeView{
		{"#/overview", rows("Instances"), pageRows, "overview", []string{"scale/history", "status"}},
		{"#/sequences", rows("Sequences"), pageRows, "order numbers", []string{"sequences"}},
		{"#/" + sequence, rows("Instances that use " + sequenceName(1)), pageRows, "one sequence", []string{sequence}},
		{"#/gates", rows("Gates"), pageRows, "gates", []string{"gates"}},
		{"#/gates/" + largeGate, rows("Waiters at " + largeGate + " by instance"), pageRows, "one gate", []string{"gates/" + largeGate, "gates/" + largeGate + "/waiters"}},
		{"#/batches", rows("Batches, newest first"), pageRows, "batches", []string{"batches"}},
		{"#/" + batch, rows("Results"), pageRows, "one batch", []string{batch, batch + "/results"}},
		{"#/channels", rows("Channels"), pageRows, "channels", []string{"channels"}},
		{"#/" + channel, rows("Blogs of " + largeChannel + ", newest first"), pageRows, "one channel", []string{channel, channel + "/blogs", channel + "/deletion"}},
		{"#/deadletters", rows("Queues with dead letters"), 1, "dead letters", []string{"deadletters"}},
		{"#/deadletters/" + largeLetters, rows("Dead letters"), 32, "dead letters of one queue", []string{"deadletters", "deadletters/" + largeLetters}},
		{"#/queues", rows("Queues"), len(largeQueues), "queues and scale", []string{"queues", "scale", "scale/history", "scale/rules"}},
		{"#/queues/work-0?range=1d", ".charts svg", 4, "one queue", []string{"queues/work-0", "scale", "scale/history"}},
		{"#/relay", rows("Queues and topics"), pageRows, "relay", []string{"relay"}},
		{"#/bill", rows("Bill by job"), 0, "bill", []string{"status"}},
	}
}

// limits of each call of a first page: requests to storage, and bytes of the
// answer. A list of blobs is one request and one for each row, and lists of
// sequences and gates read the instances. The status may sample all queues and
// read the bill.
var limits = map[string]struct{ requests, bytes int }{
	"batches":                     {1, 60_000},
	"batches/{batch}":             {1, 1000},
	"batches/{batch}/results":     {1, 30_000},
	"channels":                    {1, 60_000},
	"channels/{channel}":          {1, 1000},
	"channels/{channel}/blogs":    {8, 200_000},
	"channels/{channel}/deletion": {2, 1000},
	"deadletters":                 {2, 1000},
	"deadletters/{queue}":         {2, 60_000},
	"gates":                       {102, 30_000},
	"gates/{gate}":                {1, 2000},
	"gates/{gate}/waiters":        {1, 80_000},
	"queues":                      {40, 10_000},
	"queues/{queue}":              {40, 1000},
	"relay":                       {1, 60_000},
	"scale":                       {1, 10_000},
	"scale/history":               {1, 1_000_000},
	"scale/rules":                 {1, 2000},
	"sequences":                   {102, 30_000},
	"sequences/{sequence}":        {2, 80_000},
	"status":                      {40, 200_000},
}

// firstPage is a measurement of a view.
type firstPage struct {
	Used      float64 // processor time of the page, in ms: what it waits for is bounded by its requests
	MS        float64 // on the clock
	Rows      int     // of the largest table
	Resources []struct {
		Path  string
		Bytes int
	}
}

// TestLarge opens every view of a large app in a browser that has nothing
// stored. What makes the first page fast does not depend on how much the app
// has: it shows 100 rows, and causes a bounded number of requests and bytes.
func TestLarge(t *testing.T) {
	storetest.OnlyInProve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	suite := installSuite(t, ctx)
	traces := otlptest.Serve(t)
	app := startApp(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+traces.URL, "OTEL_BSP_SCHEDULE_DELAY=100")
	l := seedLarge(t, app.Connection)
	defer l.keepReporting(t)()

	views := l.views()
	text, err := json.Marshal(map[string]any{"views": views, "rounds": rounds})
	check(t, err)
	file := filepath.Join(t.TempDir(), "measured.json")
	suite.run(t, ctx, []string{"VIEWS=" + string(text), "MEASURED=" + file, "OPERATOR=" + signedIn(t, app.URL, "ann", "Operator")}, "firstpage.mjs")
	text, err = os.ReadFile(file)
	check(t, err)
	var measured []firstPage
	check(t, json.Unmarshal(text, &measured))
	if len(measured) != rounds*len(views) {
		t.Fatalf("%d measurements of %d views", len(measured), len(views))
	}

	stored := storageRequests(t, traces)
	for i, view := range views {
		var times []float64
		total := 0
		for _, m := range measured[i*rounds : (i+1)*rounds] {
			times = append(times, m.Used)
			if m.Rows > pageRows {
				t.Errorf("%s has a table of %d rows, more than %d", view.Hash, m.Rows, pageRows)
			}
			files, calls, bytes := 0, []string{}, 0
			for _, r := range m.Resources {
				path, ofAPI := strings.CutPrefix(r.Path, "/api/console/api/")
				if !ofAPI {
					files++
					continue
				}
				if path == "me" || path == "timers" { // once, for the frame; an app without timers needs no request for them
					continue
				}
				calls = append(calls, path)
				bytes += r.Bytes
				pattern := l.patternOf(path)
				if most, known := limits[pattern]; !known || r.Bytes > most.bytes {
					t.Errorf("%s: the answer of %s has %d bytes, more than %d", view.Hash, path, r.Bytes, most.bytes)
				}
			}
			slices.Sort(calls)
			if m.MS > 2000 {
				calls = slices.Compact(calls) // a page that is still open then asks again
			}
			if !slices.Equal(calls, view.calls) || files > pageFiles {
				t.Errorf("%s loads %d files and calls %q, want at most %d, and %q", view.Hash, files, calls, pageFiles, view.calls)
			}
			total = max(total, bytes)
		}
		requests := 0
		for _, call := range view.calls {
			requests += stored[l.patternOf(call)]
		}
		slices.Sort(times)
		t.Logf("figure: first page of the console in a large app: %s (%d calls, %d storage requests, %d KB) | %.0f ms of processor time | ≤ 500 ms",
			view.name, len(view.calls), requests, total/1000, times[rounds/2])
	}
	for _, pattern := range slices.Sorted(maps.Keys(limits)) {
		if n := stored[pattern]; n > limits[pattern].requests {
			t.Errorf("%s sends %d requests to storage, more than %d", pattern, n, limits[pattern].requests)
		}
	}
}

// patternOf returns the path of a call without the names in it.
func (l *large) patternOf(path string) string {
	return strings.NewReplacer(sequenceName(1), "{sequence}", largeGate, "{gate}", l.batch, "{batch}", "channels/"+largeChannel, "channels/{channel}", "queues/work-0", "queues/{queue}",
		largeLetters, "{queue}").Replace(path)
}

// keepReporting writes the rows of the instances, and again before they expire,
// until the function that it returns is called.
func (l *large) keepReporting(t *testing.T) (stop func()) {
	t.Helper()
	check(t, l.refresh(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Minute):
			}
			if err := l.refresh(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// storageRequests returns how many requests to storage each call of the API
// caused at most, by the traces of the app.
func storageRequests(t *testing.T, traces *otlptest.Endpoint) map[string]int {
	t.Helper()
	const prefix = "GET /api/console/api/"
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		calls, sent := make(map[string]string), make(map[string]int) // by trace
		for _, s := range traces.Spans() {
			if call, ok := strings.CutPrefix(s.Name, prefix); ok {
				calls[s.Trace] = call
			} else if s.Kind == "SPAN_KIND_CLIENT" && s.Attributes[trace.Status] != "" { // otherwise it had no answer, and was repeated
				sent[s.Trace]++
			}
		}
		most, seen := make(map[string]int), make(map[string]int)
		for id, call := range calls {
			most[call] = max(most[call], sent[id])
			seen[call]++
		}
		missing := func(call string) bool { return seen[call] < rounds }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(limits)), missing) {
			return most
		}
		if time.Now().After(deadline) {
			t.Fatalf("the app sent traces of these calls only: %v", seen)
		}
	}
}
