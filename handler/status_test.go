package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
)

// TestStatusOfServices checks that the status has each service by itself, and
// the reason of one that refuses.
func TestStatusOfServices(t *testing.T) {
	t.Parallel()
	proxy := newProxy(t)
	p := start(t, built.handler, "AzureWebJobsStorage="+proxy.ConnectionString())
	for _, tt := range []struct {
		refused, status       string
		blobs, tables, queues bool
	}{
		{"none", "ok", true, true, true},
		{"blob", "degraded", false, true, true},
		{"table", "degraded", true, false, true},
		{"queue", "degraded", true, true, false},
	} {
		heal := proxy.Add(faultproxy.Fault{Service: tt.refused, Status: http.StatusForbidden})
		answer, body := p.status(t)
		heal()
		s := answer.Storage
		if answer.Version == "" {
			t.Errorf("status %s, want a version", body)
		}
		if answer.Status != tt.status || s.Reachable != tt.blobs || s.Tables == nil || s.Tables.Reachable != tt.tables || s.Queues == nil || s.Queues.Reachable != tt.queues {
			t.Errorf("%s refused: status %s", tt.refused, body)
		}
		if got := strings.Contains(body, "403 AuthorizationFailure"); got != (tt.refused != "none") {
			t.Errorf("%s refused: status %s, want the reason", tt.refused, body)
		}
	}
}

// TestRequestsInStatus checks that the status counts the requests of all jobs
// as storage received them, also those that failed.
func TestRequestsInStatus(t *testing.T) {
	t.Parallel()
	proxy := newProxy(t)
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

// TestStatusOfSilentServices: services that never respond delay a status for
// one timeout, all together. A service without a probe is not in it.
func TestStatusOfSilentServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		s := storageStatusOf(t.Context(), "x", map[string]probe{"blobs": silent, "tables": silent, "queues": silent})
		if took := time.Since(began); took != probeTimeout || s.Reachable || s.Tables.Reachable || s.Queues.Reachable || s.healthy() {
			t.Errorf("%+v, %+v, %+v after %v, want none reachable after %v", s, s.Tables, s.Queues, took, probeTimeout)
		}
	})
	rejected := func(context.Context) error { return errors.New("rejected") }
	text, _ := json.Marshal(storageStatusOf(t.Context(), "x", map[string]probe{"blobs": rejected}))
	if want := `{"account":"x","reachable":false,"error":"rejected"}`; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}
