package main

import (
	"context"
	"time"

	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/table"
)

// retrialInterval is how often requests to storage that fail are tried again.
const retrialInterval = 30 * time.Second

// retrials are harmless requests by what they try. A process whose requests
// fail makes them until storage responds, so that the problem ends with its
// cause although no caller needs the same again.
type retrials map[requests.Kind]probe

// storageJob reports the requests to storage that fail, and tries them again.
func storageJob(account azure.Account, o azure.Options, rows table.Store) job {
	trials := newRetrials(account, o, rows)
	return job{problems: o.Outcomes.Problems, run: func(ctx context.Context) error {
		trials.run(ctx, o.Outcomes)
		return nil
	}}
}

// newRetrials returns the requests for the services that the account has.
func newRetrials(account azure.Account, o azure.Options, rows table.Store) retrials {
	o.Job = "status"
	trials := make(retrials)
	if blobs, err := account.OpenBlobs(&o); err == nil {
		blob := azure.NewScratchBlob(blobs, sequencesContainer, scratch)
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
		trials[requests.Kind{Service: requests.Queue}] = func(ctx context.Context) error {
			_, err := queues.Count(ctx, scratchQueue)
			return err
		}
		trials[requests.Kind{Service: requests.Queue, Write: true}] = func(ctx context.Context) error {
			return queues.Clear(ctx, scratchQueue)
		}
	}
	return trials
}

func (t retrials) run(ctx context.Context, outcomes *requests.Outcomes) {
	ticker := time.NewTicker(retrialInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.once(ctx, outcomes)
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
