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
