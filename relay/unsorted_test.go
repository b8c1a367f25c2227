package relay_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"kennel/relay"
)

// unsorted is a namespace that delivers each batch in the reverse order, as a
// bus may that delivers messages whose locks ended after later ones.
type unsorted struct{ relay.Namespace }

type unsortedConnection struct{ relay.Connection }

func (u unsorted) Connect() (relay.Connection, error) {
	c, err := u.Namespace.Connect()
	return unsortedConnection{c}, err
}

func (u unsortedConnection) Receive(ctx context.Context, queue string, n int) ([]*relay.Delivery, error) {
	batch, err := u.Connection.Receive(ctx, queue, n)
	slices.Reverse(batch)
	return batch, err
}

// TestSyphonSortsABatch: the order within a session does not depend on the order
// of delivery.
func TestSyphonSortsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.fill(t, "orders", numbered(250, "a", "a")...)
		s := newSyphon(t, p.primary, unsorted{p.secondary}, queues, nil)
		defer s.Close(t.Context())
		if r := drain(t, s); r.Moved != 250 {
			t.Errorf("%+v, want 250 moved", r)
		}
		if n, ok := inOrder(p.primary.got("orders"), "a"); n != 250 || !ok {
			t.Errorf("%d messages, in order: %v", n, ok)
		}
	})
}
