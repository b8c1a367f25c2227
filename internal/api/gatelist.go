package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"kennel/internal/azure"
	"kennel/internal/edge"
	"kennel/internal/instances"
)

// GateStore is what operators see of the stored gates.
type GateStore interface {
	List(ctx context.Context, top int, continuation string) (page []azure.StoredGate, next string, err error)
}

// GateItem is a gate in the list.
type GateItem struct {
	Gate       string    `json:"gate"`
	Released   bool      `json:"released"`
	Generation *int64    `json:"generation"` // nil if the stored document cannot be used, so that the gate counts as closed
	ChangedAt  time.Time `json:"changedAt,omitzero"`
	Waiters    int       `json:"waiters"` // in all instances that are known
}

// GateList is a page of gates.
type GateList struct {
	Items        []GateItem `json:"items"`
	Continuation string     `json:"continuation,omitempty"`
	Partial      bool       `json:"partial,omitempty"` // only this instance is known
}

// list serves GET /api/gates?top=N&continuation=….
func (g GateResource) list(r *http.Request) (edge.Reply, error) {
	return edge.Limited(r, func(r *http.Request) (edge.Reply, error) {
		top, continuation, err := edge.PageOf(r)
		if err != nil {
			return edge.Reply{}, err
		}
		page, next, err := g.Store.List(r.Context(), top, continuation)
		if err != nil {
			return edge.Reply{}, err
		}
		waiting, known := g.waiters(r.Context())
		waiters := make(map[string]int)
		for _, at := range waiting {
			for gate, n := range at {
				waiters[gate] += n
			}
		}
		items := []GateItem{}
		for _, stored := range page {
			item := GateItem{Gate: stored.Gate, Released: stored.Released, ChangedAt: stored.ChangedAt, Waiters: waiters[stored.Gate]}
			if stored.Err == nil {
				item.Generation = &stored.Generation
			}
			items = append(items, item)
		}
		return edge.Reply{Status: http.StatusOK, Body: GateList{items, next, !known}}, nil
	})
}

// waiterItem is how many waiters an instance has at a gate.
type waiterItem struct {
	Instance string `json:"instance"`
	Waiters  int    `json:"waiters"`
}

// WaiterList is who waits at a gate.
type WaiterList struct {
	Items   []waiterItem `json:"items"`
	Partial bool         `json:"partial,omitempty"` // only this instance is known
}

// listWaiters serves GET /api/gates/{gate}/waiters: the instances that have
// waiters, those with most of them first.
func (g GateResource) listWaiters(r *http.Request, name string) (edge.Reply, error) {
	waiting, known := g.waiters(r.Context())
	list := WaiterList{Items: []waiterItem{}, Partial: !known}
	for instance, at := range waiting {
		if at[name] > 0 {
			list.Items = append(list.Items, waiterItem{instance, at[name]})
		}
	}
	slices.SortFunc(list.Items, func(a, b waiterItem) int {
		return cmp.Or(b.Waiters-a.Waiters, strings.Compare(a.Instance, b.Instance))
	})
	return edge.Reply{Status: http.StatusOK, Body: list}, nil
}

// waiters returns how many waiters each live instance has, by its name and that
// of the gate. It returns false if only those of this process are known.
func (g GateResource) waiters(ctx context.Context) (waiters map[string]map[string]int, known bool) {
	others, known := g.Members.Live(ctx, instances.PartGates)
	waiters = make(map[string]map[string]int)
	for _, other := range others {
		at := make(map[string]int)
		for _, gate := range other.Gates {
			at[gate.Name] = gate.Waiters
		}
		waiters[other.Instance] = at
	}
	own := make(map[string]int)
	for name, watched := range g.Gates.Watched() {
		own[name] = watched.Waiting
	}
	waiters[g.Members.Name()] = own
	return waiters, known
}
