package observe

import (
	"context"
	"time"

	"kennel/internal/azure/requests"
)

// retrialInterval is how often requests to storage that fail are tried again.
const retrialInterval = 30 * time.Second

// Retrials are harmless requests by what they try. A process whose requests
// fail makes them until storage responds, so that the problem ends with its
// cause although no caller needs the same again.
type Retrials map[requests.Kind]Probe

// Retry makes retrials while something fails, until ctx ends.
func Retry(ctx context.Context, outcomes *requests.Outcomes, open func() Retrials) {
	Every(ctx, retrialInterval, func() {
		if !outcomes.AllWell() {
			open().Once(ctx, outcomes)
		}
	})
}

// Once tries again what fails. The outcomes are recorded where the requests are
// sent.
func (t Retrials) Once(ctx context.Context, outcomes *requests.Outcomes) {
	for _, kind := range outcomes.Failing() {
		if trial := t[kind]; trial != nil {
			ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
			_ = trial(ctx)
			cancel()
		}
	}
}
