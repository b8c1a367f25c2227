package main

import (
	"context"
	"sync"
	"time"

	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/names"
	"kennel/internal/table"
)

// retrialInterval is how often requests to storage that fail are tried again.
const retrialInterval = 30 * time.Second

// retrials are harmless requests by what they try. A process whose requests
// fail makes them until storage responds, so that the problem ends with its
// cause although no caller needs the same again.
type retrials map[requests.Kind]probe

// storageJob reports the requests to storage that fail, and tries them again.
// Most processes never do, so the clients for it are opened by the first trial.
func storageJob(account azure.Account, o azure.Options, rows table.Store) job {
	open := sync.OnceValue(func() retrials { return newRetrials(account, o, rows) })
	return job{problems: o.Outcomes.Problems, run: func(ctx context.Context) error {
		retry(ctx, o.Outcomes, open)
		return nil
	}}
}

// newRetrials returns the requests for the services that the account has.
func newRetrials(account azure.Account, o azure.Options, rows table.Store) retrials {
	o.Job = "status"
	trials := make(retrials)
	if blobs, err := account.OpenBlobs(&o); err == nil {
		blob := azure.NewScratchBlob(blobs, names.SequencesContainer, scratch)
		trials[requests.Kind{Service: requests.Blob}] = blob.Read
		trials[requests.Kind{Service: requests.Blob, Write: true}] = blob.Delete
	}
	if rows != nil { // its writes need no trial: the process writes its own row twice a minute
		trials[requests.Kind{Service: requests.Table}] = func(ctx context.Context) error {
			_, err := rows.Get(ctx, scratch, scratch)
			return err
		}
	}
	if queues, err := account.OpenQueues(&o); err == nil {
		trials[requests.Kind{Service: requests.Queue}] = probeQueues(queues)
		trials[requests.Kind{Service: requests.Queue, Write: true}] = func(ctx context.Context) error {
			return queues.Clear(ctx, names.DoctorQueue)
		}
	}
	return trials
}

// retry makes retrials while something fails, until ctx ends.
func retry(ctx context.Context, outcomes *requests.Outcomes, open func() retrials) {
	every(ctx, retrialInterval, func() {
		if !outcomes.AllWell() {
			open().once(ctx, outcomes)
		}
	})
}

// every calls do at intervals until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// once tries again what fails. The outcomes are recorded where the requests are
// sent.
func (t retrials) once(ctx context.Context, outcomes *requests.Outcomes) {
	for _, kind := range outcomes.Failing() {
		if trial := t[kind]; trial != nil {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			_ = trial(ctx)
			cancel()
		}
	}
}
