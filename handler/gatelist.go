package main

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"kennel/internal/azure"
	"kennel/internal/instances"
)

// gateStore is what operators see of the stored gates.
type gateStore interface {
	List(ctx context.Context, top int, continuation string) (page []azure.StoredGate, next string, err error)
}

// gateItem is a gate in the list.
type gateItem struct {
	Gate       string    `json:"gate"`
	Released   bool      `json:"released"`
	Generation *int64    `json:"generation"` // nil if the stored document cannot be used, so that the gate counts as closed
	ChangedAt  time.Time `json:"changedAt,omitzero"`
	Waiters    int       `json:"waiters"` // in all instances that are known
}

// gateList is a page of gates.
type gateList struct {
	Items        []gateItem `json:"items"`
	Continuation string     `json:"continuation,omitempty"`
	Partial      bool       `json:"partial,omitempty"` // only this instance is known
}

// list serves GET /api/gates?top=N&continuation=….
func (g gateFunctions) list(r *http.Request) (reply, error) {
	return limited(r, func(r *http.Request) (reply, error) {
		top, continuation, err := pageOf(r)
		if err != nil {
			return reply{}, err
		}
		page, next, err := g.store.List(r.Context(), top, continuation)
		if err != nil {
			return reply{}, err
		}
		waiting, known := g.waiters(r.Context())
		waiters := make(map[string]int)
		for _, at := range waiting {
			for gate, n := range at {
				waiters[gate] += n
			}
		}
		items := []gateItem{}
		for _, stored := range page {
			item := gateItem{Gate: stored.Gate, Released: stored.Released, ChangedAt: stored.ChangedAt, Waiters: waiters[stored.Gate]}
			if stored.Err == nil {
				item.Generation = &stored.Generation
			}
			items = append(items, item)
		}
		return reply{status: http.StatusOK, body: gateList{items, next, !known}}, nil
	})
}

// waiterItem is how many waiters an instance has at a gate.
type waiterItem struct {
	Instance string `json:"instance"`
	Waiters  int    `json:"waiters"`
}

// waiterList is who waits at a gate.
type waiterList struct {
	Items   []waiterItem `json:"items"`
	Partial bool         `json:"partial,omitempty"` // only this instance is known
}

// listWaiters serves GET /api/gates/{gate}/waiters: the instances that have
// waiters, those with most of them first.
func (g gateFunctions) listWaiters(r *http.Request, name string) (reply, error) {
	waiting, known := g.waiters(r.Context())
	list := waiterList{Items: []waiterItem{}, Partial: !known}
	for instance, at := range waiting {
		if at[name] > 0 {
			list.Items = append(list.Items, waiterItem{instance, at[name]})
		}
	}
	slices.SortFunc(list.Items, func(a, b waiterItem) int {
		return cmp.Or(b.Waiters-a.Waiters, strings.Compare(a.Instance, b.Instance))
	})
	return reply{status: http.StatusOK, body: list}, nil
}

// waiters returns how many waiters each live instance has, by its name and that
// of the gate. It returns false if only those of this process are known.
func (g gateFunctions) waiters(ctx context.Context) (waiters map[string]map[string]int, known bool) {
	others, known := g.members.live(ctx, instances.PartGates)
	waiters = make(map[string]map[string]int)
	for _, other := range others {
		at := make(map[string]int)
		for _, gate := range other.Gates {
			at[gate.Name] = gate.Waiters
		}
		waiters[other.Instance] = at
	}
	own := make(map[string]int)
	for name, watched := range g.gates.Watched() {
		own[name] = watched.Waiting
	}
	waiters[g.members.Name()] = own
	return waiters, known
}
