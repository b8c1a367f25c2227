package parts

import (
	"context"
	"sync"
	"time"

	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/doctor"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/table"
)

// storagePart reports the requests to storage that fail, and tries them again.
// Most processes never do, so the clients for it are opened by the first trial.
type storagePart struct {
	app.Idle
	observe.NoFacts

	outcomes *requests.Outcomes
	open     func() observe.Retrials
}

func newStoragePart(e *environment) app.Part {
	s := storagePart{outcomes: e.outcomes, open: sync.OnceValue(func() observe.Retrials { return newRetrials(e.account, e.optionsOf("status"), e.members.Rows) })}
	return app.Part{Knows: s, Runs: s}
}

func (s storagePart) Problems() []instances.Problem { return s.outcomes.Problems() }

func (s storagePart) Run(ctx context.Context) error {
	observe.Retry(ctx, s.outcomes, s.open)
	return nil
}

// newRetrials returns the requests for the services that the account has.
func newRetrials(account azure.Account, o *azure.Options, rows table.Store) observe.Retrials {
	trials := make(observe.Retrials)
	if blobs, err := account.OpenBlobs(o); err == nil {
		blob := azure.NewScratchBlob(blobs, names.SequencesContainer, doctor.Scratch)
		trials[requests.Kind{Service: requests.Blob}] = blob.Read
		trials[requests.Kind{Service: requests.Blob, Write: true}] = blob.Delete
	}
	if rows != nil { // its writes need no trial: the process writes its own row twice a minute
		trials[requests.Kind{Service: requests.Table}] = func(ctx context.Context) error {
			_, err := rows.Get(ctx, doctor.Scratch, doctor.Scratch)
			return err
		}
	}
	if queues, err := account.OpenQueues(o); err == nil {
		trials[requests.Kind{Service: requests.Queue}] = probeQueues(queues)
		trials[requests.Kind{Service: requests.Queue, Write: true}] = func(ctx context.Context) error {
			return queues.Clear(ctx, names.DoctorQueue)
		}
	}
	return trials
}

// probeQueues receives from a queue that need not exist and that has no other
// use: from another queue it would hide a message for a while.
func probeQueues(queues *azure.Queues) observe.Probe {
	return func(ctx context.Context) error {
		_, err := queues.Receive(ctx, "kennel-status", 1, time.Second)
		return err
	}
}
