package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"kennel/internal/api"
	"kennel/internal/storetest"
	"kennel/work"
)

// TestMemoryOfBatches submits 100,000 transactions of 163 bytes to a handler, has
// a worker process them, and measures the resident memory of both.
func TestMemoryOfBatches(t *testing.T) {
	storetest.OnlyInProve(t)
	const items, limit = 100_000, 100
	connection := "AzureWebJobsStorage=" + storetest.OwnStorage(t).ConnectionString()
	handler := start(t, built.shippedHandler, connection)
	worker := launchProgramWorker(t, built.shippedHandler, connection)
	worker.ready(t)
	var body strings.Builder
	for i := range items {
		fmt.Fprintf(&body, `{"id":"order-%07d","account":"account-%04d","sku":"monthly rent of a kennel with a garden and heating","quantity":"%d.5","unitPrice":"%d.%04d","currency":"EUR"}`+"\n",
			i, i*7919%1000, i%9+1, i%900+100, i*7%10_000)
	}
	status, _, text := handler.call(t, "POST", "/api/batches?processor=billing", strings.NewReader(body.String()), "Content-Type", api.NdjsonMedia)
	var batch work.Batch
	if err := json.Unmarshal([]byte(text), &batch); err != nil || status != 202 {
		t.Fatalf("submit: %d %s, %v", status, text, err)
	}
	for deadline := time.Now().Add(2 * time.Minute); batch.State != work.Done; time.Sleep(100 * time.Millisecond) {
		if _, _, text = handler.call(t, "GET", "/api/batches/"+batch.ID, nil); time.Now().After(deadline) {
			t.Fatalf("the batch is not done: %s\n%s", text, worker.output)
		}
		if err := json.Unmarshal([]byte(text), &batch); err != nil {
			t.Fatal(err)
		}
	}
	if status, _, text := handler.call(t, "GET", "/api/batches/"+batch.ID+"/report", nil); status != 200 || batch.Done != items {
		t.Errorf("%d of %d items are done, report %d %.200s", batch.Done, items, status, text)
	}
	for name, p := range map[string]*process{"handler that takes": handler, "worker that processes": worker.process} {
		peak := peakMemory(t, p)
		t.Logf("figure: peak resident memory of a %s a batch of 100,000 transactions | %d MiB | ≤ %d MiB", name, peak, limit)
		if peak > limit {
			t.Errorf("the %s took %d MiB, want at most %d", name, peak, limit)
		}
	}
}
