package azurestore_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/azurestore"
	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
	"kennel/queue"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// account has what a program of package queue opens.
type account struct {
	queues *azurestore.Queues
	tables *azurestore.Tables
	blobs  *azurestore.Blobs
}

func openAccount(t *testing.T, options *azurestore.QueuesOptions) account {
	t.Helper()
	storage := storetest.Storage(t).ConnectionString()
	queues, err1 := azurestore.NewQueuesFromConnectionString(storage, options)
	tables, err2 := azurestore.NewTablesFromConnectionString(storage)
	blobs, err3 := azurestore.NewBlobsFromConnectionString(storage)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return account{queues, tables, blobs}
}

// places returns places for claims that no other test has.
func places() *azurestore.ClaimsOptions {
	name := storetest.Name()
	return &azurestore.ClaimsOptions{Table: strings.ReplaceAll(name, "-", ""), Container: name}
}

// TestQueue sends short and long messages as one process, and works on them as
// another one that the signals wake.
func TestQueue(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bus, err := devbus.Listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if err := bus.CreateTopic(azurestore.SignalsTopic, nil); err != nil {
		t.Fatal(err)
	}
	name, at := storetest.Name(), places()
	bodies := map[string][]byte{"short": []byte("hello"), "binary": random(300), "empty": {}, "row": random(1 << 20), "blob": random(4 << 20)}
	open := func() (account, *queue.Claims, *azurestore.Signals) {
		a := openAccount(t, nil)
		claims, err := azurestore.NewClaims(a.tables, a.blobs, at)
		if err != nil {
			t.Fatal(err)
		}
		signals, err := azurestore.NewSignalsFromConnectionString(bus.ConnectionString(), azurestore.SignalsTopic)
		if err != nil {
			t.Fatal(err)
		}
		return a, claims, signals
	}
	var running sync.WaitGroup
	life, stop := context.WithCancel(ctx)

	sender, packing, signals := open()
	defer signals.Close()
	publisher, err := queue.NewPublisher(sender.queues, &queue.PublisherOptions{Signals: signals.Queues()})
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() { publisher.Run(life) })

	worker, claims, heard := open()
	defer heard.Close()
	var mu sync.Mutex
	got := make(map[string][]byte)
	listener, err := queue.NewListener(worker.queues, []string{name}, queue.Packed{Claims: claims}, func(_ context.Context, d queue.Delivery[[]byte]) error {
		mu.Lock()
		defer mu.Unlock()
		if got[d.ID] = d.Body; len(got) == len(bodies) {
			stop()
		}
		return nil
	}, &queue.ListenerOptions{Signals: heard.Queues()})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for id, body := range bodies {
		text, err := packing.Pack(ctx, queue.Envelope{ID: id, Time: time.Now()}, body)
		if err == nil {
			texts = append(texts, text)
			err = publisher.Publish(ctx, name, text, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := listener.Run(life); err != nil {
		t.Error(err)
	}
	running.Wait()
	for id, body := range bodies {
		if !bytes.Equal(got[id], body) {
			t.Errorf("message %s arrived with %d bytes, want %d", id, len(got[id]), len(body))
		}
	}
	for _, text := range texts { // the bodies are removed with their messages
		e, err := queue.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := claims.Body(ctx, e); (err == nil) != e.ClaimExpires().IsZero() || err != nil && !errors.Is(err, queue.ErrClaimGone) {
			t.Errorf("body of message %s after its end: %v", e.ID, err)
		}
	}
	if n, err := worker.queues.Count(ctx, name); n != 0 || err != nil {
		t.Errorf("%d messages are left, %v", n, err)
	}
	if names, err := worker.queues.List(ctx, name); len(names) != 1 || err != nil {
		t.Errorf("queues %q, %v", names, err)
	}
}

// TestSweep: what no message needs is removed, and what one needs is not.
func TestSweep(t *testing.T) {
	ctx := t.Context()
	a, at, name := openAccount(t, &azurestore.QueuesOptions{Endless: func(string) bool { return true }}), places(), storetest.Name()
	claims, err := azurestore.NewClaims(a.tables, a.blobs, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 20, 4 << 20} {
		if _, err := claims.Pack(ctx, queue.Envelope{ID: "lost", Time: time.Now()}, random(size)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ days, want int }{{7, 0}, {40, 2}} {
		if n, err := claims.Sweep(ctx, time.Now().AddDate(0, 0, step.days)); n != step.want || err != nil {
			t.Errorf("after %d days %d claims were swept, %v, want %d", step.days, n, err, step.want)
		}
	}

	kept, err := azurestore.NewKeptClaims(a.tables, a.blobs, name, at)
	if err != nil {
		t.Fatal(err)
	}
	text, err := kept.Pack(ctx, queue.Envelope{ID: "waits", Time: time.Now()}, random(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.queues.Put(ctx, name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(m.Expires); left < 365*24*time.Hour {
		t.Errorf("the message expires in %v, although its queue is endless", left)
	}
	later := time.Now().AddDate(1, 0, 0)
	if n, err := kept.SweepKept(ctx, later, a.queues.Count); n != 0 || err != nil {
		t.Errorf("%d claims were swept although their message waits, %v", n, err)
	}
	if messages, err := a.queues.Peek(ctx, name, 1); err != nil || len(messages) != 1 || messages[0].Body != text {
		t.Errorf("peek: %d messages, %v", len(messages), err)
	}
	if err := a.queues.Delete(ctx, name, m); err != nil {
		t.Fatal(err)
	}
	if n, err := kept.SweepKept(ctx, later, a.queues.Count); n != 1 || err != nil {
		t.Errorf("%d claims were swept after their message was deleted, %v, want 1", n, err)
	}
}

// random returns bytes that cannot be compressed.
func random(size int) []byte {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// TestInvalidClaims: an option that cannot be used is named.
func TestInvalidClaims(t *testing.T) {
	a := openAccount(t, nil)
	for want, options := range map[string]azurestore.ClaimsOptions{
		"azurestore.ClaimsOptions.Table":     {Table: "no-table"},
		"azurestore.ClaimsOptions.Container": {Container: "No_Container"},
	} {
		if _, err := azurestore.NewClaims(a.tables, a.blobs, &options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error that names %s", options, err, want)
		}
		if _, err := azurestore.NewKeptClaims(a.tables, a.blobs, "orders", &options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error that names %s", options, err, want)
		}
	}
	if _, err := azurestore.NewClaims(nil, a.blobs, nil); err == nil {
		t.Error("no error without tables")
	}
	if _, err := azurestore.NewKeptClaims(a.tables, a.blobs, "Orders", nil); err == nil {
		t.Error("no error for an invalid queue")
	}
}
