package main

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/config"
	"kennel/table"
)

// probeTimeout bounds the requests to storage that a status makes, one to each
// service, all at once.
const probeTimeout = 2 * time.Second

// A probe makes one cheap request, and says why it was not answered.
type probe func(context.Context) error

// probes are what storage is asked by a status; nil is not asked.
type probes struct{ blobs, tables, queues probe }

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

	// Requests counts what this process has sent, by service and operation.
	Requests map[string]map[string]int64 `json:"requests"`
}

type storageStatus struct {
	Account       string         `json:"account"`
	serviceStatus                // of blobs, which everything needs
	Tables        *serviceStatus `json:"tables,omitempty"` // nil where channels are not served, which alone need them
	Queues        *serviceStatus `json:"queues,omitempty"`
}

type serviceStatus struct {
	Reachable bool   `json:"reachable"`
	Error     string `json:"error,omitempty"`
}

type signalsStatus struct {
	Bus   string `json:"bus"`
	Heard bool   `json:"heard"` // otherwise gates are polled
}

// status serves GET /api/status. It is 200 also when degraded: the answer is
// the message.
func status(cfg config.Config, storage probes, sequences *ids.Set, gates *gate.Gates, counter *requests.Counter, started time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := statusAnswer{
			Status:    "ok",
			StartedAt: started.UTC(),
			Go:        runtime.Version(),
			Storage:   storage.ask(r.Context(), cfg.Storage.String()),
			Signals:   signalsStatus{Bus: cfg.ServiceBus.String(), Heard: gates.Hears()},
			Sequences: sequences.Stats(),
			Gates:     gates.Watched(),
		}
		for _, s := range answer.Sequences {
			if s.Problem != "" {
				answer.Status = "degraded"
			}
		}
		if !answer.Storage.healthy() {
			answer.Status = "degraded"
		}
		answer.Requests = counter.Operations() // those of this answer included
		writeJSON(w, http.StatusOK, answer)
	})
}

// ask asks all services at once, so that none waits for another.
func (p probes) ask(ctx context.Context, account string) storageStatus {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer := storageStatus{Account: account}
	var asking sync.WaitGroup
	asking.Go(func() { answer.serviceStatus = *p.blobs.ask(ctx) })
	asking.Go(func() { answer.Tables = p.tables.ask(ctx) })
	asking.Go(func() { answer.Queues = p.queues.ask(ctx) })
	asking.Wait()
	return answer
}

func (p probe) ask(ctx context.Context) *serviceStatus {
	if p == nil {
		return nil
	}
	if err := p(ctx); err != nil {
		return &serviceStatus{Error: err.Error()}
	}
	return &serviceStatus{Reachable: true}
}

func (s storageStatus) healthy() bool {
	for _, service := range []*serviceStatus{&s.serviceStatus, s.Tables, s.Queues} {
		if service != nil && !service.Reachable {
			return false
		}
	}
	return true
}

// probeBlobs asks for a sequence that need not exist.
func probeBlobs(store ids.Store) probe {
	return func(ctx context.Context) error {
		_, err := store.Load(ctx, "status")
		if errors.Is(err, ids.ErrNotFound) {
			return nil
		}
		return err
	}
}

// probeTables asks for a row that need not exist, and its table neither.
func probeTables(store table.Store) probe {
	return func(ctx context.Context) error {
		_, err := store.Get(ctx, "status", "status")
		if errors.Is(err, table.ErrNotFound) {
			return nil
		}
		return err
	}
}

// probeQueues asks for a message of a queue that need not exist and that nobody
// uses: a message of another one would be out of sight for a while.
func probeQueues(queues *azure.Queues) probe {
	return func(ctx context.Context) error {
		_, err := queues.Receive(ctx, "kennel-status", 1, time.Second)
		return err
	}
}
