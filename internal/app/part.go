// Package app assembles a program from parts and runs it: behind a Functions
// host, or without one, as a worker. Begin with part.go (what a part is), then
// program.go (the start, and the stages of the stop).
package app

import (
	"context"

	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/observe"
)

// A Part is one part of a program. A nil member means that it has nothing of
// that kind.
type Part struct {
	Serves server
	Knows  observe.Source
	Runs   Runner
	Closes stage // when it is closed
}

// A server is what a part serves: to callers of the API, and to the Functions
// host.
type server interface {
	Routes() []edge.Route
	Functions(host *customhandler.App) // those of queues and timers
}

// A Runner is what a part runs and closes.
type Runner interface {
	Run(ctx context.Context) error   // beside everything else, until ctx ends
	Work(ctx context.Context) error  // what the host's functions do, in a process without a host, until ctx ends
	Close(ctx context.Context) error // after the last call and the last message
}

// A stage is when a part is closed, after the last call and the last message.
type stage int

// The stages of the stop, in their order. A process may be killed during it, so
// what others need comes first.
const (
	releases    stage = iota // by default: what a part holds for itself
	GivesBack                // what others can use, as numbers that were not issued
	Leaves                   // the row of this process: without it, the others count it as gone
	Accounts                 // the bill, which has the requests of the stages before
	Disconnects              // connections that the stages before may use
)

// NoFunctions is embedded by a server without functions of queues and timers.
type NoFunctions struct{}

func (NoFunctions) Functions(*customhandler.App) {}

// Idle is embedded by a runner for what it does not do.
type Idle struct{}

func (Idle) Run(context.Context) error { return nil }

func (Idle) Work(context.Context) error { return nil }

func (Idle) Close(context.Context) error { return nil }

// RoutesOnly is a server of routes.
type RoutesOnly []edge.Route

func (r RoutesOnly) Routes() []edge.Route { return r }

func (RoutesOnly) Functions(*customhandler.App) {}
