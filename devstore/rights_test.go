package devstore_test

import (
	"strings"
	"testing"

	"kennel/devstore"
)

// TestSourcesNeedTheRightToRead copies from an address whose signature allows
// something else, and which asks for something that it allows.
func TestSourcesNeedTheRightToRead(t *testing.T) {
	store := devstore.New(t, nil)
	c := connect(t, store.InProcess(), store)
	if _, err := c.blobs.CreateContainer(t.Context(), "box", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.blobs.UploadBuffer(t.Context(), "box", "secret", []byte("secret"), nil); err != nil {
		t.Fatal(err)
	}
	to := c.blobs.ServiceClient().NewContainerClient("box").NewBlockBlobClient("copy")
	for _, letter := range "wdlacr" {
		const rights = "&ss=b&srt=sco&se=2100-01-01&sv=2026-06-06"
		query := "sp=" + string(letter) + rights
		query += "&sig=" + accountSignature(query)
		for _, asks := range []string{"", "restype=account&comp=properties&", "comp=metadata&", "restype=container&"} {
			address := strings.TrimSuffix(c.blobs.URL(), "/") + "/box/secret?" + asks + query
			_, fromURL := to.UploadBlobFromURL(t.Context(), address, nil)
			_, copied := to.CopyFromURL(t.Context(), address, nil)
			_, later := to.StartCopyFromURL(t.Context(), address, nil)
			may := letter == 'r' && asks == ""
			for _, err := range []error{fromURL, copied, later} {
				if may != (err == nil) {
					t.Errorf("with %c, asking for %q: %v", letter, asks, err)
				}
			}
		}
	}
}

// A caller with a signature learns what is wrong with a request that is no
// operation, not that the signature does not fit it.
func TestMalformedRequestWithSignature(t *testing.T) {
	store := devstore.New(t, nil)
	query := "sp=rl&ss=bqt&srt=co&se=2100-01-01&sv=2026-06-06"
	query += "&sig=" + accountSignature(query)
	for _, tt := range []struct {
		method, path, query string
		status              int
		want                string
	}{
		{"PUT", ".blob/box/a?", query, 400, "MissingRequiredHeader"},
		{"GET", ".blob/box?restype=container&comp=odd&", query, 400, "InvalidQueryParameterValue"},
		{"GET", ".table/Tables?timeout=x&", query, 400, "InvalidQueryParameterValue"},
		{"GET", ".table/Tables?timeout=-1&", query, 400, "OutOfRangeQueryParameterValue"},
		{"GET", ".table/Tables?timeout=100&", query, 200, ""},
		{"GET", ".table/Tables?timeout=x", "", 401, "NoAuthenticationInformation"},
		{"GET", ".blob/box?restype=container&comp=odd", "", 401, "NoAuthenticationInformation"},
	} {
		status, text := control(t, store, tt.method, "/devstoreaccount1"+tt.path+tt.query, "")
		if status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, status, text, tt.status, tt.want)
		}
	}
}
