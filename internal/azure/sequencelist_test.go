package azure

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRequestsOfSequenceList: a page of the list makes a bounded number of
// requests, and its continuation leads to the others.
func TestRequestsOfSequenceList(t *testing.T) {
	const stored = 1000
	var requests atomic.Int64
	account := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		query := r.URL.Query()
		if query.Get("comp") != "list" {
			w.Header().Set("ETag", `"0x1"`)
			io.WriteString(w, "7")
			return
		}
		first, _ := strconv.Atoi(query.Get("marker"))
		top, _ := strconv.Atoi(query.Get("maxresults"))
		end := min(first+top, stored)
		var names strings.Builder
		for i := first; i < end; i++ {
			fmt.Fprintf(&names, "<Blob><Name>s%04d</Name></Blob>", i)
		}
		next := ""
		if end < stored {
			next = strconv.Itoa(end)
		}
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprintf(w, "<EnumerationResults><Blobs>%s</Blobs><NextMarker>%s</NextMarker></EnumerationResults>", &names, next)
	})
	store := NewSequences(opened(t, account.OpenBlobs, nil), "uniqueids")
	found, most := 0, int64(0)
	for continuation := ""; ; {
		requests.Store(0)
		page, next, err := store.List(t.Context(), 1000, continuation)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page {
			if want := fmt.Sprintf("s%04d", found); s.Name != want {
				t.Fatalf("%s, want %s", s.Name, want)
			}
			found++
		}
		most = max(most, requests.Load())
		if continuation = next; next == "" {
			break
		}
	}
	t.Logf("figure: requests to storage of a page of a list of sequences, at most | %d | ≤ 251", most)
	if found != stored || most > 251 {
		t.Errorf("%d sequences with up to %d requests a page, want %d and at most 251", found, most, stored)
	}
}
