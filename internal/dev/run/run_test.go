package run

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"kennel/internal/dev/azurite"
	"kennel/internal/dev/project"
)

func TestServe(t *testing.T) {
	broken := errors.New("broken")
	// untilStopped is a host that works.
	untilStopped := func(ctx context.Context, ready func(error)) error {
		ready(nil)
		<-ctx.Done()
		return nil
	}
	type host = func(context.Context, func(error)) error
	fails := func(context.Context, func(error)) error { return broken }
	silent := func(ctx context.Context, _ func(error)) error { <-ctx.Done(); return nil }
	failsToStop := func(ctx context.Context, _ func(error)) error { <-ctx.Done(); return broken }
	ends := func(_ context.Context, ready func(error)) error { ready(nil); return nil }
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
		{"storage ends", untilStopped, nil, true, false, "no storage", false},
		{"storage ends, and the host with an error", failsToStop, nil, true, false, "no storage\nbroken", false},
		{"greeting fails", untilStopped, broken, false, false, "broken", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				running, greeted := false, false
				host := func(ctx context.Context, ready func(error)) error {
					running = true
					defer func() { running = false }()
					return tt.host(ctx, ready)
				}
				storageEnded := make(chan struct{})
				result := make(chan error, 1)
				go func() {
					greet := func(error) error { greeted = true; return tt.greet }
					result <- serve(ctx, host, greet, storageEnded, func() error { return errors.New("no storage") })
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
			})
		})
	}
}

// TestAnnounceStop checks that Stopping is called exactly when the context ends
// before the run, and never after it.
func TestAnnounceStop(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		ctx, stop := context.WithCancel(t.Context())
		calls := 0
		end := (&App{opt: Options{Stopping: func() { calls++ }}}).announceStop(ctx)
		if stopped {
			stop()
		}
		end()
		stop()
		if stopped != (calls == 1) {
			t.Errorf("stopped on request: %v, but Stopping was called %d times", stopped, calls)
		}
	}
}

func TestPortFromSettings(t *testing.T) {
	const file = `{"IsEncrypted":false,"Host":{"LocalHttpPort":7075}}`
	for _, tt := range []struct {
		settings   string
		port, want int
	}{
		{"", SettingsPort, DefaultPort},
		{file, SettingsPort, 7075},
		{file, 0, 0},
		{file, 7080, 7080},
	} {
		root := t.TempDir()
		if tt.settings != "" {
			if err := os.WriteFile(filepath.Join(root, "local.settings.json"), []byte(tt.settings), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		app, err := New(&project.Project{Root: root}, nil, &Options{Port: tt.port})
		if err != nil || app.opt.Port != tt.want {
			t.Errorf("port %d with the settings %q: got %+v, %v, want %d", tt.port, tt.settings, app, err, tt.want)
		}
	}
}

// TestEntrance checks that requests get 503 until the host has the listener,
// also if a connection without a request is open, and that the listener then
// works.
func TestEntrance(t *testing.T) {
	listener, err := claimPort(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	get := func() (status int, retryAfter string) {
		resp, err := http.Get("http://" + listener.Addr().String() + "/api/health")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	entrance := openEntrance(listener)
	silent, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if status, after := get(); status != http.StatusServiceUnavailable || after != "1" {
		t.Errorf("before the host: got %d, Retry-After %q, want 503, 1", status, after)
	}
	entrance.close()
	entrance.close()

	server := &http.Server{Handler: http.NotFoundHandler()}
	defer server.Close()
	go server.Serve(listener)
	if status, _ := get(); status != http.StatusNotFound {
		t.Errorf("with the host: got %d, want its 404", status)
	}
}

// TestStartingNamesTheData checks where an app keeps its data, as shown at its
// start.
func TestStartingNamesTheData(t *testing.T) {
	for _, tt := range []struct {
		app  *App
		want Event
	}{
		{&App{}, Event{Storage: "given"}},
		{&App{development: true, opt: Options{Storage: Devstore}}, Event{Storage: "devstore"}},
		{&App{development: true, opt: Options{Storage: Azurite, Data: "data"}}, Event{Storage: "azurite", Data: "data"}},
		{&App{development: true, opt: Options{Storage: Devstore}, shared: &azurite.Server{}}, Event{Storage: "running"}},
	} {
		if got := tt.app.starting(); got.Storage != tt.want.Storage || got.Data != tt.want.Data {
			t.Errorf("got %q, %q, want %q, %q", got.Storage, got.Data, tt.want.Storage, tt.want.Data)
		}
	}
}
