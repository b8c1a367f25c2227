package run

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"kennel/devstore"
	"kennel/internal/azure"
	"kennel/internal/dev/azurite"
)

// readBlob reads a blob that does not exist.
func readBlob(t *testing.T, connection string) error {
	t.Helper()
	blobs, err := azure.Account{ConnectionString: connection}.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	return azure.NewScratchBlob(blobs, "kennel", "check").Read(t.Context())
}

// TestKeyOfTheApp checks that storage of an app accepts its app and the public
// key, and refuses the app of other storage, which may have had its ports.
func TestKeyOfTheApp(t *testing.T) {
	start := func() store {
		app := &App{opt: Options{Log: t.Output(), Report: func(Event) error { return nil }}}
		s, err := app.startDevstore("")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	s, other := start(), start()
	if s.BlobURL() == other.BlobURL() {
		t.Fatalf("two stores are at %s", s.BlobURL())
	}
	at := func(key string) string {
		account := "DefaultEndpointsProtocol=http;AccountName=" + devstore.DefaultAccount
		return account + ";AccountKey=" + key + ";BlobEndpoint=" + s.BlobURL() + ";QueueEndpoint=" + s.QueueURL() + ";TableEndpoint=" + s.TableURL()
	}
	_, foreign, _ := strings.Cut(other.ConnectionString(), "AccountKey=")
	foreign, _, _ = strings.Cut(foreign, ";")
	for _, connection := range []string{s.ConnectionString(), at(devstore.DefaultKey)} {
		if err := readBlob(t, connection); err != nil {
			t.Errorf("%s: %v", connection, err)
		}
	}
	answer, refused := errors.AsType[*azure.Error](readBlob(t, at(foreign)))
	if !refused || answer.Status != 403 {
		t.Errorf("the app of other storage: got %v, want 403", answer)
	}
}

// TestRunningDevstore checks that an app in the Core Tools uses a devstore that
// a developer runs, and not that of another app.
func TestRunningDevstore(t *testing.T) {
	for _, accounts := range []map[string][]string{
		nil,
		{devstore.DefaultAccount: {devstore.NewKey(), devstore.DefaultKey}, azurite.OwnAccount: {devstore.NewKey()}},
	} {
		s, err := devstore.Open("", &devstore.Options{Accounts: accounts})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		first := 20_000 + rand.IntN(10_000) // which ports are free is left to chance anyway
		for _, err = s.ListenEach(first); err != nil; _, err = s.ListenEach(first) {
			first = 20_000 + rand.IntN(10_000)
		}
		running := azurite.Running(t.Context(), first)
		if own := accounts != nil; own != (running == nil) {
			t.Errorf("own %t: found %v", own, running)
			continue
		}
		if running != nil {
			if err := checkShared(t.Context(), running.ConnectionString(), "devstore"); err != nil || running.Kind() != "devstore" {
				t.Errorf("%s: %v", running.Kind(), err)
			}
		}
	}
}
