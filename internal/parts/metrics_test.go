package parts

import (
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/apptest"
	"kennel/internal/memory"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/worker"
)

// scrape reads the metrics of an app as docs/openapi.yaml describes them.
func (m *fakeApp) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	w := apptest.ServeDescribed(t, m.host, httptest.NewRequestWithContext(t.Context(), "GET", "/api/metrics", nil), "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	return apptest.Series(t, w.Body.String())
}

const readyDepth = `kennel_queue_depth{kind="ready",queue="work-0"}`

// TestMetricsOfTheApp: each process answers for all of them, with one request.
// No count goes down although another one answers, and a process that ends is
// gone.
func TestMetricsOfTheApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(nil)
		a, b := newFakeApp(t, rows, false), newFakeApp(t, rows, false)
		time.Sleep(10 * time.Second)
		total := func(m *fakeApp) string {
			return `kennel_invocations_total{kind="functions",process="` + m.Name() + `"}`
		}
		last := make(map[string]float64)
		const scrapes = 60
		for i := range scrapes {
			got := []*fakeApp{a, b}[i%2].scrape(t)
			for _, m := range []*fakeApp{a, b} {
				n, ok := got[total(m)]
				if !ok || n < last[m.Name()] || n < time.Since(m.began).Seconds()-40 {
					t.Fatalf("after %v the count of %s is %v, %t; want it current, and not below %v", time.Since(m.began), m.Name(), n, ok, last[m.Name()])
				}
				last[m.Name()] = n
			}
			time.Sleep(7 * time.Second)
		}
		if reads := rows.CallsOf("Query"); reads < scrapes || reads > scrapes+2 {
			t.Errorf("%d reads of the instance table for %d scrapes, want one for each, and those of two sweeps", reads, scrapes)
		}
		b.stop()
		time.Sleep(3 * time.Minute)
		got := a.scrape(t)
		if _, ok := got[total(b)]; ok {
			t.Errorf("%v, want it without the process that has ended", got)
		}
		if _, ok := got[readyDepth]; ok {
			t.Error("a depth without a sample")
		}
	})
}

// TestDepthsOfTheApp: scrapes sample the queues at most once a minute, use what
// another process sampled, and leave out what is not recent.
func TestDepthsOfTheApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(nil)
		a, b := newFakeApp(t, rows, true), newFakeApp(t, rows, true)
		time.Sleep(10 * time.Second)
		for range 40 {
			got := a.scrape(t)
			// Of five messages, two processes work on two each.
			if got[readyDepth] != 1 || got[`kennel_queue_depth{kind="in_flight",queue="work-0"}`] != 4 ||
				got[`kennel_queue_depth{kind="dead_letters",queue="work-0"}`] != 1 || got[`kennel_queue_oldest_message_seconds{queue="work-0"}`] != 1.5 {
				t.Fatalf("%v, want the depths", got)
			}
			time.Sleep(7 * time.Second)
			b.scrape(t)
			time.Sleep(7 * time.Second)
		}
		if n := a.samples.Load() + b.samples.Load(); n < 7 || n > 10 {
			t.Errorf("%d samples in 9 minutes, want one a minute at most", n)
		}
		for _, m := range []*fakeApp{a, b} {
			m.quesErr = errors.New("reset")
		}
		time.Sleep(observe.ForScrape.Lasts)
		before := a.samples.Load()
		for range 30 {
			if _, ok := a.scrape(t)[readyDepth]; ok {
				t.Fatal("an old depth")
			}
			time.Sleep(5 * time.Second)
		}
		if n := a.samples.Load() - before; n != 3 {
			t.Errorf("%d samples that fail in 150 s, want 3", n)
		}
	})
}

// TestMetricsWithoutTable: an app without tables has metrics of the process that
// answers, and one whose table fails has none.
func TestMetricsWithoutTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFakeApp(t, nil, true)
		time.Sleep(time.Second)
		if got := a.scrape(t); got[`kennel_invocations_total{kind="functions",process="`+a.Name()+`"}`] != 1 || got[readyDepth] != 3 {
			t.Errorf("%v, want this process and the depths", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		rows := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(c memory.Call) memory.Fault { return memory.Fault{Lost: fails.Load()} }}})
		a := newFakeApp(t, rows, true)
		time.Sleep(10 * time.Second)
		fails.Store(true)
		w := apptest.ServeDescribed(t, a.host, httptest.NewRequestWithContext(t.Context(), "GET", "/api/metrics", nil), "")
		if w.Code != 503 || !strings.Contains(w.Body.String(), "storage_unavailable") {
			t.Errorf("%d %s, want 503", w.Code, w.Body)
		}
	})
}

// scrape reads the metrics of a worker.
func (f *fakeWorker) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	f.probes.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	return apptest.Series(t, w.Body.String())
}

// TestMetricsOfAWorker: a worker counts what became of its messages. A scrape
// samples the queues at most once a minute, and waits for that for two seconds
// at most.
func TestMetricsOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		queues := memory.NewQueues(&memory.Options{Fault: func(c memory.Call) memory.Fault { return memory.Fault{Lost: silent.Load() && c.Op == "Peek"} }})
		f := newFakeWorker(t, queues, memory.NewTable(nil), nil)
		deleted := f.channel(t, "news")
		f.put(t, "!!")
		f.put(t, worker.InBase64(apptest.DeletionOf(deleted)))
		time.Sleep(time.Minute)
		if d, err := f.channels.Deletion(t.Context(), "news", ""); err != nil || d.State != channels.Done {
			t.Fatalf("%+v, %v", d, err)
		}
		got := f.scrape(t)
		outcome := func(name string) string {
			return `kennel_queue_messages_total{outcome="` + name + `",queue="` + names.CleanupQueue + `"}`
		}
		const receives, age = `kennel_queue_receives_total{queue="` + names.CleanupQueue + `"}`, `kennel_message_age_seconds_count{queue="` + names.CleanupQueue + `"}`
		// The dead letter is not text, so it is moved as it is. The deletion may
		// take several messages.
		if got[outcome("dead_letter")] != 1 || got[outcome("done")] < 1 || got[age] < 2 || got[receives] < 2 || got[`kennel_queue_empty_receives_total{queue="work-0"}`] < 2 ||
			got[`kennel_queue_depth{kind="dead_letters",queue="`+names.CleanupQueue+`"}`] != 1 || got["go_goroutines"] < 1 || got["kennel_invocations_total"] != got[outcome("done")]+got[outcome("dead_letter")]-1 {
			t.Errorf("%v, want the outcomes of two messages", got)
		}
		before := queues.CallsOf("Peek")
		for range 11 {
			f.scrape(t)
			time.Sleep(5 * time.Second)
		}
		if n := queues.CallsOf("Peek") - before; n != 0 {
			t.Errorf("%d peeks for scrapes within a minute, want none", n)
		}
		silent.Store(true)
		time.Sleep(observe.ForScrape.Lasts)
		began := time.Now()
		late := f.scrape(t)
		if took := time.Since(began); took > observe.SampleTimeout {
			t.Errorf("a scrape took %v", took)
		}
		if _, ok := late[`kennel_queue_depth{kind="ready",queue="`+names.CleanupQueue+`"}`]; ok || late[receives] <= got[receives] {
			t.Errorf("%v, want the counts without the depth", late)
		}
		f.end(t)
	})
}
