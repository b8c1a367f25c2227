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

// A release whose write is refused once, and one whose write is applied but
// reported as failed: both end in one release, and the administrator knows.
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
				t.Errorf("release: %+v, %v, want the one release of ann's", got, err)
			}
		})
	}
}

// Without the service's clock a generation might be used twice, so a gate is
// not read.
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
