package parts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/azure/requests"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/relay"
)

// call makes a call and decodes the answer.
func (w *relayWorld) call(t *testing.T, method, path string, answer any) (status int) {
	t.Helper()
	got := apptest.ServeDescribed(t, w.host, httptest.NewRequestWithContext(t.Context(), method, path, nil), "")
	decoder := json.NewDecoder(got.Body)
	decoder.DisallowUnknownFields()
	if got.Code != http.StatusOK {
		return got.Code
	}
	if err := decoder.Decode(answer); err != nil {
		t.Fatal(err)
	}
	return got.Code
}

type relayList struct {
	Items   []api.RelayItem
	Partial bool
}

// TestOutage follows messages through an outage: what callers, operators and the
// log see of it, and that all of them arrive.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRelayWorld(t, true)
		w.sentAs(t, "news", "before")
		began := time.Now()
		w.failOver(t, "orders")
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the failover took %v", took)
		}
		for i := range 10 {
			if got := w.sentAs(t, "orders", fmt.Sprint(i)); got.SentTo != "backlog" {
				t.Fatalf("%+v, want it in the backlog", got)
			}
		}
		var list relayList
		w.call(t, "GET", "/api/relay", &list)
		if len(list.Items) != 2 || list.Partial || list.Items[0].Entity != "news" || list.Items[0].State != "healthy" || list.Items[0].LastError != "" ||
			list.Items[1].State != "failedOver" || !strings.Contains(list.Items[1].LastError, errTest.Error()) || list.Items[1].Since.Before(began) || list.Items[1].Backlog != nil {
			t.Errorf("%+v", list)
		}
		time.Sleep(time.Second)
		var run api.SyphonRun
		if status := w.call(t, "POST", "/api/relay/syphon", &run); status != 200 || run.Moved != 0 || run.Held != 11 || !run.More {
			t.Errorf("%d %+v, want all of them held", status, run)
		}
		list = relayList{}
		w.call(t, "GET", "/api/relay", &list)
		if b := list.Items[1].Backlog; b == nil || b.Messages != 11 || b.OldestSeconds <= 0 || b.More || list.Items[0].Backlog.Messages != 0 {
			t.Errorf("%+v, want 11 messages in the backlog of orders", b)
		}
		if p := w.Problems(); len(p) > 0 {
			t.Errorf("problems %+v after %v", p, time.Since(began))
		}
		time.Sleep(maxBacklogAge)
		w.tick(t)
		p := w.Problems()
		if len(p) != 1 || p[0].Code != instances.BacklogOld || p[0].Subject != "orders" || p[0].Count != 11 || p[0].Since.After(time.Now()) || p[0].Since.Before(began.Add(maxBacklogAge)) {
			t.Errorf("problems %+v, want that the backlog is old", p)
		}

		w.primary.fails(nil)
		time.Sleep(time.Minute) // two pings, and the pause of the target
		w.tick(t)
		if got := w.sentAs(t, "orders", "after"); got.SentTo != "primary" {
			t.Errorf("%+v, want it in the primary namespace", got)
		}
		if n := len(w.primary.messages("orders")); n != 12 {
			t.Errorf("%d messages arrived, want 12", n)
		}
		if p := w.Problems(); len(p) > 0 {
			t.Errorf("problems %+v after the outage", p)
		}
		var r instances.Report
		w.Facts(&r)
		want := instances.Sends{Primary: 2, Backlog: 11, Failovers: 1, Failbacks: 1, Moved: 11}
		waiting := instances.BacklogSection.Of(r)
		if diff := cmp.Diff(want, instances.SendSection.Of(r)); diff != "" || waiting == nil || len(waiting.Entities) != 0 {
			t.Errorf("%+v (-want +got):\n%s", waiting, diff)
		}
		for message, least := range map[string]int{
			"messages go to the backlog, because the primary namespace does not take them":  1,
			"messages go to the primary namespace again":                                    1,
			"the primary namespace does not take messages":                                  1,
			"the primary namespace does not answer pings":                                   1,
			"messages wait in the backlog, because their queue or topic does not take them": 1,
			"a backlog queue is empty again":                                                1,
			"messages of the backlog were moved":                                            2,
		} {
			if n := w.lines(message); n < least {
				t.Errorf("%d lines %q, want %d; the log:\n%s", n, message, least, w.log)
			}
		}
		time.Sleep(reportedFor + time.Second)
		r = instances.Report{}
		w.Facts(&r)
		if all := instances.RelaySection.Of(r); len(all) > 0 {
			t.Errorf("%+v, want none an hour after the last send", all)
		}
	})
}

