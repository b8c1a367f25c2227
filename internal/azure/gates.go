package azure

import (
	"context"
	"fmt"
	"slices"

	"kennel/gate"
)

// Gates is a [gate.Store]. The text of a blob is the gate's document.
type Gates struct{ Values }

// NewGates returns the gates in a container, which is created with the first
// gate. It makes no request.
func NewGates(blobs *Blobs, containerName string) *Gates {
	return &Gates{newValues(blobs, containerName, "application/json", "gates")}
}

// StoredGate is a gate in a list.
type StoredGate struct {
	gate.State       // without its history; only the name if Err is not nil
	Err        error // why the document cannot be used
}

// List returns up to top gates, and not more than maxListed, in the order of
// their names, and the continuation of the list, or "" at its end. It makes one
// request for the names, and one for each gate. It leaves out blobs without the
// name of a gate, and gates that are deleted in the meantime. A document may be
// long, so List keeps only the part that it returns.
func (g *Gates) List(ctx context.Context, top int, continuation string) ([]StoredGate, string, error) {
	names, next, err := g.list(ctx, min(top, maxListed), continuation, gate.CheckName)
	if err != nil {
		return nil, "", fmt.Errorf("list gates: %w", err)
	}
	deleted := func(s StoredGate) bool { return s.Gate == "" }
	all, err := readEach(ctx, names, func(ctx context.Context, name string) (StoredGate, error) {
		v, err := g.Load(ctx, name, "")
		if err != nil || v.Version == "" {
			return StoredGate{}, err
		}
		state, err := gate.StateOf(name, v)
		state.Gate, state.History = name, nil
		return StoredGate{state, err}, nil
	})
	return slices.DeleteFunc(all, deleted), next, err
}
