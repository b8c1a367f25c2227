package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/dev/devbus"
	"kennel/internal/faultproxy"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/names"
	"kennel/internal/storetest"
	"kennel/queue"
)

// has checks that the process reports a problem at once, for a subject and
// with a cause.
func (p *process) has(t testing.TB, code, subject, cause string) {
	t.Helper()
	answer, body := p.status(t)
	all := answer.Problems
	i := slices.IndexFunc(all, func(p problemItem) bool {
		return p.Code == code && p.Subject == subject && slices.Contains(p.Instances, answer.Instance)
	})
	if i < 0 || answer.Status != degraded || !strings.Contains(all[i].What, cause) || all[i].Count < 1 || time.Since(all[i].Since) > time.Minute {
		t.Errorf("status %s, want degraded with %s of %q and %q", body, code, subject, cause)
	}
}

// isWell waits until the process, the only one of its app, reports no problem.
// One that a task in the background has met ends with the next try of the task.
func (p *process) isWell(t testing.TB, when string) {
	t.Helper()
	p.statusUntil(t, when+": ok without problems", func(s statusAnswer) bool { return s.Status == "ok" && len(s.Problems) == 0 })
}

// meets waits until the process reports a problem of its own with the code.
func (p *process) meets(t testing.TB, code string) {
	t.Helper()
	p.statusUntil(t, code, func(s statusAnswer) bool {
		return slices.ContainsFunc(s.own(), func(p problemItem) bool { return p.Code == code })
	})
}

// TestProblems: each fault is a problem in the process that meets it, at once
// and with its cause, and ends after the cure. The process has a storage of its
// own, so that it is well if it has no problem.
func TestProblems(t *testing.T) {
	t.Parallel()
	azurite := storetest.OwnAzurite(t)
	proxy, err := faultproxy.Start(azurite.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	blobs, err := azblob.NewClientFromConnectionString(azurite.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := azure.Account{ConnectionString: azurite.ConnectionString()}.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	bus, setting := withBus(t)
	p := start(t, built.handler, "AzureWebJobsStorage="+proxy.ConnectionString(), setting, "KENNEL_RESERVE_TIMEOUT=200ms")
	p.receives(t, true)
	p.isWell(t, "at first")
	for _, tt := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"Storage", func(t *testing.T) { storageProblems(t, p, proxy) }},
		{"Sequences", func(t *testing.T) { sequenceProblems(t, p, blobs) }},
		{"Gates", func(t *testing.T) { gateProblems(t, p, blobs) }},
		{"Bus", func(t *testing.T) { busProblems(t, p, bus) }},
		{"DeadLetters", func(t *testing.T) { deadLetterProblems(t, p, queues) }}, // the last one is not removed
	} {
		t.Run(tt.name, tt.run)
	}
}

func storageProblems(t *testing.T, p *process, proxy *faultproxy.Proxy) {
	number := func() { p.call(t, "POST", "/api/sequences/"+storetest.Name()+"/next", nil) }
	release := func() { p.call(t, "POST", "/api/gates/"+storetest.Name()+"/release", nil) }
	channel := func() { p.channels(t, "PUT", "/"+storetest.Name(), `{"owner":"ann"}`) }
	for _, do := range []func(){number, release, channel} {
		do()
	}
	p.isWell(t, "after a call of each kind")
	for _, tt := range []struct {
		name        string
		fault       faultproxy.Fault
		do          func()
		code, cause string
	}{
		{"numbers that cannot be reserved", faultproxy.Fault{Service: "blob", Operation: "put", Status: http.StatusServiceUnavailable}, number,
			"blobs_failing", "Requests to write blobs fail: storage answered 503 ServerBusy."},
		{"blobs without answers", faultproxy.Fault{Service: "blob", Operation: "put", Cut: true}, number,
			"blobs_failing", "Requests to write blobs fail: "},
		{"gates that cannot be written", faultproxy.Fault{Service: "blob", Operation: "put", Status: http.StatusForbidden}, release,
			"storage_denied", `The blob operation "put" for gates is denied: storage answered 403 AuthorizationFailure.`},
		{"tables that cannot be read", faultproxy.Fault{Service: "table", Status: http.StatusInternalServerError}, channel,
			"tables_failing", "Requests to read tables fail: storage answered 500 "},
		{"rows that cannot be written", faultproxy.Fault{Service: "table", Operation: "transaction", Status: http.StatusForbidden}, channel,
			"storage_denied", `The table operation "transaction" for channels is denied: storage answered 403 `},
	} {
		heal := proxy.Add(tt.fault)
		var calling sync.WaitGroup
		calling.Go(tt.do) // some are repeated until the fault is healed
		p.meets(t, tt.code)
		p.has(t, tt.code, "", tt.cause) // also if the status reads the same service
		heal()
		calling.Wait()
		tt.do()
		p.isWell(t, tt.name)
	}
	// The status itself tries each service.
	heal := proxy.Add(faultproxy.Fault{Service: "queue", Status: http.StatusServiceUnavailable})
	p.has(t, "queues_failing", "", "Requests to read queues fail: storage answered 503 ")
	heal()
	p.isWell(t, "queues")
}

