// Handler is the Kennel app: the custom handler that the Azure Functions host
// starts, one process per instance. It is a program on package kennel that uses
// all that is built in.
//
// It answers the host as soon as the port is open, and no answer needs a request
// to storage that was sent before. So it starts while storage is down and
// recovers without a restart. Without invocations it only writes its row of the
// instance table, twice a minute.
//
// If its host ends without it, as by SIGKILL, it stops within five seconds.
//
// Exit codes: 0 after SIGINT or SIGTERM, or after its host ended; 1 if it could
// not start, or a part of it failed; 2 for unknown arguments. The host restarts
// it after 1, and never after 0.
//
// `handler worker` processes the queues without a Functions host.
// `handler probe` reports by its exit code whether a worker lives.
package main

import (
	"kennel"
	"kennel/otlp"
)

func main() { kennel.Main("kennel", everything) }

// everything declares the Kennel app: all that is built in, with its traces.
func everything(a *kennel.App) error {
	a.EnableAll()
	otlp.Enable(a)
	return nil
}
