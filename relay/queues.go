package relay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// BacklogQueues returns the names of n backlog queues for a primary namespace,
// whose short name is that before the first dot of its host.
func BacklogQueues(primary string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s/x-servicebus-transfer/%d", primary, i)
	}
	return names
}

const (
	ensureTries = 3
	ensurePause = 30 * time.Second
)

// EnsureQueues creates the backlog queues that are missing and returns those
// that exist then, in order. It tries three times to create a queue. The error
// is not nil if none exists, or if the namespace denies access.
func EnsureQueues(ctx context.Context, admin Queues, names []string) ([]string, error) {
	failures := make(map[string]error)
	pending := names
	for try := 0; try < ensureTries && len(pending) > 0; try++ {
		if try > 0 {
			select {
			case <-time.After(ensurePause):
			case <-ctx.Done():
			}
		}
		var again []string
		for _, name := range pending {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			delete(failures, name)
			err := admin.Ensure(ctx, name)
			if err == nil {
				continue
			}
			failures[name] = fmt.Errorf("create backlog queue %q: %w", name, err)
			switch classOf(err) {
			case Denied:
				return nil, fmt.Errorf("%w; the app needs the right to manage the secondary namespace, or a deployment must create the queues", failures[name])
			case Invalid: // the answer about a name does not change
			default:
				again = append(again, name)
			}
		}
		pending = again
	}
	var found []string
	var all []error
	for _, name := range names {
		if failures[name] == nil {
			found = append(found, name)
		}
		all = append(all, failures[name])
	}
	if len(found) == 0 {
		return nil, errors.Join(all...)
	}
	return found, nil
}
