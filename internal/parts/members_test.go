package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/observe"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// fakeApp is a process of an app whose jobs are fakes.
type fakeApp struct {
	*observe.Members
	host *customhandler.App
	bill *observe.Billing
	stop context.CancelFunc // kills it

	problems         atomic.Pointer[[]instances.Problem]
	blobs, queues    atomic.Int64 // probes
	samples          atomic.Int64
	began            time.Time
	blobErr, quesErr error
	report           func(*observe.Status)
	takes            time.Duration // each request of a probe or sample
}

// samplesInTurn is how many requests of a sample of all queues wait for each
// other: a list, a count, a peek and the dead letters of batches, whether a gate
// holds them, and the count of channels.
const samplesInTurn = 6

// newFakeApp starts a process in the bubble of a test. rows may be nil: an app
// without tables.
func newFakeApp(t *testing.T, rows table.Store, samples bool) *fakeApp {
	t.Helper()
	m := &fakeApp{began: time.Now(), report: reportNone}
	fake := job{
		problems: func() []instances.Problem {
			if p := m.problems.Load(); p != nil {
				return *p
			}
			return nil
		},
		facts: func(r *instances.Report) {
			instances.RunningSection.Add(r, map[string]int64{"work-0": 2})
			r.Served.Count = int64(time.Since(m.began) / time.Second)
		},
		report: func(answer *observe.Status) { m.report(answer) },
		probes: map[string]observe.Probe{
			"blobs":  func(context.Context) error { time.Sleep(m.takes); m.blobs.Add(1); return m.blobErr },
			"queues": func(context.Context) error { time.Sleep(m.takes); m.queues.Add(1); return m.quesErr },
		},
	}
	if samples {
		fake.sample = func(context.Context) (map[string]instances.QueueSample, error) {
			time.Sleep(samplesInTurn * m.takes)
			m.samples.Add(1)
			return map[string]instances.QueueSample{"work-0": {At: time.Now().UTC(), Ready: 5, OldestSeconds: 1.5, Poison: 1}}, m.quesErr
		}
	}
	log := slog.New(slog.DiscardHandler)
	m.Members = membersOf(rows, instances.Functions, log, fake)
	var err error
	if m.host, err = customhandler.New(&customhandler.Options{Log: log}); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
	if err != nil {
		t.Fatal(err)
	}
	edge.ServeRoutes(m.host, []edge.Route{
		{Function: "Status", Pattern: "GET /api/status", Handler: api.ServeStatus((&observe.StatusReader{Account: cfg.Storage.String(), Members: m.Members, Bill: m.bill, Counter: &requests.Counter{}}).Read)},
		{Function: "Metrics", Pattern: "GET /api/metrics", Handler: api.ServeMetrics((&observe.Scraper{Members: m.Members, Bill: m.bill}).Text)},
	})
	ctx, stop := contextOf(t)
	m.stop = stop
	go reportMembers(m.Members).Run(ctx)
	return m
}

func (m *fakeApp) has(problems ...instances.Problem) { m.problems.Store(&problems) }

