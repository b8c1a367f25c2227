package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"kennel/gate"
	"kennel/internal/storetest"
)

func TestGates(t *testing.T) {
	blobs := openBlobs(t, nil)
	storetest.TestGates(t, func(t *testing.T) storetest.Gates {
		store := NewGates(blobs, storetest.Name())
		set, remove := outsider(&store.blobs)
		return storetest.Gates{Store: store, Set: set, Delete: remove}
	})
}

func TestGateRequests(t *testing.T) {
	w := &wire{}
	store := NewGates(openBlobs(t, &Options{HTTP: w.client()}), storetest.Name())
	var flag gate.Flag
	load := func(seen string) func() error {
		return func() error { _, err := store.Load(t.Context(), "start", seen); return err }
	}
	replace := func(old *gate.Flag) func() error {
		return func() error {
			next, err := store.Replace(t.Context(), "start", *old, gate.Flag{Text: "{}"})
			if err == nil {
				flag = next
			}
			return err
		}
	}
	for _, step := range []struct {
		name string
		do   func() error
		err  error
		want []string
	}{
		{"load without container", load(""), nil, []string{"GET 404"}},
		{"create with container", replace(&gate.Flag{}), nil, []string{"PUT 404", "PUT 201", "PUT 201"}},
		{"load", load(""), nil, []string{"GET 200"}},
		{"load what was seen", func() error { return load(flag.Version)() }, gate.ErrUnchanged, []string{"GET 304"}},
		{"replace", replace(&flag), nil, []string{"PUT 201"}},
		{"replace a stale one", replace(&gate.Flag{Version: `"0x1"`}), gate.ErrChanged, []string{"PUT 412"}},
		{"create what is there", replace(&gate.Flag{}), gate.ErrChanged, []string{"PUT 409"}},
	} {
		if err := step.do(); !errors.Is(err, step.err) {
			t.Errorf("%s: %v, want %v", step.name, err, step.err)
		}
		if got := w.passed(); !slices.Equal(got, step.want) {
			t.Errorf("%s makes the requests %v, want %v", step.name, got, step.want)
		}
	}
}

// A release whose write is refused once, and one whose write is done but
// reported as failed: both end in one release, and the administrator knows.
func TestReleaseThroughFailures(t *testing.T) {
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprintf("done=%v", done), func(t *testing.T) {
			lost := 0
			w := &wire{lose: func(r *http.Request) (request, answer bool) {
				if r.Method != http.MethodPut || r.URL.Query().Get("restype") != "" || lost > 0 {
					return false, false
				}
				lost++
				return !done, done
			}}
			store := NewGates(openBlobs(t, &Options{HTTP: w.client()}), storetest.Name())
			if err := store.blobs.create(t.Context()); err != nil {
				t.Fatal(err)
			}
			gates, err := gate.New(store, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := gates.Release(t.Context(), "start", gate.Change{By: "ann"})
			if err != nil || !got.Changed || got.State.Releases != 1 || len(got.State.History) != 1 || lost != 1 {
				t.Errorf("release: %+v, %v, want the one release of ann's", got, err)
			}
		})
	}
}

func TestGateRefusals(t *testing.T) {
	held := gate.Flag{Version: `"0x1"`}
	load := func(seen string) func(context.Context, *Gates) error {
		return func(ctx context.Context, g *Gates) error { _, err := g.Load(ctx, "start", seen); return err }
	}
	replace := func(old gate.Flag) func(context.Context, *Gates) error {
		return func(ctx context.Context, g *Gates) error {
			_, err := g.Replace(ctx, "start", old, gate.Flag{Text: "{}"})
			return err
		}
	}
	for _, tt := range []struct {
		name   string
		status int
		code   string
		do     func(context.Context, *Gates) error
		want   error // nil: an Error with the status
	}{
		{"load busy", 503, "ServerBusy", load(""), nil},
		{"load forbidden", 403, "AuthorizationFailure", load(held.Version), nil},
		{"load of a missing account", 404, "ResourceNotFound", load(""), nil},
		{"load answered with 304 unasked", 304, "ConditionNotMet", load(""), nil},
		{"load unchanged", 304, "ConditionNotMet", load(held.Version), gate.ErrUnchanged},
		{"replace changed", 412, "ConditionNotMet", replace(held), gate.ErrChanged},
		{"replace deleted", 404, "BlobNotFound", replace(held), gate.ErrChanged},
		{"replace in a missing account", 404, "ResourceNotFound", replace(held), nil},
		{"replace leased", 412, "LeaseIdMissing", replace(held), nil},
		{"replace broken", 500, "InternalError", replace(held), nil},
		{"create existing", 409, "BlobAlreadyExists", replace(gate.Flag{}), gate.ErrChanged},
		{"create where no container can be", 404, "ContainerNotFound", replace(gate.Flag{}), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blobs, err := scripted(t, refuse(tt.status, tt.code)).OpenBlobs(nil)
			if err != nil {
				t.Fatal(err)
			}
			err = tt.do(t.Context(), NewGates(blobs, "globalflags"))
			leakless(t, err)
			if tt.want != nil {
				if !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				return
			}
			if errors.Is(err, gate.ErrChanged) || errors.Is(err, gate.ErrUnchanged) {
				t.Errorf("error %v says more than the service did", err)
			}
			if refusal, ok := errors.AsType[*Error](err); !ok || refusal.Status != tt.status {
				t.Errorf("error %v, want an Error with status %d", err, tt.status)
			}
		})
	}
}

// Without the service's clock a generation might be used twice, so a gate is
// not read.
func TestGateAnswerWithoutDate(t *testing.T) {
	blobs, err := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		refuse(404, "BlobNotFound")(w, r)
	}).OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := NewGates(blobs, "globalflags").Load(t.Context(), "start", ""); err == nil {
		t.Errorf("loaded %+v, want an error", f)
	}
}
