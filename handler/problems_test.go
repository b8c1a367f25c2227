package main

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/dev/devbus"
	"kennel/internal/edge"
	"kennel/internal/faultproxy"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/storetest"
	"kennel/queue"
)

// has checks that the process reports a problem at once, for a subject and
// with a cause.
func (p *process) has(t testing.TB, code, subject, cause string) {
	t.Helper()
	answer, body := p.status(t)
	all := answer.Problems
	i := slices.IndexFunc(all, func(p observe.ProblemItem) bool {
		return p.Code == code && p.Subject == subject && slices.Contains(p.Instances, answer.Instance)
	})
	if i < 0 || answer.Status != observe.Degraded || !strings.Contains(all[i].What, cause) || all[i].Count < 1 || time.Since(all[i].Since) > time.Minute {
		t.Errorf("status %s, want degraded with %s of %q and %q", body, code, subject, cause)
	}
}

// isWell waits until the process, the only one of its app, reports no problem.
// One that a task in the background has met ends with the next try of the task.
func (p *process) isWell(t testing.TB, when string) {
	t.Helper()
	p.statusUntil(t, when+": ok without problems", func(s observe.Status) bool { return s.Status == "ok" && len(s.Problems) == 0 })
}

// meets waits until the process reports a problem of its own with the code.
func (p *process) meets(t testing.TB, code string) {
	t.Helper()
	p.statusUntil(t, code, func(s observe.Status) bool {
		return slices.ContainsFunc(ownProblems(s), func(p observe.ProblemItem) bool { return p.Code == code })
	})
}

// TestProblems: each fault is a problem in the process that meets it, at once
// and with its cause, and ends after the cure. The process has a storage of its
// own, so that it is well if it has no problem.
func TestProblems(t *testing.T) {
	t.Parallel()
	account := storetest.OwnStorage(t)
	proxy, err := faultproxy.Start(account.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	blobs, err := azblob.NewClientFromConnectionString(account.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := azure.Account{ConnectionString: account.ConnectionString()}.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	bus, setting := apptest.WithBus(t)
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
		for code = edge.CodeUnavailable; code == edge.CodeUnavailable; {
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
		for code := ""; code == ""; _, code = reserve(name, api.MaxCount) {
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
	for _, delivery := range []int64{observe.MaxDeliveries - 1, observe.MaxDeliveries} {
		p.isWell(t, "before the last delivery")
		m := customhandler.QueueMessage{Text: strings.Repeat("x", queue.MaxText), DequeueCount: delivery}
		if err := p.invoke(t, "ChannelCleanup", cleanupOf(m)); err == nil {
			t.Fatal("a message that is too long was taken")
		}
	}
	p.has(t, "dead_letters", names.CleanupQueue, "not a message that deletes a channel")
}

// TestBusDenied: a missing topic is a problem at once, with the cause.
func TestBusDenied(t *testing.T) {
	t.Parallel()
	bus, setting := apptest.WithBus(t)
	bus.Delete(names.SignalsTopic)
	p := start(t, built.handler, withStorage(t), setting)
	p.meets(t, "bus_denied")
	p.has(t, "bus_denied", "", "Gate signals are not received: listen to topic signals: denied by Service Bus: the administration answered 404 Not Found: there is no such topic")
}
