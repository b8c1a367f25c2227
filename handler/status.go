package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/config"
)

// probeTimeout bounds the one request to storage that a status makes.
const probeTimeout = 2 * time.Second

// health serves GET /api/health: the process is up. It asks nobody, so that a
// storage outage does not make a platform restart healthy processes.
func health() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = jsonType
		w.Write([]byte("{\"status\":\"ok\"}\n"))
	})
}

// statusAnswer is what GET /api/status tells an operator about one instance.
type statusAnswer struct {
	Status    string                  `json:"status"` // "ok", or "degraded" while storage does not answer or a sequence has a problem
	StartedAt time.Time               `json:"startedAt"`
	Go        string                  `json:"go"`
	Storage   storageStatus           `json:"storage"`
	Signals   signalsStatus           `json:"signals"`
	Sequences map[string]ids.Stats    `json:"sequences"`
	Gates     map[string]gate.Watched `json:"gates"` // those that are waited at here
}

type storageStatus struct {
	Account   string `json:"account"`
	Reachable bool   `json:"reachable"`
	Error     string `json:"error,omitempty"`
}

type signalsStatus struct {
	Bus   string `json:"bus"`
	Heard bool   `json:"heard"` // otherwise gates are polled
}

// status serves GET /api/status. It is 200 also when degraded: the answer is
// the message.
func status(cfg config.Config, store ids.Store, sequences *ids.Set, gates *gate.Gates, started time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := statusAnswer{
			Status:    "ok",
			StartedAt: started.UTC(),
			Go:        runtime.Version(),
			Storage:   storageStatus{Account: cfg.Storage.String(), Reachable: true},
			Signals:   signalsStatus{Bus: cfg.ServiceBus.String(), Heard: gates.Hears()},
			Sequences: sequences.Stats(),
			Gates:     gates.Watched(),
		}
		for _, s := range answer.Sequences {
			if s.Problem != "" {
				answer.Status = "degraded"
			}
		}
		if err := probe(r.Context(), store); err != nil {
			answer.Status = "degraded"
			answer.Storage.Reachable, answer.Storage.Error = false, err.Error()
		}
		w.Header()["Content-Type"] = jsonType
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.Encode(answer)
	})
}

// probe asks storage for a sequence that need not exist.
func probe(ctx context.Context, store ids.Store) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if _, err := store.Load(ctx, "status"); err != nil && !errors.Is(err, ids.ErrNotFound) {
		return err
	}
	return nil
}