// status reads the status and checks that docs/openapi.yaml describes it.
func (m *fakeApp) status(t *testing.T) (answer observe.Status) {
	t.Helper()
	w := apptest.ServeDescribed(t, m.host, httptest.NewRequestWithContext(t.Context(), "GET", "/api/status", nil), "")
	for _, to := range []any{&answer, &client.Status{}} { // the client has a field for each member
		decoder := json.NewDecoder(strings.NewReader(w.Body.String()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(to); err != nil || w.Code != 200 {
			t.Fatalf("%d %v", w.Code, err)
		}
	}
	return answer
}

func codesOf(answer observe.Status) string {
	var codes []string
	for _, p := range answer.Problems {
		codes = append(codes, strings.TrimSuffix(p.Code+"/"+p.Subject, "/"))
	}
	return strings.Join(codes, " ")
}

// TestStatusOfOtherInstances: a problem of one process makes the status of
// another degraded, and no longer when it has ended.
func TestStatusOfOtherInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(nil)
		a, b := newFakeApp(t, rows, false), newFakeApp(t, rows, false)
		time.Sleep(10 * time.Second)
		answer := a.status(t)
		if answer.Status != "ok" || len(answer.Instances) != 2 || answer.Problems == nil || answer.Instance != a.Name() {
			t.Fatalf("%+v, want two instances without problems", answer)
		}
		until := func(status string) time.Duration {
			began := time.Now()
			for a.status(t).Status != status {
				if time.Since(began) > time.Minute {
					t.Fatalf("the status is not %s", status)
				}
				time.Sleep(time.Second)
			}
			return time.Since(began)
		}
		since := time.Now().UTC()
		missing := instances.Problem{Code: instances.SequenceMissing, Subject: "orders", What: "It was deleted.", Since: since, Count: 2}
		b.has(missing)
		seen := until(observe.Degraded)
		answer = a.status(t)
		if codesOf(answer) != "sequence_missing/orders" {
			t.Fatalf("%+v", answer.Problems)
		}
		p := answer.Problems[0]
		if p.What != missing.What || !p.Since.Equal(since) || p.Count != 2 || !slices.Equal(p.Instances, []string{b.Name()}) || p.Help != instances.Help(p.Code) {
			t.Errorf("%+v", p)
		}
		a.has(missing)
		if p := a.status(t).Problems; len(p) != 1 || p[0].Count != 4 || len(p[0].Instances) != 2 {
			t.Errorf("%+v, want one problem of two instances at once", p)
		}
		a.has()
		b.has()
		cured := until("ok")
		if seen > 35*time.Second || cured > 35*time.Second {
			t.Errorf("seen after %v, gone %v after its end, want 35 s", seen, cured)
		}
		t.Logf("figure: a problem of one process in the status of another after its begin and end | %v, %v | ≤ 35 s", seen, cured)

		b.has(missing)
		until(observe.Degraded)
		b.stop() // killed
		killed := time.Now()
		for len(a.status(t).Instances) == 2 {
			time.Sleep(time.Second)
		}
		if took := time.Since(killed); took > instances.LiveFor+time.Second || a.status(t).Status != "ok" {
			t.Errorf("%v after the kill: %+v", took, a.status(t))
		}
	})
}

// stopped is a table whose clock stands at a time.
type stopped struct {
	*memory.Table
	at time.Time
}

func (s stopped) Query(ctx context.Context, q table.Query) (table.Page, error) {
	page, err := s.Table.Query(ctx, q)
	page.ReadAt = s.at
	return page, err
}

// TestCostOfStatus counts the requests of a status of 200 instances.
func TestCostOfStatus(t *testing.T) {
	const crowd = 200
	var rows *memory.Table
	var at time.Time
	synctest.Test(t, func(t *testing.T) {
		rows = memory.NewTable(nil)
		var last *fakeApp
		for range crowd {
			last = newFakeApp(t, rows, false)
		}
		time.Sleep(11 * time.Second) // between the requests of reporters, which check every 2 s
		tables, others := rows.CallsOf("Query"), last.blobs.Load()+last.queues.Load()
		answer := last.status(t)
		sent := rows.CallsOf("Query") - tables + last.blobs.Load() + last.queues.Load() - others
		if sent > 3 || answer.InstanceCount != crowd {
			t.Errorf("%d requests for %d instances, want 3", sent, len(answer.Instances))
		}
		t.Logf("figure: requests to storage of a status of %d instances | %d | ≤ 3", crowd, sent)
		at = time.Now()
	})
	m := newFakeApp(t, stopped{rows, at}, false)
	began := time.Now()
	w := httptest.NewRecorder()
	m.host.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/api/status", nil))
	took := time.Since(began)
	if want := fmt.Sprintf(`"instanceCount":%d,`, crowd+1); !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s, want %s", w.Body, want)
	}
	t.Logf("figure: time of a status of %d instances, with tables in memory | %.1f ms | ≤ 50 ms", crowd, float64(took.Microseconds())/1000)
}