func sequenceProblems(t *testing.T, p *process, blobs *azblob.Client) {
	corrupt, missing := storetest.Name(), storetest.Name()
	// reserve repeats a request until storage answers it in time: the app of
	// this test waits for 200 ms.
	reserve := func(name string, count int) (first int64, code string) {
		for code = codeUnavailable; code == codeUnavailable; {
			first, code = p.numbers(t, name, count)
		}
		return first, code
	}
	reserve(corrupt, 1)
	reserve(missing, 1)
	_, err := blobs.UploadBuffer(t.Context(), names.SequencesContainer, corrupt, []byte("seven"), nil)
	if err == nil {
		_, err = blobs.DeleteBlob(t.Context(), names.SequencesContainer, missing, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]string{
		corrupt: {"sequence_corrupt", `the stored number of the sequence cannot be used: "seven" is not a whole number`},
		missing: {"sequence_missing", "the stored number of the sequence was deleted"},
	} {
		for code := ""; code == ""; _, code = reserve(name, maxCount) {
		}
		p.has(t, want[0], name, want[1])
	}
	for _, name := range []string{corrupt, missing} {
		if status, _, body := p.raise(t, name, `{"atLeast":100000,"force":true}`); status != http.StatusOK {
			t.Errorf("raise: %d %s", status, body)
		}
		if n, code := reserve(name, 1); n != 100000 {
			t.Errorf("after the raise: %d %s", n, code)
		}
	}
	p.isWell(t, "after the raise")
}

func gateProblems(t *testing.T, p *process, blobs *azblob.Client) {
	name := storetest.Name()
	p.gate(t, "POST", name+"/release", "").expectGate(t, "release", 200, true, 1)
	if _, err := blobs.UploadBuffer(t.Context(), names.GatesContainer, name, []byte(`{"released":true}`), nil); err != nil {
		t.Fatal(err)
	}
	p.isWell(t, "before a read")
	p.gate(t, "GET", name+"/wait?timeout=1s", "").expect(t, "wait", 500, "gate_corrupt")
	p.has(t, "gate_unreadable", name, "The gate counts as closed: the stored state of the gate cannot be used: ")
	p.gate(t, "POST", name+"/close", `{"force":true}`).expectGate(t, "close", 200, false, 0)
	p.isWell(t, "after it was replaced")
}

func busProblems(t *testing.T, p *process, bus *devbus.Local) {
	bus.Fail(devbus.Fault{Kind: devbus.RefuseDial})
	bus.DropConnections()
	p.receives(t, false)
	p.has(t, "bus_disconnected", "", "Gate signals are not received: ")
	release := func() {
		p.gate(t, "POST", storetest.Name()+"/release", "").expectGate(t, "release", 200, true, 1)
	}
	release()
	p.has(t, "bus_disconnected", "", ". Gate signals are not sent: ")
	bus.Heal()
	p.receives(t, true)
	p.has(t, "bus_disconnected", "", "Gate signals are not sent: ")
	release()
	p.isWell(t, "with the bus")
}

func deadLetterProblems(t *testing.T, p *process, queues *azure.Queues) {
	const poison = names.CleanupQueue + queue.PoisonSuffix
	remove := func() {
		t.Helper()
		letters, err := queues.Receive(t.Context(), poison, 32, time.Minute)
		if err != nil || len(letters) != 1 {
			t.Fatalf("%d dead letters, %v, want 1", len(letters), err)
		}
		if err := queues.Delete(t.Context(), poison, letters[0]); err != nil {
			t.Fatal(err)
		}
		p.isWell(t, "without dead letters")
	}
	if err := p.invoke(t, "ChannelCleanup", cleanupOf(customhandler.QueueMessage{Text: "delete news"})); err != nil {
		t.Fatal(err)
	}
	p.has(t, "dead_letters", names.CleanupQueue, "Dead letters in queue "+poison+": 1. The last reason that this process knows: read the message: decode JSON: ")
	remove()
	// The host is about to move a message whose last delivery fails.
	for _, delivery := range []int64{maxDeliveries - 1, maxDeliveries} {
		p.isWell(t, "before the last delivery")
		m := customhandler.QueueMessage{Text: strings.Repeat("x", queue.MaxText), DequeueCount: delivery}
		if err := p.invoke(t, "ChannelCleanup", cleanupOf(m)); err == nil {
			t.Fatal("a message that is too long was taken")
		}
	}
	p.has(t, "dead_letters", names.CleanupQueue, "not a message that deletes a channel")
}

// TestLimitsOfSequences: nine tenths of the sequences of a process, or the last
// hundredth of a sequence, are a problem.
func TestLimitsOfSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		set, err := ids.NewSet(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { set.Run(ctx) })
		defer func() { cancel(); running.Wait(); set.Close(t.Context()) }()
		s := sequenceFunctions{sequences: set, limits: &limits{}}
		draw := func(name string) {
			t.Helper()
			if _, err := set.Next(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 8_999 {
			draw(fmt.Sprint("s", i))
		}
		if got := s.problems(); len(got) > 0 {
			t.Errorf("problems %+v, want none", got)
		}
		store.Set("orders", fmt.Sprint(int64(ids.MaxExact)/1000*995))
		draw("orders")
		synctest.Wait()
		began := time.Now()
		for range 2 {
			got := s.problems()
			if len(got) != 2 || got[0].Subject != "all sequences" || got[0].What != "This process uses 9000 of at most 10000 sequences." || !got[0].Since.Equal(began) ||
				got[1].Code != "limit_close" || got[1].Subject != "orders" || !strings.Contains(got[1].What, " of at most 9007199254740991 are reserved.") {
				t.Errorf("problems %+v, want both limits since %v", got, began)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(20 * time.Minute) // unused sequences are given up
		if got := s.problems(); len(got) != 1 || got[0].Subject != "orders" {
			t.Errorf("problems %+v, want only that of orders", got)
		}
	})
}

// TestManyProblems: the problems of one code are limited, and the last one
// counts the others.
func TestManyProblems(t *testing.T) {
	var many []instances.Problem
	now := time.Now()
	for i := range 15 {
		many = append(many, instances.Problem{Subject: fmt.Sprintf("s%02d", i), What: "No.", Since: now.Add(-time.Duration(i))})
	}
	got := oldest(slices.Clone(many))
	if len(got) != maxSubjects || got[0].Subject != "s14" || got[9].Subject != "" || got[9].What != "There are 6 more. One of them: No." {
		t.Errorf("problems %+v, want nine and the number of the others", got)
	}
	if got := oldest(slices.Clone(many[:maxSubjects])); len(got) != maxSubjects || got[9].Subject != "s00" {
		t.Errorf("problems %+v, want all ten", got)
	}
}

// TestBusDenied: a missing topic is a problem at once, with the cause.
func TestBusDenied(t *testing.T) {
	t.Parallel()
	bus, setting := withBus(t)
	bus.Delete(names.SignalsTopic)
	p := start(t, built.handler, withAzurite(t), setting)
	p.meets(t, "bus_denied")
	p.has(t, "bus_denied", "", "Gate signals are not received: listen to topic signals: denied by Service Bus: the administration answered 404 Not Found: there is no such topic")
}

// TestLimitOfGates: waiters at nine tenths of the gates that a process can
// watch are a problem.
func TestLimitOfGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates, err := gate.New(memory.NewGates(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		g := gateFunctions{gates: gates, limits: &limits{}}
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { gates.Run(ctx) })
		for i := range 900 {
			if got := g.problems(); len(got) > 0 {
				t.Fatalf("%d gates: problems %+v, want none", i, got)
			}
			waiting.Go(func() { gates.Wait(t.Context(), fmt.Sprint("g", i), gate.Now, 10*time.Second) })
			synctest.Wait()
		}
		if got := g.problems(); len(got) != 1 || got[0].Code != "limit_close" || got[0].Subject != "all gates" || got[0].What != "This process has waiters at 900 of at most 1000 gates." {
			t.Errorf("900 gates: problems %+v, want the limit", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := g.problems(); len(got) > 0 {
			t.Errorf("without waiters: problems %+v, want none", got)
		}
		cancel()
		waiting.Wait()
	})
}
