package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/cost/bill"
	"kennel/internal/dev/localhost"
	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
	"kennel/work"
)

// received returns how many requests a proxy has received.
func received(p *faultproxy.Proxy) (sum int64) {
	for _, n := range p.Requests.All() {
		sum += n
	}
	return sum
}

// billed returns how many operations a bill has without those that are
// modelled, and with them.
func billed(b *bill.Bill) (counted, all int64) {
	for _, j := range b.Jobs {
		if all += j.Operations; !j.Modelled {
			counted += j.Operations
		}
	}
	return counted, all
}

// TestBillOfProcesses: the bill has what processes counted that ended in order,
// an app and a worker: all that storage received, but for the last writes.
func TestBillOfProcesses(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	proxy, err := faultproxy.Start(storetest.OwnStorage(t).ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	storage := "AzureWebJobsStorage=" + proxy.ConnectionString()
	const processes = 3
	for i := range processes {
		p := start(t, built.handler, storage)
		p.call(t, "POST", fmt.Sprintf("/api/sequences/orders-%d/next", i), nil)
		p.terminate()
		p.exitCode(t)
	}
	w := launchWorker(t, storage)
	w.ready(t)
	w.terminate()
	w.exitCode(t)
	p := start(t, built.handler, storage, "KENNEL_PRICES=paper")
	answer, body := p.status(t)
	if answer.Bill == nil || answer.Bill.Prices.Name != "paper" {
		t.Fatalf("status %s, want a bill with the prices of the paper", body)
	}
	counted, _ := billed(answer.Bill)
	// The last write of a process is not in it: up to three requests if it makes
	// the table. What runs during the read may be missing, too.
	if missing := received(proxy) - counted; missing < 0 || missing > 30 || answer.Bill.Jobs["numbers"].Operations < processes {
		t.Errorf("the bill has %d of %d requests: %s", counted, received(proxy), body)
	}
}

// stageApp stages the function app as `kennel up` does, without a program.
func stageApp(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../functions")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../host.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "host.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestBillUnderAHost: the bill of an app under a local Functions host is within
// 5 % of the requests that a proxy in front of storage has received from the app
// and from the host.
func TestBillUnderAHost(t *testing.T) {
	storetest.OnlyInProve(t)
	proxy, err := faultproxy.Start(storetest.OwnStorage(t).ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	program, err := built.handler()
	if err != nil {
		t.Fatal(err)
	}
	queues, err := azure.Account{ConnectionString: proxy.ConnectionString()}.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	output := &apptest.Buffer{}
	host, err := localhost.New(stageApp(t), listener, &localhost.Options{
		Env:        map[string]string{"AzureWebJobsStorage": proxy.ConnectionString(), "KENNEL_PARTITIONS": "1"},
		Executable: program, Queues: queues, Console: output, Log: slog.New(slog.NewTextHandler(output, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		if err := host.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-host.Ready()
	if err := host.HandlerError(); err != nil {
		t.Fatal(err)
	}
	app := &process{url: "http://" + listener.Addr().String()}
	for range 20 {
		app.call(t, "POST", "/api/sequences/orders/next?count=1000", nil)
	}
	const n = 100_000
	status, header, body := app.call(t, "POST", "/api/batches?processor=billing", strings.NewReader(apptest.Items(n)), "Content-Type", api.NdjsonMedia)
	if status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var b work.Batch
		_, _, body := app.call(t, "GET", header.Get("Location"), nil)
		if err := json.Unmarshal([]byte(body), &b); err != nil {
			t.Fatal(err)
		}
		if b.State == work.Done {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after two minutes: %s\n%s", body, output)
		}
	}
	answer, text := app.status(t)
	counted := received(proxy)
	if answer.Bill == nil {
		t.Fatalf("status %s, want a bill", text)
	}
	own, all := billed(answer.Bill)
	off := math.Abs(float64(all)/float64(counted) - 1)
	t.Logf("figure: requests in the bill of an app under the local Functions host (%d, of which %d modelled), off a counting proxy (%d) | %.1f %% | ≤ 5 %%", all, all-own, counted, 100*off)
	if off > 0.05 || all == own {
		t.Errorf("the bill has %d operations, of which %d are modelled, and storage received %d: %v", all, all-own, counted, proxy.Requests.Operations())
	}
}