// tick fires the timer.
func (w *relayWorld) tick(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(customhandler.Trigger{Function: "Syphon", Binding: "tick"}.Timer(customhandler.Tick{}))
	if err != nil {
		t.Fatal(err)
	}
	got := httptest.NewRecorder()
	w.host.ServeHTTP(got, apptest.Enveloped(t.Context(), "Syphon", string(text)))
	if got.Code != http.StatusOK {
		t.Errorf("the timer: %d %s", got.Code, got.Body)
	}
}

// TestSyphonFailures: a pass that cannot read the backlog, or moves only a part
// of it.
func TestSyphonFailures(t *testing.T) {
	for _, tt := range []struct {
		class  relay.Class
		code   string
		denied int
	}{{relay.Unavailable, "bus_unavailable", 0}, {relay.Throttled, "bus_busy", 0}, {relay.Denied, "bus_denied", 1}} {
		synctest.Test(t, func(t *testing.T) {
			w := newRelayWorld(t, true)
			w.secondary.fails(with(tt.class))
			got := apptest.ServeDescribed(t, w.host, httptest.NewRequestWithContext(t.Context(), "POST", "/api/relay/syphon", nil), "")
			if got.Code != 503 || !strings.Contains(got.Body.String(), tt.code) || got.Header().Get("Retry-After") == "" || len(w.Problems()) < tt.denied {
				t.Errorf("%v: %d %v %s, want 503 %s; problems %+v", tt.class, got.Code, got.Header(), got.Body, tt.code, w.Problems())
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newRelayWorld(t, true)
		w.failOver(t, "orders")
		for range 20 { // in both queues
			w.sentAs(t, "orders", "x")
		}
		w.primary.fails(nil)
		w.secondary.fails(func(_ context.Context, _, queue string) error {
			if queue == w.queues[0] {
				return &relay.Error{Class: relay.Unavailable, Unsent: true, Err: errTest}
			}
			return nil
		})
		var run api.SyphonRun
		if status := w.call(t, "POST", "/api/relay/syphon", &run); status != 200 || run.Moved == 0 || !run.More || w.lines("cannot move all messages of the backlog") != 1 {
			t.Errorf("%d %+v, want a part of them moved; the log:\n%s", status, run, w.log)
		}
	})
}

// TestSecondaryDoesNotAnswer: it is a problem although the primary works, of a
// host and of a worker, until it answers again.
func TestSecondaryDoesNotAnswer(t *testing.T) {
	for _, isWorker := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newRelayWorld(t, true)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			wait := func(minutes int) {
				for range minutes {
					if !isWorker {
						_, _ = w.pass(ctx, w.syphon.Pass) // as the timer does; the host logs its error
					}
					time.Sleep(time.Minute)
				}
			}
			if isWorker {
				go func() { ended <- w.Work(ctx) }()
			} else {
				ended <- nil
			}
			wait(1)
			w.secondary.fails(with(relay.Unavailable))
			wait(20)
			if p := w.Problems(); len(p) != 1 || p[0].Code != instances.BusDisconnected || p[0].Subject != allQueues || !strings.Contains(p[0].What, errTest.Error()) {
				t.Errorf("worker %t: problems %+v", isWorker, p)
			}
			w.secondary.fails(nil)
			wait(10)
			if p := w.Problems(); len(p) > 0 {
				t.Errorf("worker %t: problems %+v after the secondary answers again", isWorker, p)
			}
			stop()
			<-ended
		})
	}
}

