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
		return storetest.Sequences{
			Store: store,
			Set: func(t *testing.T, sequence, text string) {
				t.Helper()
				if err := store.blobs.create(t.Context()); err != nil {
					t.Fatal(err)
				}
				body := streaming.NopCloser(strings.NewReader(text))
				if _, err := store.blobs.container.NewBlockBlobClient(sequence).Upload(t.Context(), body, nil); err != nil {
					t.Fatal(err)
				}
			},
			Delete: func(t *testing.T, sequence string) {
				t.Helper()
				if _, err := store.blobs.container.NewBlobClient(sequence).Delete(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}
