package main

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/instances"
	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
)

// has checks that the process reports a problem at once, for a subject and
// with a cause.
func (p *process) has(t testing.TB, code, subject, cause string) {
	t.Helper()
	answer, body := p.status(t)
	own := answer.own()
	i := slices.IndexFunc(own, func(p instances.ProblemGroup) bool { return p.Code == code && p.Subject == subject })
	if i < 0 || answer.Status != degraded || !strings.Contains(own[i].What, cause) || own[i].Count < 1 || time.Since(own[i].Since) > time.Minute {
		t.Errorf("status %s, want degraded with %s of %q and %q", body, code, subject, cause)
	}
}

// isWell checks that the process reports no problem.
func (p *process) isWell(t testing.TB, when string) {
	t.Helper()
	if answer, body := p.status(t); len(answer.own()) > 0 {
		t.Errorf("%s: status %s, want no problem of this instance", when, body)
	}
}

// TestStorageProblems: a fault of storage is a problem in the process that
// meets it, until the same succeeds again.
func TestStorageProblems(t *testing.T) {
	t.Parallel()
	proxy := newProxy(t)
	p := start(t, built.handler, "AzureWebJobsStorage="+proxy.ConnectionString(), "KENNEL_RESERVE_TIMEOUT=200ms")
	number := func() { p.call(t, "POST", "/api/sequences/"+storetest.Name()+"/next", nil) }
	release := func() { p.call(t, "POST", "/api/gates/"+storetest.Name()+"/release", nil) }
	channel := func() { p.channels(t, "PUT", "/"+storetest.Name(), `{"owner":"ann"}`) }
	for _, do := range []func(){number, release, channel} {
		do()
	}
	p.isWell(t, "at first")
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
		p.statusUntil(t, tt.code, func(s statusAnswer) bool { return s.Status == degraded })
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
