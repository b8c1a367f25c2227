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
	// untilStopped is a host in good order.
	untilStopped := func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		return nil
	}
	tests := []struct {
		name         string
		host         func(context.Context, func()) error
		greet        error
		storageEnds  bool
		stop         bool
		wantErr      string // "" for none
		wantGreeting bool
	}{
		{name: "stopped as asked", host: untilStopped, stop: true, wantGreeting: true},
		{
			name: "stopped before it was ready",
			host: func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil },
			stop: true,
		},
		{
			name:    "stopping fails",
			host:    func(ctx context.Context, _ func()) error { <-ctx.Done(); return broken },
			stop:    true,
			wantErr: "broken",
		},
		{
			name:    "does not start",
			host:    func(context.Context, func()) error { return broken },
			wantErr: "broken",
		},
		{
			name:    "ends by itself",
			host:    func(_ context.Context, ready func()) error { ready(); ready(); return nil },
			wantErr: "the Functions host ended by itself",
		},
		{name: "storage ends", host: untilStopped, storageEnds: true, wantErr: "azurite ended by itself"},
		{
			name:        "storage ends, and the host with an error",
			host:        func(ctx context.Context, _ func()) error { <-ctx.Done(); return broken },
			storageEnds: true,
			wantErr:     "azurite ended by itself, and with it the app's storage\nbroken",
		},
		{name: "greeting fails", host: untilStopped, greet: broken, wantErr: "broken", wantGreeting: true},
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
					t.Error("it did not greet")
				}
				if tt.stop != (stoppings == 1) {
					t.Errorf("stopped as asked: %v, but stopping was called %d times", tt.stop, stoppings)
				}
			})
		})
	}
}
