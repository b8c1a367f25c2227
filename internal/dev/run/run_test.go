package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

func TestServe(t *testing.T) {
	broken := errors.New("broken")
	// untilStopped is a host that works.
	untilStopped := func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		return nil
	}
	type host = func(context.Context, func()) error
	fails := func(context.Context, func()) error { return broken }
	silent := func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil }
	failsToStop := func(ctx context.Context, _ func()) error { <-ctx.Done(); return broken }
	ends := func(_ context.Context, ready func()) error { ready(); ready(); return nil }
	tests := []struct {
		name         string
		host         host
		greet        error
		storageEnds  bool
		stop         bool
		wantErr      string // "" for none
		wantGreeting bool
	}{
		{"stopped on request", untilStopped, nil, false, true, "", true},
		{"stopped before it was ready", silent, nil, false, true, "", false},
		{"stopping fails", failsToStop, nil, false, true, "broken", false},
		{"does not start", fails, nil, false, false, "broken", false},
		{"ends unexpectedly", ends, nil, false, false, "the Functions host ended unexpectedly", false},
		{"storage ends", untilStopped, nil, true, false, "azurite ended unexpectedly", false},
		{"storage ends, and the host with an error", failsToStop, nil, true, false, "azurite ended unexpectedly, so the app has no storage\nbroken", false},
		{"greeting fails", untilStopped, broken, false, false, "broken", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				running, greeted, stoppings := false, false, 0
				host := func(ctx context.Context, ready func()) error {
					running = true
					defer func() { running = false }()
					return tt.host(ctx, ready)
				}
				storageEnded := make(chan struct{})
				result := make(chan error, 1)
				go func() {
					greet := func() error { greeted = true; return tt.greet }
					result <- serve(ctx, host, greet, func() { stoppings++ }, storageEnded)
				}()
				synctest.Wait()
				if tt.storageEnds {
					close(storageEnded)
				}
				if tt.stop {
					stop()
				}
				err := <-result
				if running {
					t.Error("the host is still running")
				}
				if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
					t.Errorf("got error %v, want %q", err, tt.wantErr)
				}
				if tt.wantGreeting && !greeted {
					t.Error("greet was not called")
				}
				if tt.stop != (stoppings == 1) {
					t.Errorf("stopped on request: %v, but stopping was called %d times", tt.stop, stoppings)
				}
			})
		})
	}
}