// TestStatusOfCrowd: 16 callers read the status of 500 instances, in a sample
// of 100, again and again from one of them, over storage that takes 50 ms for
// each request. They cause a bounded number of requests, and each answers in
// time.
func TestStatusOfCrowd(t *testing.T) {
	const callers, far = 16, 50 * time.Millisecond
	crowd, each := storetest.Scale(40, 500), storetest.Scale(2, 6)
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault { return memory.Fault{Delay: far / 2, Back: far / 2} }}})
		m := newFakeApp(t, rows, true)
		m.takes = far
		for i := range crowd - 1 {
			process := instances.Process{Instance: fmt.Sprintf("host-%04d", i), Kind: instances.Functions, StartedAt: time.Now()}
			problems := []instances.Problem{{Code: "sequence_corrupt", Subject: fmt.Sprintf("orders-%d", i%20), What: strings.Repeat("w", 200), Since: time.Now(), Count: 1}}
			self := instances.NewSelf(process, func() []instances.Problem { return problems }, func(r *instances.Report) {
				for n := range 100 {
					instances.SequenceSection.Add(r, []instances.Sequence{{Name: fmt.Sprintf("orders-%d", n), Issued: 1000, Highest: int64(n) * 1000}})
				}
			})
			ctx, _ := contextOf(t)
			go instances.NewReporter(self, rows, m.Log).Run(ctx)
		}
		time.Sleep(11 * time.Second) // between the requests of reporters
		queries := rows.CallsOf("Query")
		var mu sync.Mutex
		var took []time.Duration
		var calling sync.WaitGroup
		used := storetest.ProcessorTime()
		for caller := range callers {
			calling.Go(func() {
				time.Sleep(time.Duration(caller) * 37 * time.Millisecond)
				for range each {
					w := httptest.NewRecorder()
					began := time.Now()
					m.host.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/api/status", nil))
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
					if want := fmt.Sprintf(`"instanceCount":%d,`, crowd); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
						t.Errorf("%d %.200s, want %s", w.Code, w.Body, want)
					}
				}
			})
		}
		calling.Wait()
		cost := (storetest.ProcessorTime() - used) / time.Duration(callers*each)
		slices.Sort(took)
		p99 := took[len(took)*99/100]
		if n := rows.CallsOf("Query") - queries; n > int64(callers*each+crowd) {
			t.Errorf("%d requests for the rows of %d statuses, want one each, and those of the reporters", n, callers*each)
		}
		if storetest.Proving() {
			t.Logf("figure: p99 of a status of %d instances for %d callers, storage 50 ms away | %v | ≤ 2 s", crowd, callers, p99)
			t.Logf("figure: processor time of such a status | %v | ≤ 20 ms", cost.Round(100*time.Microsecond))
		}
		if p99 > 2*time.Second {
			t.Errorf("p99 of a status is %v, want at most 2s", p99)
		}
	})
}

// TestQueuesInStatus: queues are sampled while a status is read, once in 30 s
// by one process, and hands count as messages in flight.
func TestQueuesInStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(nil)
		var all []*fakeApp
		for range 5 {
			all = append(all, newFakeApp(t, rows, true))
		}
		sampled := func() (n int64) {
			for _, m := range all {
				n += m.samples.Load()
			}
			return n
		}
		time.Sleep(time.Hour)
		if n := sampled(); n != 0 {
			t.Errorf("queues were sampled %d times although no status was read", n)
		}
		answer := all[0].status(t)
		// Ten hands: of five ready messages, all may be leased.
		want := observe.QueueItem{Ready: 0, InFlight: 10, OldestSeconds: 1.5, Poison: 1, At: answer.Queues["work-0"].At}
		if answer.Queues["work-0"] != want || len(answer.Queues) != 1 || all[0].queues.Load() != 0 {
			t.Errorf("%+v and %d probes, want %+v and none", answer.Queues, all[0].queues.Load(), want)
		}
		if hands := answer.Instances[0].Hands; hands != 2 {
			t.Errorf("%d hands, want 2", hands)
		}
		// A status every second from one process after the other.
		const minutes = 10
		before := sampled()
		for i := range minutes * 60 {
			m := all[i%len(all)]
			if age := time.Since(m.status(t).Queues["work-0"].At); age > observe.ForStatus.Lasts {
				t.Fatalf("a sample is %v old", age)
			}
			time.Sleep(time.Second)
		}
		n := sampled() - before
		if n > minutes*2*int64(len(all)) {
			t.Errorf("%d samples within %d minutes", n, minutes)
		}
		t.Logf("figure: samples of all queues, each 30 s, while five processes answer a status each second | %.1f | ≤ 5", float64(n)/minutes/2)
		time.Sleep(10 * time.Minute)
		if late := sampled() - before - n; late != 0 {
			t.Errorf("%d samples after the last status", late)
		}
		all[0].quesErr = errors.New("reset")
		if answer := all[0].status(t); codesOf(answer) != "queues_failing" || answer.Storage.Queues.Reachable {
			t.Errorf("%+v, want the failed sample", answer)
		}
	})
}

