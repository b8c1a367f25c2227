package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/api"
	"kennel/internal/azure"
	"kennel/internal/storetest"
	"kennel/work"
)

// TestBatchInterrupted interrupts the real app while it reads a batch, and the
// real worker while it processes one.
func TestBatchInterrupted(t *testing.T) {
	t.Parallel()
	connection := storetest.OwnStorage(t).ConnectionString()
	t.Run("caller disconnects", func(t *testing.T) { callerDisconnects(t, connection) })
	t.Run("worker drains", func(t *testing.T) { workerStops(t, connection, "1h", 1) })
	t.Run("worker returns its parcel", func(t *testing.T) { workerStops(t, connection, "100ms", 2) })
}

// callerDisconnects: a caller disconnects in the middle of the body, after
// parcels were staged. Nothing is left, and it is no failure of the app.
func callerDisconnects(t *testing.T, connection string) {
	storetest.OnlyInProve(t) // megabytes are read before parcels are staged
	account := azure.Account{ConnectionString: connection}
	app := start(t, built.handler, "AzureWebJobsStorage="+connection)
	var body strings.Builder
	noise := rand.NewChaCha8([32]byte{1})
	name := make([]byte, 150)
	for i := range 30_000 { // more than a staged blob holds
		noise.Read(name)
		fmt.Fprintf(&body, `{"id":"%d","account":"%s","sku":"rent","quantity":1,"unitPrice":1,"currency":"EUR"}`+"\n", i, base64.StdEncoding.EncodeToString(name))
	}
	caller, err := net.Dial("tcp", strings.TrimPrefix(app.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	fmt.Fprintf(caller, "POST /api/batches?processor=billing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", api.NdjsonMedia, 2*body.Len())
	if _, err := io.WriteString(caller, body.String()); err != nil {
		t.Fatal(err)
	}
	staged := func(wanted bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); (len(stagedOf(t, account, "")) > 0) != wanted; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("staged blobs %q, want any: %t", stagedOf(t, account, ""), wanted)
			}
		}
	}
	staged(true)
	caller.Close()
	staged(false)

	var list work.List[work.Batch]
	app.request(t, "GET", "/api/batches", "", &list)
	if len(list.Items) > 0 {
		t.Errorf("batches %+v, want none", list.Items)
	}
	app.terminate()
	if code := app.exitCode(t); code != 0 || strings.Contains(app.output.String(), `"level":"ERROR"`) {
		t.Errorf("exit code %d, want 0 and no error in the log:\n%s", code, app.output)
	}
}

// receiver answers the requests of the processor webhook, at first late.
type receiver struct {
	begun  chan struct{} // has an element for each request
	answer chan struct{} // closed when requests are answered

	mu    sync.Mutex
	calls map[string]int // by key
}

func (s *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // or the end of the caller is not noticed
	s.mu.Lock()
	s.calls[r.Header.Get("Idempotency-Key")]++
	s.mu.Unlock()
	s.begun <- struct{}{}
	select {
	case <-s.answer:
	case <-r.Context().Done():
	}
}

// workerStops: a worker is stopped by SIGTERM while a receiver is slow to answer
// the items of a parcel. It waits for the answers, or leaves the parcel to
// another worker, which makes that many calls of each item. Each item has one
// result.
func workerStops(t *testing.T, connection, drain string, calls int) {
	const n = 3
	s := &receiver{begun: make(chan struct{}, 3*n), answer: make(chan struct{}), calls: make(map[string]int)}
	server := httptest.NewServer(s)
	defer server.Close()
	env := []string{"AzureWebJobsStorage=" + connection, "KENNEL_WEBHOOK_ALLOW=" + server.URL}
	app := start(t, built.handler, env...)
	w := launchWorker(t, append(env, "KENNEL_WORKER_DRAIN="+drain)...)
	w.ready(t)
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"%d","url":"%s/","body":%d}`+"\n", i, server.URL, i)
	}
	var b work.Batch
	if status, _, body := app.request(t, "POST", "/api/batches?processor=webhook", lines.String(), &b, "Content-Type", api.NdjsonMedia); status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	for range n {
		<-s.begun
	}
	w.terminate()
	if calls == 1 {
		for {
			if status, _ := w.probe(t, "/readyz"); status == 503 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		close(s.answer)
	}
	if code := w.exitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if calls > 1 {
		close(s.answer)
	}
	launchWorker(t, env...)
	for deadline := time.Now().Add(time.Minute); b.State != work.Done; time.Sleep(5 * time.Millisecond) {
		if b = (work.Batch{ID: b.ID}); time.Now().After(deadline) {
			t.Fatal("the batch is not done within a minute")
		}
		app.request(t, "GET", "/api/batches/"+b.ID, "", &b)
	}
	var results work.List[work.Result]
	app.request(t, "GET", "/api/batches/"+b.ID+"/results", "", &results)
	if b.Done != n || b.Rejected+b.Failed > 0 || len(results.Items) != n {
		t.Errorf("%+v with %d results, want %d done", b, len(results.Items), n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, got := range s.calls {
		if got != calls {
			t.Errorf("%d requests with key %s, want %d", got, key, calls)
		}
	}
	if len(s.calls) != n {
		t.Errorf("%d keys, want %d", len(s.calls), n)
	}
}