// TestFollow: a worker moves messages as soon as it can, and samples a backlog
// that holds messages twice a minute, and an empty one rarely.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRelayWorld(t, true)
		var peeks atomic.Int64
		w.secondary.fails(func(_ context.Context, op, _ string) error {
			if op == "peek" {
				peeks.Add(1)
			}
			return nil
		})
		samples := func() int64 { return peeks.Swap(0) / int64(len(w.queues)) }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Work(ctx) }()
		time.Sleep(time.Hour)
		if n := samples(); n < 6 || n > 15 {
			t.Errorf("%d samples of an empty backlog in an hour", n)
		}
		w.failOver(t, "orders")
		time.Sleep(10 * time.Minute)
		if b := w.backlog.latest(); b == nil || len(b.Entities) != 1 || b.Entities[0].Messages != 1 || time.Since(b.At) > time.Minute || len(w.Problems()) != 1 {
			t.Errorf("%+v, want a message that waits, and a problem", b)
		}
		if n := samples(); n < 15 || n > 45 {
			t.Errorf("%d samples of the backlog in ten minutes", n)
		}
		w.primary.fails(nil)
		time.Sleep(2 * time.Minute)
		if b := w.backlog.latest(); b == nil || len(b.Entities) != 0 || len(w.primary.messages("orders")) != 1 || len(w.Problems()) != 0 {
			t.Errorf("%+v, want an empty backlog", b)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOldSampleIsDropped: a process that moves nothing any more does not report
// for long what it saw.
func TestOldSampleIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			sample instances.Backlog
			lasts  time.Duration
		}{{instances.Backlog{}, observe.OfEmptyBacklog.Lasts}, {instances.Backlog{Entities: []instances.BacklogEntity{{Entity: "orders", Messages: 1, OldestSeconds: 1000}}}, observe.OfBacklog.Lasts}} {
			var b backlogSample
			tt.sample.At = time.Now()
			b.set(&tt.sample)
			time.Sleep(tt.lasts)
			if b.latest() == nil || len(b.Problems()) != len(tt.sample.Entities) {
				t.Errorf("%+v is dropped after %v", tt.sample, tt.lasts)
			}
			time.Sleep(time.Second)
			if b.latest() != nil || len(b.Problems()) > 0 {
				t.Errorf("%+v is reported after more than %v", tt.sample, tt.lasts)
			}
		}
	})
}

// TestJoinRelay: the worst state of all processes counts, and the newest sample.
func TestJoinRelay(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 23, 9, minute, 0, 0, time.UTC) }
	entity := func(name, state string, minute int, throttled bool, lastErr string) instances.RelayEntity {
		return instances.RelayEntity{Entity: name, State: state, Since: at(minute), Throttled: throttled, LastError: lastErr}
	}
	report := func(backlog *instances.Backlog, entities ...instances.RelayEntity) (r instances.Report) {
		instances.RelaySection.Add(&r, entities)
		instances.BacklogSection.Add(&r, backlog)
		return r
	}
	reports := []instances.Report{
		report(&instances.Backlog{At: at(8), Entities: []instances.BacklogEntity{{Entity: "a", Messages: 1, OldestSeconds: 1}}},
			entity("a", "healthy", 1, true, ""), entity("b", "failedOver", 9, false, "b9"), entity("c", "of a newer build", 3, false, "")),
		report(&instances.Backlog{At: at(9), More: true, Entities: []instances.BacklogEntity{{Entity: "b", Messages: 7, OldestSeconds: 8.5}, {Entity: "z", Messages: 2, OldestSeconds: 3}}},
			entity("a", "suspect", 5, false, "a5"), entity("b", "failedOver", 7, false, "b7")),
		report(nil, entity("b", "healthy", 0, false, "")),
	}
	since := func(minute int) *time.Time { t := at(minute); return &t }
	waiting := func(n int64, oldest float64) *observe.BacklogItem {
		return &observe.BacklogItem{Messages: n, OldestSeconds: oldest, More: true, At: at(9)}
	}
	want := []api.RelayItem{
		{Entity: "a", State: "suspect", Since: since(5), Throttled: true, LastError: "a5", Backlog: waiting(0, 0)},
		{Entity: "b", State: "failedOver", Since: since(7), Throttled: false, LastError: "b7", Backlog: waiting(7, 8.5)},
		{Entity: "c", State: "healthy", Since: nil, Throttled: false, LastError: "", Backlog: waiting(0, 0)},
		{Entity: "z", State: "healthy", Since: nil, Throttled: false, LastError: "", Backlog: waiting(2, 3)},
	}
	if diff := cmp.Diff(want, api.JoinRelay(reports)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if got := api.JoinRelay(reports[2:]); len(got) != 1 || got[0].Backlog != nil {
		t.Errorf("%+v, want no backlog without a sample", got)
	}
	if got := api.JoinRelay(nil); got == nil || len(got) > 0 {
		t.Errorf("%v, want an empty list", got)
	}
}

