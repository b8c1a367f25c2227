package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"kennel/gate"
	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/azure/servicebus"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
)

// gatePart is gates as a part of the program.
type gatePart struct {
	api.GateResource
	app.NoFunctions
	app.Idle

	bus    string // for the status
	limits observe.Limits

	// begin is closed by the first call for gates; nil: they are watched from the
	// start. Watching needs a subscription of Service Bus.
	begin chan struct{}
	first sync.Once
}

// newGates serves gates.
func newGates(e *environment) (*gatePart, error) {
	gates, store, err := openGates(e.blobs, e.signals, e.log)
	return newGatePart(e, gates, store), err
}

func newGatePart(e *environment, gates *gate.Gates, store api.GateStore) *gatePart {
	g := &gatePart{GateResource: api.GateResource{Gates: gates, Store: store, Members: e.members, SignedIn: e.cfg.SignedIn}, bus: e.cfg.ServiceBus.String()}
	if e.listening != nil && e.cfg.WorkGate == "" {
		g.begin = make(chan struct{}) // most workers serve no gate
	}
	return g
}

// Routes returns those of gates, of which the first call begins the watch.
func (g *gatePart) Routes() []edge.Route {
	all := g.GateResource.Routes()
	if g.begin == nil {
		return all
	}
	for i := range all {
		next := all[i].Handler
		all[i].Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.first.Do(func() { close(g.begin) })
			next.ServeHTTP(w, r)
		})
	}
	return all
}

// openGates opens the gates of an account. Without signals, which are nil then,
// they are polled.
func openGates(blobs *azure.Blobs, signals *servicebus.Signals, log *slog.Logger) (*gate.Gates, *azure.Gates, error) {
	o := &gate.Options{Log: log}
	if signals != nil {
		o.Signals = signals
	}
	store := azure.NewGates(blobs, names.GatesContainer)
	gates, err := gate.New(store, o)
	return gates, store, err
}

// Run watches the gates until ctx ends. Their waiters get an answer then.
func (g *gatePart) Run(ctx context.Context) error {
	if g.begin != nil {
		select {
		case <-g.begin:
		case <-ctx.Done():
			return nil
		}
	}
	return g.Gates.Run(ctx)
}

func (g *gatePart) Report(status *observe.Status) {
	status.Signals = observe.SignalsStatus{Bus: g.bus, Receiving: g.Gates.ReceivesSignals()}
	reportGates(status, g.Gates.Watched())
}

func reportGates(status *observe.Status, all map[string]gate.Watched) {
	status.GateCount = len(all)
	status.Gates = observe.Busiest(all, func(a, b gate.Watched) int { return cmp.Compare(b.Waiting, a.Waiting) })
}

func (g *gatePart) Facts(r *instances.Report) {
	var all []instances.Gate
	for name, watched := range g.Gates.Watched() {
		if watched.Waiting > 0 {
			all = append(all, instances.Gate{Name: name, Waiters: watched.Waiting})
		}
	}
	slices.SortFunc(all, func(a, b instances.Gate) int {
		return cmp.Or(b.Waiters-a.Waiters, strings.Compare(a.Name, b.Name))
	})
	instances.GateSection.Add(r, all)
}

// Problems returns the gates that cannot be read, why signals are not received
// or sent, and the limit if it is close.
func (g *gatePart) Problems() []instances.Problem {
	var unreadable []instances.Problem
	for name, f := range g.Gates.Unreadable() {
		unreadable = append(unreadable, instances.Problem{Code: instances.GateUnreadable, Subject: name, Since: f.Since, Count: f.Count,
			What: fmt.Sprintf("The gate counts as closed: %v.", f.Err)})
	}
	near := make(map[string]string)
	if waited := g.Gates.Waited(); observe.IsClose(waited, gate.MaxWatched) {
		near["all gates"] = fmt.Sprintf("This process has waiters at %d of at most %d gates.", waited, gate.MaxWatched)
	}
	return slices.Concat(observe.Oldest(unreadable), g.signalProblems(), g.limits.Problems(near))
}

func (g *gatePart) signalProblems() []instances.Problem {
	receiving, sending := g.Gates.SignalFailures()
	codes := make(map[string]instances.Problem)
	add := func(f gate.Failure, what string) {
		if f.Err == nil {
			return
		}
		code := instances.BusDisconnected
		if errors.Is(f.Err, servicebus.ErrDenied) {
			code = instances.BusDenied
		}
		p, ok := codes[code]
		if !ok || f.Since.Before(p.Since) {
			p.Since = f.Since
		}
		p.Code, p.Count = code, p.Count+max(f.Count, 1)
		p.What = strings.TrimSpace(fmt.Sprintf("%s %s: %v.", p.What, what, f.Err))
		codes[code] = p
	}
	add(receiving, "Gate signals are not received")
	add(sending, "Gate signals are not sent")
	return slices.Collect(maps.Values(codes))
}
