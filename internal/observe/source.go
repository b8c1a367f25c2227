// Package observe is what a program knows about itself: its problems, samples of
// its queues, its processes, and from these its status, metrics and bill. It gets
// what it knows from sources, which are the parts of the program.
package observe

import (
	"context"

	"kennel/internal/instances"
)

// A Source is what a part knows about itself.
type Source interface {
	Problems() []instances.Problem // the present ones; cheap, without requests
	Facts(*instances.Report)       // fills in what this process reports to the others
}

// A probed source uses services of storage: by their names, a cheap request to
// each.
type probed interface{ Probes() map[string]Probe }

// A Probe makes one cheap request to a service. It returns nil if the service
// responded.
type Probe func(context.Context) error

// A sampled source has queues.
type sampled interface {
	Sample(ctx context.Context) (map[string]instances.QueueSample, error) // their depths; sends requests to storage
	Wake(queue string)                                                    // signals waiting work, if the queue is its own
	LetterCounts() map[string]*LetterCount                                // what is known of their dead letters, by queue
}

// NoProblems and NoFacts are embedded by sources without.
type (
	NoProblems struct{}
	NoFacts    struct{}
)

func (NoProblems) Problems() []instances.Problem { return nil }

func (NoFacts) Facts(*instances.Report) {}
