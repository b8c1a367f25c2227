package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kennel/internal/instances"
	"kennel/internal/table"
)

type storageStatus struct {
	Account        string         `json:"account"`
	*ServiceStatus                // of blobs; nil, as the others, if no part probes them
	Tables         *ServiceStatus `json:"tables,omitempty"`
	Queues         *ServiceStatus `json:"queues,omitempty"`
}

// ServiceStatus is a service of storage in the status.
type ServiceStatus struct {
	Reachable bool   `json:"reachable"`
	Error     string `json:"error,omitempty"`
}

// storageStatusOf probes all services at once, so that a silent service does
// not delay the others. It also returns the problems that this finds.
func storageStatusOf(ctx context.Context, account string, probes map[string]Probe) (storageStatus, []instances.Problem) {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	var mu sync.Mutex
	services := make(map[string]*ServiceStatus) // guarded by mu
	var problems []instances.Problem            // guarded by mu
	var probing sync.WaitGroup
	for service, probe := range probes {
		probing.Go(func() {
			err := probe(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				services[service] = &ServiceStatus{Reachable: true}
				return
			}
			failed := &ServiceStatus{Error: probeError(err)}
			services[service] = failed
			problems = append(problems, problemOf(service, err, failed.Error))
		})
	}
	probing.Wait()
	return storageStatus{account, services["blobs"], services["tables"], services["queues"]}, problems
}

// problemOf returns the problem that a failed probe shows.
func problemOf(service string, err error, cause string) instances.Problem {
	p := instances.Problem{Code: service + "_failing", What: fmt.Sprintf("A request for the status to %s failed: %s.", service, cause), Since: time.Now().UTC(), Count: 1}
	if table.IsRefused(err) {
		p.Code = instances.StorageDenied
	}
	return p
}

// probeError describes why a probe failed, without the name of what it read: an
// operator would look for a sequence or queue that does not exist.
func probeError(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", ProbeTimeout)
	}
	if answer, ok := errors.AsType[table.Refusal](err); ok {
		return answer.Error()
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // stores wrap an error once, with the operation
	}
	return err.Error()
}

func (s storageStatus) Healthy() bool {
	for _, service := range []*ServiceStatus{s.ServiceStatus, s.Tables, s.Queues} {
		if service != nil && !service.Reachable {
			return false
		}
	}
	return true
}
