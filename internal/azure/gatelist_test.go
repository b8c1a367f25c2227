package azure

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"kennel/gate"
	"kennel/internal/storetest"
)

// allGates returns the names of all gates in pages of top.
func allGates(t *testing.T, store *Gates, top int) (names []string, pages int) {
	t.Helper()
	for continuation := ""; pages == 0 || continuation != ""; pages++ {
		page, next, err := store.List(t.Context(), top, continuation)
		if err != nil || len(page) > top {
			t.Fatalf("%d gates, %v, want up to %d", len(page), err, top)
		}
		for _, g := range page {
			names = append(names, g.Gate)
		}
		continuation = next
	}
	return names, pages
}

// TestGateList lists more gates than fit into a page, among blobs that no gate
// has the name of.
func TestGateList(t *testing.T) {
	blobs := openBlobs(t, nil)
	store := NewGates(blobs, storetest.Name())
	if page, next, err := store.List(t.Context(), 10, ""); len(page) != 0 || next != "" || err != nil {
		t.Errorf("without a container: %v, %q, %v, want an empty list", page, next, err)
	}
	gates, err := gate.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	done, err := gates.Release(t.Context(), "gate-0000", gate.Change{By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	top := storetest.Scale(20, maxListed)
	want := []string{"gate-0000"}
	set, _ := outsider(&store.Values)
	set(t, "!doctor", "")
	set(t, "gate-0000/copy", "{}")
	var writes errgroup.Group
	writes.SetLimit(8)
	for i := 1; i <= top; i++ {
		name := fmt.Sprintf("gate-%04d", i)
		want = append(want, name)
		writes.Go(func() error {
			_, err := store.Replace(t.Context(), name, gate.Value{}, gate.Value{Text: "{}"})
			return err
		})
	}
	if err := writes.Wait(); err != nil {
		t.Fatal(err)
	}
	names, pages := allGates(t, store, top)
	if diff := cmp.Diff(want, names); diff != "" || pages != 2 {
		t.Errorf("%d pages (-want +got):\n%s", pages, diff)
	}
	first, _, err := store.List(t.Context(), 4, "")
	if err != nil || len(first) != 2 {
		t.Fatalf("%d gates among the first four blobs, %v, want 2", len(first), err)
	}
	released := done.State
	released.History = nil
	if diff := cmp.Diff(StoredGate{State: released}, first[0]); diff != "" {
		t.Errorf("a released gate (-want +got):\n%s", diff)
	}
	if got := first[1]; !errors.Is(got.Err, gate.ErrCorrupt) || got.Gate != "gate-0001" || got.Released {
		t.Errorf("an invalid document: %+v, want %v", got, gate.ErrCorrupt)
	}
}

// TestGateListThroughChanges: a gate that is deleted after the names were read
// is not in the list. A read that fails ends the list, and so does an invalid
// continuation.
func TestGateListThroughChanges(t *testing.T) {
	read := refuse(404, "BlobNotFound")
	account := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("marker") == "invalid":
			refuse(400, "OutOfRangeInput")(w, r)
		case r.URL.Query().Get("comp") == "list":
			w.Header().Set("Content-Type", "application/xml")
			io.WriteString(w, `<EnumerationResults><Blobs><Blob><Name>a</Name></Blob><Blob><Name>b</Name></Blob></Blobs><NextMarker>c</NextMarker></EnumerationResults>`)
		case strings.HasSuffix(r.URL.Path, "/a"):
			w.Header().Set("ETag", `"0x1"`)
			io.WriteString(w, "{}")
		default:
			read(w, r)
		}
	})
	store := NewGates(opened(t, account.OpenBlobs, nil), "globalflags")
	page, next, err := store.List(t.Context(), 2, "")
	if len(page) != 1 || page[0].Gate != "a" || next != "c" || err != nil {
		t.Errorf("with a deleted gate: %+v, %q, %v, want only the other", page, next, err)
	}
	if page, _, err := store.List(t.Context(), 2, "invalid"); !errors.Is(err, ErrContinuation) {
		t.Errorf("an invalid continuation: %+v, %v, want %v", page, err, ErrContinuation)
	}
	read = refuse(403, "AuthorizationFailure")
	if page, _, err := store.List(t.Context(), 2, ""); !hasStatus(err, 403) {
		t.Errorf("a read that is rejected: %+v, %v, want its answer", page, err)
	}
}
