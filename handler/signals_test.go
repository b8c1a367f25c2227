package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/clients"
	"kennel/internal/config"
	"kennel/internal/dev/devbus"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestSignals: a release on one instance reaches waiters on another by signal.
// Without the bus they pass by polling, and signals are received again when it
// is back. A stop deletes the subscription.
func TestSignals(t *testing.T) {
	t.Parallel()
	bus, setting := apptest.WithBus(t)
	env := withStorage(t)
	waiters, administrator := start(t, built.handler, env, setting), start(t, built.handler, env, setting)
	waiters.receives(t, true)
	administrator.receives(t, true)
	if got := len(bus.Entities()); got != 3 {
		t.Errorf("the bus holds %q, want the topic and a subscription each", bus.Entities())
	}
	release := func(name string, signalled bool, meanwhile func()) {
		t.Helper()
		var waiting sync.WaitGroup
		for range 10 {
			waiting.Go(func() {
				a := waiters.gate(t, "GET", name+"/wait?timeout=200s", "")
				a.expectGate(t, "waiter", 200, true, 1)
				if a.By != "ann" || a.Reason != "all are warm" || a.ChangedAt.IsZero() {
					t.Errorf("the waiter received %s, want the whole state", a.body)
				}
			})
		}
		waiters.holds(t, name, 10)
		meanwhile()
		a := administrator.gate(t, "POST", name+"/release", `{"by":"ann","reason":"all are warm"}`)
		a.expectGate(t, "release", 200, true, 1)
		if a.Signalled == nil || *a.Signalled != signalled {
			t.Errorf("release: %s, want signalled %t", a.body, signalled)
		}
		waiting.Wait()
	}
	release(storetest.Name(), true, func() {})
	release(storetest.Name(), false, func() {
		bus.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		bus.DropConnections()
		waiters.receives(t, false)
	})
	bus.Heal()
	waiters.receives(t, true)
	if log := waiters.output.String(); strings.Count(log, "gate signals are interrupted") != 1 {
		t.Errorf("log:\n%s\nwant once that signals are interrupted", log)
	}
	if log := administrator.output.String(); !strings.Contains(log, "cannot send the signal of a gate") || !strings.Contains(log, `"within":"33s"`) {
		t.Errorf("log:\n%s\nwant that the signal could not be sent, and when others see the change", log)
	}
	administrator.receives(t, true)
	waiters.terminate()
	if code := waiters.exitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if got := len(bus.Entities()); got != 2 {
		t.Errorf("after a stop the bus holds %q, want the topic and one subscription", bus.Entities())
	}
}

// A bus without the topic does not keep the handler from starting.
func TestNoTopic(t *testing.T) {
	t.Parallel()
	bus, setting := apptest.WithBus(t)
	bus.Delete(names.SignalsTopic)
	p := start(t, built.handler, withStorage(t), setting)
	p.statusUntil(t, "signals not received, and a log line that there is no topic", func(s observe.Status) bool {
		return !s.Signals.Receiving && strings.Contains(p.output.String(), "there is no such topic")
	})
	p.gate(t, "POST", storetest.Name()+"/release", "").expectGate(t, "release", 200, true, 1)
}

// queueSignals receives the signals of queues.
type queueSignals struct {
	up      chan struct{}
	signals chan queue.Signal
}

func (q queueSignals) Up() { q.up <- struct{}{} }

func (q queueSignals) Down(error) {}

func (q queueSignals) Received(s queue.Signal) { q.signals <- s }

// TestDeletionWakesWorkers: the deletion of a channel signals its message, with
// the subscription of gates. A bus that fails does not fail the call.
func TestDeletionWakesWorkers(t *testing.T) {
	t.Parallel()
	bus, setting := apptest.WithBus(t)
	p := start(t, built.handler, withStorage(t), setting)
	p.receives(t, true)
	if got := len(bus.Entities()); got != 2 {
		t.Errorf("the bus holds %q, want the topic and one subscription", bus.Entities())
	}
	received := queueSignals{make(chan struct{}, 100), make(chan queue.Signal, 100)}
	listener, err := clients.Signals(config.ServiceBus{ConnectionString: bus.ConnectionString()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() { listener.Queues().Listen(ctx, received) })
	defer listening.Wait()
	defer stop()
	<-received.up
	remove := func() {
		t.Helper()
		path := "/" + storetest.Name()
		p.channels(t, "PUT", path, `{"owner":"ann"}`).expect(t, "create", 201, "")
		p.channels(t, "DELETE", path, "").expect(t, "delete", 202, "")
	}
	remove()
	select {
	case s := <-received.signals:
		if s != (queue.Signal{Queue: names.CleanupQueue}) {
			t.Errorf("received %+v, want work in %s", s, names.CleanupQueue)
		}
	case <-time.After(30 * time.Second):
		t.Error("no signal was received")
	}
	bus.Fail(devbus.Fault{Kind: devbus.RefuseDial})
	bus.DropConnections()
	remove()
}
