package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
)

// Each service is asked on its own, and one that refuses is told of.
func TestStatusOfServices(t *testing.T) {
	t.Parallel()
	azurite := storetest.Azurite(t)
	for _, tt := range []struct {
		name           string
		refused        string // which service's address refuses everything
		status         string
		tables, queues bool
	}{
		{name: "all answer", status: "ok", tables: true, queues: true},
		{name: "tables refuse", refused: "TableEndpoint", status: "degraded", queues: true},
		{name: "queues refuse", refused: "QueueEndpoint", status: "degraded", tables: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("x-ms-error-code", "AuthorizationPermissionMismatch")
				w.WriteHeader(http.StatusForbidden)
			}))
			defer refusing.Close()
			settings := strings.Split(azurite.ConnectionString(), ";")
			for i, setting := range settings {
				if name, _, _ := strings.Cut(setting, "="); name == tt.refused && name != "" {
					settings[i] = name + "=" + refusing.URL + "/devstoreaccount1"
				}
			}
			p := start(t, built.handler, "AzureWebJobsStorage="+strings.Join(settings, ";"))
			p.ready(t)
			_, _, body := p.call(t, "GET", "/api/status", nil)
			var answer statusAnswer
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				t.Fatal(err)
			}
			s := answer.Storage
			if answer.Status != tt.status || !s.Reachable || s.Tables == nil || s.Tables.Reachable != tt.tables || s.Queues == nil || s.Queues.Reachable != tt.queues {
				t.Errorf("status: %s", body)
			}
			if refused := strings.Contains(body, "403"); refused != (tt.refused != "") {
				t.Errorf("status: %s, want what storage has said", body)
			}
		})
	}
}

// Services that say nothing keep a status from being answered for one timeout,
// all together; what is not served is not asked.
func TestStatusOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		s := probes{silent, silent, silent}.ask(t.Context(), "x")
		if took := time.Since(began); took != probeTimeout || s.Reachable || s.Tables.Reachable || s.Queues.Reachable || s.healthy() {
			t.Errorf("%+v, %+v, %+v after %v, want none reachable after %v", s, s.Tables, s.Queues, took, probeTimeout)
		}
	})
	good := func(context.Context) error { return nil }
	bad := func(context.Context) error { return errors.New("refused") }
	if s := (probes{blobs: good}).ask(t.Context(), "x"); !s.healthy() || s.Tables != nil || s.Queues != nil {
		t.Errorf("without channels: %+v", s)
	}
	for i, p := range []probes{{bad, good, good}, {good, bad, good}, {good, good, bad}} {
		if s := p.ask(t.Context(), "x"); s.healthy() {
			t.Errorf("with service %d refusing: %+v", i, s)
		}
	}
	text, _ := json.Marshal(probes{blobs: bad}.ask(t.Context(), "x"))
	if want := `{"account":"x","reachable":false,"error":"refused"}`; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}