// TestStatusWithoutTable: a status is answered in time, from own values, if the
// instance table refuses, is silent, or does not exist.
func TestStatusWithoutTable(t *testing.T) {
	for name, tt := range map[string]struct {
		fault memory.Fault
		code  string
	}{
		"refused": {memory.Fault{Err: fmt.Errorf("%w: %w", table.ErrRefused, &azure.Error{Status: 403, Code: "AuthorizationFailure"})}, instances.StorageDenied},
		"failing": {memory.Fault{Err: errors.New("reset")}, instances.TablesFailing},
		"silent":  {memory.Fault{Lost: true}, instances.TablesFailing},
	} {
		synctest.Test(t, func(t *testing.T) {
			rows := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault { return tt.fault }}})
			m := newFakeApp(t, rows, true)
			m.has(instances.Problem{Code: instances.DeadLetters, Subject: "work-0", What: "There are 3.", Since: time.Now(), Count: 1})
			began := time.Now()
			answer := m.status(t)
			if took := time.Since(began); took > observe.ProbeTimeout {
				t.Errorf("%s: answered after %v", name, took)
			}
			codes := strings.Fields(codesOf(answer))
			slices.Sort(codes)
			if want := []string{"dead_letters/work-0", tt.code}; answer.Status != observe.Degraded || !slices.Equal(codes, want) || answer.Storage.Tables.Reachable ||
				!answer.Storage.Reachable || !answer.Storage.Queues.Reachable || len(answer.Instances) != 1 {
				t.Errorf("%s: %+v, want the problems %v", name, answer, want)
			}
			time.Sleep(time.Minute)
			m.stop()
			synctest.Wait()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := newFakeApp(t, nil, true)
		answer := m.status(t)
		if answer.Status != "ok" || answer.Storage.Tables != nil || len(answer.Instances) != 1 || answer.Queues["work-0"].Poison != 1 {
			t.Errorf("without tables: %+v", answer)
		}
		m.status(t)
		if n := m.samples.Load(); n != 1 {
			t.Errorf("%d samples for two statuses at once", n)
		}
		if _, reports := reportMembers(m.Members).(reporting); reports {
			t.Error("an app without tables reports to one")
		}
	})
}

// TestProbeProblems: a probe that fails at the time of the status is a problem,
// once.
func TestProbeProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeApp(t, memory.NewTable(nil), false)
		m.blobErr = errors.New("reset")
		m.quesErr = &azure.Error{Status: 403, Code: "AuthorizationFailure"}
		answer := m.status(t)
		if codesOf(answer) != "blobs_failing storage_denied" || answer.Problems[0].Instances[0] != m.Name() || !strings.Contains(answer.Problems[0].What, "reset") {
			t.Errorf("%+v", answer.Problems)
		}
		m.has(instances.Problem{Code: instances.BlobsFailing, What: "Reads fail.", Since: time.Now(), Count: 7})
		if answer := m.status(t); codesOf(answer) != "blobs_failing storage_denied" || answer.Problems[0].Count != 7 {
			t.Errorf("%+v, want the problem that is known already", answer.Problems)
		}
	})
}

// TestUnreadableInstances: a row of a newer build is counted in the status.
func TestUnreadableInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(nil)
		m := newFakeApp(t, rows, false)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		page, err := rows.Query(ctx, table.Query{Top: 1})
		if err != nil {
			t.Fatal(err)
		}
		row := page.Rows[0]
		row.Key, row.Values = "newer", maps.Clone(row.Values)
		row.Values["format"] = "3"
		if _, err := rows.Submit(ctx, table.Write{Verb: table.Insert, Row: row}); err != nil {
			t.Fatal(err)
		}
		if answer := m.status(t); answer.LeftOut != 1 || len(answer.Instances) != 1 || answer.Status != "ok" {
			t.Errorf("%+v, want the row left out", answer)
		}
	})
}

// contextOf returns a context that ends with the test or before.
func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	return ctx, stop
}
