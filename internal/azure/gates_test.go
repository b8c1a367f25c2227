package azure

import (
	"net/http"
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

// If the write of a release is refused once, or is applied but reported as
// failed, Release still succeeds with exactly one release.
func TestReleaseThroughFailures(t *testing.T) {
	for name, fault := range failures {
		t.Run(name, func(t *testing.T) {
			proxy, account := throughProxy(t)
			store := NewGates(opened(t, account.OpenBlobs, nil), storetest.Name())
			if err := store.blobs.create(t.Context()); err != nil {
				t.Fatal(err)
			}
			fault.Operation, fault.Nth = "put", 1
			proxy.Add(fault)
			gates, err := gate.New(store, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := gates.Release(t.Context(), "start", gate.Change{By: "ann"})
			if err != nil || !got.Changed || got.State.Releases != 1 || len(got.State.History) != 1 {
				t.Errorf("release: %+v, %v, want one release by ann", got, err)
			}
		})
	}
}

// Without the service's clock a generation could be used twice, so Load returns
// an error.
func TestGateAnswerWithoutDate(t *testing.T) {
	account := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		refuse(404, "BlobNotFound")(w, r)
	})
	blobs := opened(t, account.OpenBlobs, nil)
	if f, err := NewGates(blobs, "globalflags").Load(t.Context(), "start", ""); err == nil {
		t.Errorf("loaded %+v, want an error", f)
	}
}
