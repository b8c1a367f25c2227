package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/storetest"
	"kennel/work"
)

// emptyQueue matches the status of a queue of parcels that is empty.
var emptyQueue = regexp.MustCompile(`"work-(express|0)":\{"ready":0,"inFlight":0,`)

// TestBatchOfWorkers: the real app accepts a batch on storage, which real
// workers process while their gate is open; in make prove with one killed in
// between.
func TestBatchOfWorkers(t *testing.T) {
	t.Parallel()
	storage := "AzureWebJobsStorage=" + storetest.OwnStorage(t).ConnectionString()
	n := storetest.Scale(300, 3000)
	const gate = "KENNEL_WORK_GATE=billing"
	app := start(t, built.handler, storage, gate)
	w := launchWorker(t, storage, gate, "KENNEL_WORKER_LEASE=10s")
	w.ready(t)
	status, header, body := app.call(t, "POST", "/api/batches?processor=billing", strings.NewReader(apptest.Items(n)), "Content-Type", api.NdjsonMedia, "Idempotency-Key", "k")
	address := header.Get("Location")
	if status != 202 || address == "" {
		t.Fatalf("%d %s", status, body)
	}
	read := func() (b work.Batch) {
		status, _, body := app.call(t, "GET", address, nil)
		if err := json.Unmarshal([]byte(body), &b); err != nil || status != 200 {
			t.Fatalf("%d %s, %v", status, body, err)
		}
		return b
	}
	if b := read(); b.State != work.Held || b.Items != n {
		t.Errorf("before the release: %+v", b)
	}
	app.gate(t, "POST", "billing/release", "{}")
	for read().Done == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if n > 300 {
		w.kill()
		w = launchWorker(t, storage, gate, "KENNEL_WORKER_LEASE=10s")
	}
	deadline := time.Now().Add(5 * time.Minute)
	for read().State != work.Done {
		if time.Now().After(deadline) {
			t.Fatalf("after five minutes: %+v\n%s", read(), w.output)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if b := read(); b.Done != n || b.Rejected+b.Failed > 0 || b.StorageOperations <= int64(b.Parcels) {
		t.Errorf("at the end: %+v", b)
	}
	if status, header, report := app.call(t, "GET", address+"/report", nil, "Accept", "text/csv"); status != 200 || header.Get("Content-Type") != api.CsvType[0] ||
		report != fmt.Sprintf("account,currency,amount,items\na0,EUR,%[1]d.00,%[2]d\na1,EUR,%[1]d.00,%[2]d\n", n*5/4, n/2) {
		t.Errorf("report: %d %v %s", status, header, report)
	}
	// The status shows samples of the queues that are some seconds old.
	for {
		status, _, body := app.call(t, "GET", "/api/status", nil)
		if status == 200 && !strings.Contains(body, "dead_letters") && !strings.Contains(body, "partition_mismatch") && emptyQueue.MatchString(body) && strings.Contains(body, `"batches":{"operations":`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("status after five minutes: %d %s", status, body)
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.terminate()
	if code := w.exitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0\n%s", code, w.output)
	}
}
