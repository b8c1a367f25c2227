package storetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kennel/devstore"
	"kennel/internal/dev/azurite"
)

// Account is the storage account of a test.
type Account interface {
	ConnectionString() string
}

// onAzurite reports whether tests use Azurite where they can use both. make
// prove runs the tests of all stores once more with it, as a second opinion.
func onAzurite() bool { return os.Getenv("KENNEL_STORAGE") == "azurite" }

// shared is the storage that the tests of this process share.
var shared struct {
	mu      sync.Mutex
	main    bool // Main runs and will stop it
	store   *devstore.Store
	azurite *azurite.Server // started on first use
	err     error           // why Azurite could not be started; there is no second attempt
}

// Main runs a package's tests, then stops the storage that they started and
// removes the programs that they built:
//
//	func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
func Main(m interface{ Run() int }) (code int) {
	shared.mu.Lock()
	shared.main = true
	shared.mu.Unlock()

	code = m.Run()
	removePrograms()

	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.azurite != nil {
		if err := shared.azurite.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

// Storage returns storage that all tests of the process share. Use unique names
// in it, for example from [Name].
func Storage(t testing.TB) Account {
	t.Helper()
	if onAzurite() {
		return Azurite(t)
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.store == nil {
		store, err := devstore.Open("", nil)
		if err != nil {
			t.Fatal(err)
		}
		shared.store = store // it ends with the process
	}
	return shared.store
}

// OwnStorage returns storage that only this test uses, and which ends with it.
func OwnStorage(t testing.TB) Account {
	t.Helper()
	if onAzurite() {
		return OwnAzurite(t)
	}
	store, err := devstore.Open("", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// Azurite returns a running Azurite that all tests of the process share, for
// tests that compare it with others, which run in make prove. The first call starts Azurite and installs
// it if necessary. Without Node.js the test fails and names the program to
// install.
func Azurite(t testing.TB) *azurite.Server {
	t.Helper()
	if !onAzurite() {
		OnlyInProve(t) // make test needs no Node.js
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.main {
		t.Fatal("tests with Azurite need: func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }")
	}
	if shared.azurite == nil && shared.err == nil {
		shared.azurite, shared.err = startAzurite(t.Context())
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.azurite
}

// OwnAzurite returns an Azurite that only this test uses, and which ends with
// it. It takes a second to start: use [Azurite] where unique names are enough.
func OwnAzurite(t testing.TB) *azurite.Server {
	t.Helper()
	Azurite(t) // installs it
	server, err := startAzurite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func startAzurite(ctx context.Context) (*azurite.Server, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a folder to install Azurite in: %w", err)
	}
	in, err := azurite.Install(ctx, filepath.Join(cache, "kennel"), os.Stderr)
	if err != nil {
		return nil, err
	}
	return azurite.Start(ctx, in, nil)
}

// Name returns a unique name that is valid for containers, queues and blobs.
func Name() string { return "test-" + strings.ToLower(rand.Text()) }