// TestRelayOfAll: the answer has what other processes reported.
func TestRelayOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newRelayWorld(t, true), newRelayWorld(t, true)
		b.Members.Rows = a.rows
		reporter := instances.NewReporter(a.Members.Self, a.rows, a.relayPart.log)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- reporter.Run(ctx) }()
		a.failOver(t, "orders")
		a.tick(t)
		time.Sleep(time.Minute)
		var list relayList
		b.call(t, "GET", "/api/relay", &list)
		if len(list.Items) != 1 || list.Items[0].State != "failedOver" || list.Items[0].Backlog == nil || list.Items[0].Backlog.Messages != 1 || list.Partial {
			t.Errorf("%+v, want what the other process reported", list)
		}
		b.Members.Rows = nil
		list = relayList{}
		if b.call(t, "GET", "/api/relay", &list); len(list.Items) != 0 || !list.Partial {
			t.Errorf("%+v, want it partial without the table", list)
		}
		stop()
		<-ended
	})
}

// TestRelayInStatus: the status of each process has the backlog and the failover
// that another one reports, and nothing of a relay without a second namespace.
func TestRelayInStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newRelayWorld(t, true), newRelayWorld(t, true)
		b.Members.Rows = a.rows
		ctx, _ := contextOf(t)
		go instances.NewReporter(a.Members.Self, a.rows, a.relayPart.log).Run(ctx)
		settings := map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"}
		status := func() *observe.RelayStatus {
			cfg, err := config.Load(settings)
			if err != nil {
				t.Fatal(err)
			}
			b.Members.Watch(append(sourcesOf(job{report: reportNone, probes: map[string]observe.Probe{"blobs": func(context.Context) error { return nil }}}), b.relayPart)...)
			host := newRelayHost(t, []edge.Route{{Function: "Status", Pattern: "GET /api/status", Handler: api.ServeStatus((&observe.StatusReader{Account: cfg.Storage.String(), Relays: cfg.ServiceBusSecondary.Given(), Members: b.Members, Counter: &requests.Counter{}}).Read)}})
			var answer observe.Status
			if err := json.Unmarshal(apptest.ServeDescribed(t, host, httptest.NewRequestWithContext(t.Context(), "GET", "/api/status", nil), "").Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			return answer.Relay
		}
		if s := status(); s != nil {
			t.Errorf("%+v without a second namespace", s)
		}
		settings["ServiceBus"] = "Endpoint=sb://one.example.com/;SharedAccessKeyName=k;SharedAccessKey=a2V5"
		settings["ServiceBusSecondary"] = "Endpoint=sb://two.example.com/;SharedAccessKeyName=k;SharedAccessKey=a2V5"
		if s := status(); s == nil || s.FailedOver != 0 || s.Backlog != nil {
			t.Errorf("%+v, want a relay of which nothing is known", s)
		}
		a.failOver(t, "orders")
		a.failOver(t, "returns")
		a.tick(t)
		time.Sleep(time.Minute)
		if s := status(); s == nil || s.FailedOver != 2 || s.Backlog == nil || s.Backlog.Messages != 2 || s.Backlog.OldestSeconds <= 0 || s.Backlog.More || time.Since(s.Backlog.At) > 2*time.Minute {
			t.Errorf("%+v, want two queues failed over and a message of each in the backlog", s)
		}
		a.primary.fails(nil)
		time.Sleep(time.Minute)
		a.tick(t)
		time.Sleep(time.Minute)
		if s := status(); s == nil || s.FailedOver != 0 || s.Backlog == nil || s.Backlog.Messages != 0 {
			t.Errorf("%+v, want nothing of the outage", s)
		}
	})
}

// An event of a backlog queue has no entity, so its log line has none.
func TestLogOfBacklogQueue(t *testing.T) {
	var out bytes.Buffer
	f := &relayPart{log: slog.New(slog.NewTextHandler(&out, nil))}
	f.happened(relay.Event{Kind: relay.Drained, Queue: "backlog/0"})
	if !strings.HasSuffix(out.String(), "msg=\"a backlog queue is empty again\" queue=backlog/0\n") {
		t.Errorf("got %s", out.String())
	}
}
