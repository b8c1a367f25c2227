package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	parentInterval = time.Second
	orphanLimit    = 3 * time.Second // for the stop of a handler without its host
)

// watchParent calls orphaned when parent, which returns the id of the parent
// process, does not return first any more. It returns then, or when ctx ends. A
// parent with the id 1, as in a container, is a parent like others.
func watchParent(ctx context.Context, first int, parent func() int, orphaned func()) {
	ticker := time.NewTicker(parentInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if parent() != first {
			orphaned()
			return
		}
	}
}

// endWithin ends the process after orphanLimit, whatever still runs: the
// callers have gone with the host. Log lines go to closed pipes; ignoring the
// signal for that lets the process return its unused numbers before it ends.
func endWithin() {
	signal.Ignore(syscall.SIGPIPE)
	time.AfterFunc(orphanLimit, func() { os.Exit(1) })
}
