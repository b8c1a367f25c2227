package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"sync"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/config"
	"kennel/internal/version"
	"kennel/table"
)

// probeTimeout limits the requests to storage that a status makes, one to each
// service, all at once.
const probeTimeout = 2 * time.Second

// A probe makes one cheap request to a service. It returns nil if the service
// responded.
type probe func(context.Context) error

// statusAnswer is what GET /api/status reports about one instance.
type statusAnswer struct {
	Status    string                  `json:"status"` // "ok", or "degraded" if storage does not respond or a sequence has a problem
	Version   string                  `json:"version"`
	StartedAt time.Time               `json:"startedAt"`
	Go        string                  `json:"go"`
	Storage   storageStatus           `json:"storage"`
	Signals   signalsStatus           `json:"signals"`
	Sequences map[string]ids.Stats    `json:"sequences"`
	Gates     map[string]gate.Watched `json:"gates"` // those with waiters in this instance

	// Requests counts the requests of this process, by service and operation.
	Requests map[string]map[string]int64 `json:"requests"`
}

const degraded = "degraded"

type storageStatus struct {
	Account       string         `json:"account"`
	serviceStatus                // of blobs, which every job needs
	Tables        *serviceStatus `json:"tables,omitempty"` // nil without a job that uses tables
	Queues        *serviceStatus `json:"queues,omitempty"`
}

type serviceStatus struct {
	Reachable bool   `json:"reachable"`
	Error     string `json:"error,omitempty"`
}

type signalsStatus struct {
	Bus       string `json:"bus"`
	Receiving bool   `json:"heard"` // otherwise gates are polled
}

// health serves GET /api/health: the process is up. It makes no request, so
// that a platform does not restart healthy processes while storage is down.
func health(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = jsonType
	w.Write([]byte("{\"status\":\"ok\"}\n"))
}

// status serves GET /api/status. The answer is 200 also if the instance is
// degraded: callers read the body.
func status(cfg config.Config, jobs []job, counter *requests.Counter, started time.Time) http.Handler {
	probes := make(map[string]probe)
	for _, j := range jobs {
		maps.Copy(probes, j.probes)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := statusAnswer{
			Status:    "ok",
			Version:   version.Read().Version,
			StartedAt: started.UTC(),
			Go:        runtime.Version(),
			Storage:   storageStatusOf(r.Context(), cfg.Storage.String(), probes),
		}
		for _, j := range jobs {
			if j.report != nil {
				j.report(&answer)
			}
		}
		if !answer.Storage.healthy() {
			answer.Status = degraded
		}
		answer.Requests = counter.Operations() // including the probes of this call
		writeJSON(w, http.StatusOK, answer)
	})
}

// storageStatusOf probes all services at once, so that a silent service does
// not delay the others.
func storageStatusOf(ctx context.Context, account string, probes map[string]probe) storageStatus {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	services := make(map[string]*serviceStatus) // guarded by mu
	var probing sync.WaitGroup
	for service, probe := range probes {
		probing.Go(func() {
			s := &serviceStatus{Reachable: true}
			if err := probe(ctx); err != nil {
				s = &serviceStatus{Error: probeError(err)}
			}
			mu.Lock()
			defer mu.Unlock()
			services[service] = s
		})
	}
	probing.Wait()
	return storageStatus{account, *services["blobs"], services["tables"], services["queues"]}
}

// probeError describes why a probe failed, without what it read: an operator
// would look for a sequence or queue that does not exist.
func probeError(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", probeTimeout)
	}
	if answer, ok := errors.AsType[*azure.Error](err); ok {
		return answer.Error()
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // stores wrap an error once, with the operation
	}
	return err.Error()
}

func (s storageStatus) healthy() bool {
	for _, service := range []*serviceStatus{&s.serviceStatus, s.Tables, s.Queues} {
		if service != nil && !service.Reachable {
			return false
		}
	}
	return true
}

// probeTables reads a row. Neither the row nor its table need exist.
func probeTables(store table.Store) probe {
	return func(ctx context.Context) error {
		_, err := store.Get(ctx, "status", "status")
		if errors.Is(err, table.ErrNotFound) {
			return nil
		}
		return err
	}
}

// probeQueues receives from a queue that need not exist and that has no other
// use: from another queue it would hide a message for a while.
func probeQueues(queues *azure.Queues) probe {
	return func(ctx context.Context) error {
		_, err := queues.Receive(ctx, "kennel-status", 1, time.Second)
		return err
	}
}
