package relay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

func TestCheckEntity(t *testing.T) {
	for _, name := range []string{"a", "orders", "sales/EU.orders_1-a", strings.Repeat("x", 260)} {
		if err := relay.CheckEntity(name); err != nil {
			t.Errorf("%.20s: %v", name, err)
		}
	}
	for _, name := range []string{"", "-a", "a/", "a b", "a~b", "$management", "a\n", "ä", strings.Repeat("x", 261)} {
		if err := relay.CheckEntity(name); err == nil {
			t.Errorf("%.20q is accepted", name)
		}
	}
}

// TestSyphonStats: the counts have what all passes did, also those of Run.
func TestSyphonStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		p.fill(t, "orders", numbered(7, "a", "")...)
		expired := text("late")
		expired.Header = header(time.Second)
		p.fill(t, "other", expired)
		time.Sleep(2 * time.Second)
		s := p.syphon(nil)
		drain(t, s)
		p.fill(t, "orders", numbered(5, "b", "")...)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		s.Run(ctx)
		if got, want := s.Stats(), (relay.Result{Moved: 12, Expired: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		s.Close(context.Background())
		p.close(t)
	})
}

// TestSilentConnectIsUnsent: an attempt that got no connection within its time
// certainly stored nothing.
func TestSilentConnectIsUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, unreachable{}, nil, nil, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		_, err := s.Send(ctx, "orders", text("a"))
		if failed, ok := errors.AsType[*relay.SendError](err); !ok || failed.Unclear || s.Stats().Ambiguous > 0 {
			t.Errorf("%v, %+v; want that nothing was sent", err, s.Stats())
		}
		s.Close(context.Background())
	})
}

// unreachable is a namespace to which connections hang.
type unreachable struct{ relay.Connection }

func (u unreachable) Connect() (relay.Connection, error) { return u, nil }
func (unreachable) Close(context.Context) error          { return nil }

func (unreachable) Send(ctx context.Context, _ string, _ *relay.Message) error {
	<-ctx.Done()
	return &relay.Error{Class: relay.Unavailable, Unsent: true, Err: ctx.Err()}
}
