package parts

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/control"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/queues"
	"kennel/internal/table"
	"kennel/internal/version"
	"kennel/queue"
)

// queuePart is the queues of a program's own as a part of it.
type queuePart struct {
	*queues.Queues
	app.Idle
	probe  observe.Probe
	pauses *control.Pauses
}

func (q *queuePart) Routes() []edge.Route { return nil } // newQueueRoutes has them, with those of built-in queues

// newQueueRoutes serves the queues of the program, own and built-in ones.
func newQueueRoutes(e *environment, r *Running) app.Part {
	works := slices.DeleteFunc(e.builtInQueues(), func(name string) bool { return e.unserved[name] })
	resource := api.QueueResource{Works: works, Timeout: e.cfg.InvocationTimeout, Own: r.queues, Pauses: r.pauses, Members: e.members, People: api.People{SignedIn: e.cfg.SignedIn, Log: e.log}}
	return app.Part{Serves: app.RoutesOnly(resource.Routes())}
}

func (q *queuePart) Probes() map[string]observe.Probe {
	return map[string]observe.Probe{"queues": q.probe}
}

func (q *queuePart) Run(ctx context.Context) error { return q.Queues.Run(ctx) }

func (q *queuePart) Work(ctx context.Context) error { return q.Queues.Work(ctx) }

// newOwnQueues opens the queues that the author of the program declared.
func newOwnQueues(e *environment) (*queuePart, error) {
	o := e.optionsOf("queues")
	store, err1 := e.account.OpenQueues(o)
	tables, err2 := e.account.OpenTables(o)
	blobs, err3 := e.account.OpenBlobs(o)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	rows, err := azure.NewTable(tables, names.QueueClaimsTable)
	if err != nil {
		return nil, err
	}
	claimRows, err := table.New(rows)
	if err != nil {
		return nil, err
	}
	container := azure.NewContainer(blobs, names.QueueClaimsContainer)
	claims := func(storage string) (*queue.Claims, error) {
		return queue.NewKeptClaims(claimRows, container, storage)
	}
	pauses, err := newPauses(e)
	if err != nil {
		return nil, err
	}
	q, err := queues.New(e.declared, store, claims, &queues.Options{
		Listening: e.listening, Signals: ofQueues(e.signals), Pauses: pauses, Meter: e.meter, Drain: e.cfg.Drain / 2,
		Ready: e.life.wait, Others: (&versions{members: e.members}).others, Handlers: handlersOf(e.members), Unserved: e.unserved, NewID: e.newID, Log: e.log,
	})
	if err != nil {
		return nil, err
	}
	return &queuePart{Queues: q, probe: probeQueues(store), pauses: pauses}, nil
}

// newPauses returns the pauses of the declared queues, which are rows of the
// instance table.
func newPauses(e *environment) (*control.Pauses, error) {
	var declared []string
	for _, q := range e.declared.Queues {
		declared = append(declared, q.Name)
	}
	o := &control.Options{Log: e.log}
	if e.signals != nil {
		o.Signals = e.signals.Control()
	}
	return control.New(e.members.Rows, declared, o)
}

// handlersOf returns what works on which queues in the other living processes.
func handlersOf(members *observe.Members) func(context.Context) ([]map[string][]string, bool) {
	return func(ctx context.Context) (all []map[string][]string, known bool) {
		others, known := members.Live(ctx, instances.HandledSection)
		for _, i := range others {
			all = append(all, instances.HandledSection.Of(i.Report))
		}
		return all, known
	}
}

// The look at the other processes: how long it may take, and for how long its
// result serves, so that a queue of unreadable messages costs no request each.
const (
	othersTimeout = 5 * time.Second
	othersLast    = 15 * time.Second
)

// versions looks for processes of another version, which may read messages that
// this one cannot.
type versions struct {
	members *observe.Members

	mu    sync.Mutex
	until time.Time // guarded by mu
	found bool      // guarded by mu
}

// others reports whether there may be some.
func (v *versions) others(ctx context.Context) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Now().Before(v.until) {
		return v.found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, othersTimeout)
	defer cancel()
	all, known := v.members.Live(ctx)
	own := version.Read().Version
	v.found = !known || slices.ContainsFunc(all, func(i instances.Instance) bool { return i.Version != own })
	v.until = time.Now().Add(othersLast)
	return v.found, nil
}
