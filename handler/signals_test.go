package main

import (
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// withBus starts a bus with the topic, and returns the setting for it.
func withBus(t testing.TB) (*devbus.Local, string) {
	t.Helper()
	bus, err := devbus.Listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	if err := bus.CreateTopic(signalsTopic, nil); err != nil {
		t.Fatal(err)
	}
	return bus, "ServiceBus=" + bus.ConnectionString()
}

// A release on one instance reaches waiters on another by signal, with all
// that they are answered; and a stop leaves no subscription.
func TestUnleashBySignal(t *testing.T) {
	t.Parallel()
	bus, setting := withBus(t)
	env := withAzurite(t)
	waiters, administrator := start(t, built.handler, env, setting), start(t, built.handler, env, setting)
	name := storetest.Name()
	waiters.hears(t, true)
	administrator.hears(t, true)
	if got := len(bus.Entities()); got != 3 {
		t.Errorf("the bus holds %q, want the topic and a subscription each", bus.Entities())
	}
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() {
			a := waiters.gate(t, "GET", name+"/wait?timeout=200s", "")
			a.expectGate(t, "waiter", 200, true, 1)
			if a.By != "ann" || a.Reason != "all are warm" || a.ChangedAt.IsZero() {
				t.Errorf("the waiter was answered %s, want the whole state", a.body)
			}
		})
	}
	waiters.holds(t, name, 10)
	release := administrator.gate(t, "POST", name+"/release", `{"by":"ann","reason":"all are warm"}`)
	release.expectGate(t, "release", 200, true, 1)
	if release.Signalled == nil || !*release.Signalled {
		t.Errorf("release: %s, want it signalled", release.body)
	}
	waiting.Wait()

	waiters.terminate()
	if code := waiters.exitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if got := len(bus.Entities()); got != 2 {
		t.Errorf("after a stop the bus holds %q, want the topic and one subscription", bus.Entities())
	}
}

// With the bus cut off, waiters pass all the same, by polling; and signals are
// heard again when it is back.
func TestUnleashWithoutTheBus(t *testing.T) {
	t.Parallel()
	bus, setting := withBus(t)
	env := withAzurite(t)
	waiters, administrator := start(t, built.handler, env, setting), start(t, built.handler, env, setting)
	waiters.hears(t, true)
	name := storetest.Name()
	passed := make(chan answer)
	go func() { passed <- waiters.gate(t, "GET", name+"/wait?timeout=200s", "") }()
	waiters.holds(t, name, 1)

	bus.Fail(devbus.Fault{Kind: devbus.RefuseDial})
	bus.DropConnections()
	waiters.hears(t, false)
	release := administrator.gate(t, "POST", name+"/release", "")
	release.expectGate(t, "release", 200, true, 1)
	if release.Signalled == nil || *release.Signalled {
		t.Errorf("release: %s, want signalled false", release.body)
	}
	(<-passed).expectGate(t, "waiter", 200, true, 1)

	bus.Heal()
	waiters.hears(t, true)
	if said := waiters.output.String(); strings.Count(said, "gate signals are interrupted") != 1 {
		t.Errorf("it said:\n%s\nwant once that signals are interrupted", said)
	}
	if !strings.Contains(administrator.output.String(), "cannot send the signal of a gate") {
		t.Error("the administrator's log does not say that the signal could not be sent")
	}
}

// A bus without the topic is no reason not to start: gates are polled.
func TestNoTopic(t *testing.T) {
	t.Parallel()
	bus, setting := withBus(t)
	bus.Delete(signalsTopic)
	p := start(t, built.handler, withAzurite(t), setting)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(p.output.String(), "there is no such topic"); {
		if time.Now().After(deadline) {
			t.Fatalf("it does not say that there is no topic:\n%s", p.output)
		}
		p.hears(t, false)
	}
	p.gate(t, "POST", storetest.Name()+"/release", "").expectGate(t, "release", 200, true, 1)
}
