package azure

import (
	"os"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"kennel/internal/storetest"
)

func TestMain(m *testing.M) {
	os.Exit(storetest.Main(m))
}

func openBlobs(t *testing.T, o *Options) *Blobs {
	t.Helper()
	blobs, err := Account{ConnectionString: storetest.Azurite(t).ConnectionString()}.OpenBlobs(o)
	if err != nil {
		t.Fatal(err)
	}
	return blobs
}

func TestSequences(t *testing.T) {
	blobs := openBlobs(t, nil)
	storetest.TestSequences(t, func(t *testing.T) storetest.Sequences {
		store := NewSequences(blobs, storetest.Name())
		set, remove := outsider(&store.blobs)
		return storetest.Sequences{Store: store, Set: set, Delete: remove}
	})
}

// outsider returns functions that change the blobs of a container like another
// program.
func outsider(c *casBlobs) (set func(t *testing.T, name, text string), remove func(t *testing.T, name string)) {
	set = func(t *testing.T, name, text string) {
		t.Helper()
		if err := c.create(t.Context()); err != nil {
			t.Fatal(err)
		}
		body := streaming.NopCloser(strings.NewReader(text))
		if _, err := c.container.NewBlockBlobClient(name).Upload(t.Context(), body, nil); err != nil {
			t.Fatal(err)
		}
	}
	remove = func(t *testing.T, name string) {
		t.Helper()
		if _, err := c.container.NewBlobClient(name).Delete(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	return set, remove
}
