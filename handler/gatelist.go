package main

import (
	"context"
	"net/http"
	"time"

	"kennel/internal/azure"
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
		waiters, known := g.waiters(r.Context())
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

// waiters returns how many waiters each gate has in all live instances. It
// returns false if only those of this process are known.
func (g gateFunctions) waiters(ctx context.Context) (waiters map[string]int, known bool) {
	others, known := g.members.live(ctx, false)
	waiters = make(map[string]int)
	for _, other := range others {
		for _, at := range other.Gates {
			waiters[at.Name] += at.Waiters
		}
	}
	for name, watched := range g.gates.Watched() {
		waiters[name] += watched.Waiting
	}
	return waiters, known
}
