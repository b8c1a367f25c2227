package main

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/edge"
	"kennel/internal/faultproxy"
	"kennel/internal/observe"
	"kennel/internal/storetest"
)

// TestStatusOfServices checks that the status has each service by itself, and
// the reason of one that refuses.
func TestStatusOfServices(t *testing.T) {
	t.Parallel()
	proxy := apptest.NewProxy(t)
	p := start(t, built.handler, "AzureWebJobsStorage="+proxy.ConnectionString())
	for _, tt := range []struct {
		refused               string
		blobs, tables, queues bool
	}{
		{"none", true, true, true},
		{"blob", false, true, true},
		{"table", true, false, true},
		{"queue", true, true, false},
	} {
		heal := proxy.Add(faultproxy.Fault{Service: tt.refused, Status: http.StatusForbidden})
		answer, body := p.status(t)
		for range 20 { // on a busy machine storage itself may answer late
			if !strings.Contains(body, "no answer within") {
				break
			}
			answer, body = p.status(t)
		}
		heal()
		s := answer.Storage
		if answer.Version == "" {
			t.Errorf("status %s, want a version", body)
		}
		bad := tt.refused != "none"
		if (len(ownProblems(answer)) > 0) != bad || bad && answer.Status != observe.Degraded || s.Reachable != tt.blobs || s.Tables == nil || s.Tables.Reachable != tt.tables || s.Queues == nil || s.Queues.Reachable != tt.queues {
			t.Errorf("%s refused: status %s", tt.refused, body)
		}
		// The reason is storage's, without the names that the probes read.
		if got := strings.Contains(body, `"error":"storage answered 403 AuthorizationFailure (request `); got != (tt.refused != "none") {
			t.Errorf("%s refused: status %s, want the reason", tt.refused, body)
		}
	}
}

// TestStorageRejects: the answer to a call that storage rejects reports so, and
// that an operator has to act. The operator finds the call in the log by the id
// of the answer.
func TestStorageRejects(t *testing.T) {
	t.Parallel()
	proxy := apptest.NewProxy(t)
	proxy.Add(faultproxy.Fault{Status: http.StatusForbidden})
	p := start(t, built.handler, "AzureWebJobsStorage="+proxy.ConnectionString(), "KENNEL_RESERVE_TIMEOUT=3s")
	name := storetest.Name()
	var ids []string
	for _, call := range [][3]string{
		{"POST", "/api/sequences/" + name + "/next", ""}, {"GET", "/api/gates/" + name, ""}, {"POST", "/api/gates/" + name + "/release", ""},
		{"GET", "/api/channels", ""}, {"PUT", "/api/channels/" + name, `{"owner":"ann"}`},
	} {
		var a answer
		status, header, body := p.request(t, call[0], call[1], call[2], &a)
		if status != 503 || a.Error.Code != "storage_unavailable" || a.Error.Message != edge.Rejected || header.Get("Retry-After") != "60" {
			t.Errorf("%s %s: %d %v %s, want 503 storage_unavailable with Retry-After: 60", call[0], call[1], status, header, body)
		}
		ids = append(ids, header.Get("X-Request-Id"))
	}
	p.terminate()
	p.exitCode(t)
	for _, id := range ids {
		if got := strings.Count(p.output.String(), `"invocation":"`+id+`"`); got != 1 {
			t.Errorf("%d log lines of the call with the request id %s, want 1", got, id)
		}
	}
}

// TestRequestsInStatus checks that the status counts the requests of all jobs
// as storage received them, also those that failed.
func TestRequestsInStatus(t *testing.T) {
	t.Parallel()
	proxy := apptest.NewProxy(t)
	p := start(t, built.handler, "AzureWebJobsStorage="+proxy.ConnectionString())
	name := storetest.Name()
	proxy.Add(faultproxy.Fault{Service: "table", Operation: "get", Nth: 1, Status: http.StatusServiceUnavailable})
	proxy.Add(faultproxy.Fault{Service: "table", Operation: "query", Nth: 1, Lose: true})
	p.call(t, "POST", "/api/sequences/"+name+"/next", nil)
	p.call(t, "POST", "/api/gates/"+name+"/release", nil)
	for _, call := range [][3]string{
		{"PUT", "", `{"owner":"ann"}`},
		{"POST", "/blogs", `{"title":"t","text":"t","userId":"ann"}`},
		{"GET", "/blogs", ""},
		{"DELETE", "", ""},
	} {
		if a := p.channels(t, call[0], "/"+name+call[1], call[2]); a.status/100 != 2 {
			t.Errorf("%s %s: %d %s", call[0], call[1], a.status, a.body)
		}
	}
	// The next numbers are reserved in the background, perhaps at this moment.
	for deadline := time.Now().Add(30 * time.Second); ; {
		answer, body := p.status(t)
		want := proxy.Requests.Operations()
		if maps.EqualFunc(answer.Requests, want, maps.Equal[map[string]int64]) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %s, want the requests %v", body, want)
		}
	}
}
