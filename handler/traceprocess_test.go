package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/names"
	"kennel/internal/otlptest"
	"kennel/internal/storetest"
	"kennel/internal/trace"
	"kennel/internal/worker"
	"kennel/work"
)

// TestTracesOfProcesses: what the real app and a real worker send to a collector
// shows a batch on storage as one trace, from its submission to its report, with
// the requests to storage, and the message of a channel in the trace that it
// names.
func TestTracesOfProcesses(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	connection := storetest.OwnStorage(t).ConnectionString()
	endpoint := otlptest.Serve(t)
	env := []string{"AzureWebJobsStorage=" + connection, "OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint.URL}
	app, w := start(t, built.handler, env...), launchWorker(t, env...)
	w.ready(t)
	if status, _, body := app.call(t, "POST", "/api/sequences/orders/next", nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	const ofChannel = "00-1111111111111111aaaaaaaaaaaaaaaa-2222222222222222-01"
	channel := app.channels(t, "PUT", "/news", `{"owner":"ann"}`)
	queues, err := azure.Account{ConnectionString: connection}.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	message := worker.InBase64(`{"v":1,"channel":"news","incarnation":"` + channel.Incarnation + `","traceparent":"` + ofChannel + `"}`)
	if _, err := queues.Put(t.Context(), names.CleanupQueue, message, 0); err != nil {
		t.Fatal(err)
	}
	status, header, body := app.call(t, "POST", "/api/batches?processor=billing", strings.NewReader(apptest.Items(2000)), "Content-Type", api.NdjsonMedia, "Traceparent", apptest.SomeParent)
	if status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	var batch work.Batch
	for deadline := time.Now().Add(time.Minute); batch.State != work.Done; time.Sleep(10 * time.Millisecond) {
		_, _, body := app.call(t, "GET", header.Get("Location"), nil)
		if err := json.Unmarshal([]byte(body), &batch); err != nil || time.Now().After(deadline) {
			t.Fatalf("%s, %v\n%s", body, err, w.output)
		}
	}
	for app.channels(t, "GET", "/news/deletion", "").State != "done" {
		time.Sleep(10 * time.Millisecond)
	}
	for _, p := range []*process{app, w.process} { // sends the last spans
		p.terminate()
		if code := p.exitCode(t); code != 0 {
			t.Errorf("exit code %d\n%s", code, p.output)
		}
	}
	spans, kinds := make(map[string]int), make(map[string]bool)
	ids := map[string]bool{"": true, apptest.SomeParent[36:52]: true, ofChannel[36:52]: true}
	for _, s := range endpoint.Spans() {
		ids[s.ID] = true
	}
	for _, s := range endpoint.Spans() {
		if !ids[s.Parent] {
			t.Errorf("%s of the %s has a parent that no process sent", s.Name, s.Process["kennel.kind"])
		}
		if s.Failed != "" || s.Began.After(s.Ended) || s.Process["service.name"] != "kennel" {
			t.Errorf("%+v", s)
		}
		switch s.Trace {
		case apptest.SomeParent[3:35]:
			if s.Attributes[trace.Status] == "404" {
				continue // the first put into a queue, which is created then
			}
			spans[s.Name]++
			kinds[s.Process["kennel.kind"]] = true
		case ofChannel[3:35]:
			spans["channel: "+s.Name]++
		default:
			if s.Parent == "" != (s.Kind == "SPAN_KIND_SERVER") {
				t.Errorf("%s began a trace", s.Name)
			}
		}
	}
	t.Logf("spans of the batch and of the channel: %v", spans)
	for name, want := range map[string]int{
		"POST /api/batches": 1, "process work-0": batch.Parcels / 4, "receive work-0": batch.Parcels / 4, "publish work-0": batch.Parcels / 4,
		"gather":                                 1,
		"channel: process " + names.CleanupQueue: 1, "channel: receive " + names.CleanupQueue: 1, "channel: queue delete": 1,
	} {
		if spans[name] < want { // a delivery or a request may be repeated
			t.Errorf("%d spans %q, want %d or more", spans[name], name, want)
		}
	}
	// Staging, the ledger, the results and the report; each message is deleted.
	for _, name := range []string{"blob put", "table insert", "table update", "blob get"} {
		if spans[name] == 0 {
			t.Errorf("no span %q", name)
		}
	}
	if n := spans["queue delete"]; n < batch.Parcels || len(kinds) != 2 {
		t.Errorf("%d deletes of messages, processes %v", n, kinds)
	}
}

// TestCollectorsThatFail: the real app answers, and ends in order, whatever its
// collector does.
func TestCollectorsThatFail(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	hold := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	t.Cleanup(func() { close(hold); hangs.Close() })
	fails := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(fails.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, tt := range []struct{ name, url, log string }{
		{"hangs", hangs.URL, "cannot send the last traces before the stop; they are lost"},
		{"answers 500", fails.URL, "cannot send traces; they are lost"},
		{"is gone", gone.URL, "cannot send traces; they are lost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, built.handler, withStorage(t), "OTEL_EXPORTER_OTLP_ENDPOINT="+tt.url, "OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1")
			name := storetest.Name()
			for range 200 {
				if status, _, body := p.call(t, "POST", "/api/sequences/"+name+"/next", nil); status != 200 {
					t.Fatalf("%d %s", status, body)
				}
			}
			p.terminate()
			if code := p.exitCode(t); code != 0 || strings.Count(p.output.String(), tt.log) != 1 || !strings.Contains(p.output.String(), `"msg":"stopped"`) {
				t.Errorf("exit code %d, want 0 and one line %q\n%s", code, tt.log, p.output)
			}
		})
	}
}
