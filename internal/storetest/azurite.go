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

	"kennel/internal/dev/azurite"
)

// shared is the one Azurite of this test process.
var shared struct {
	mu     sync.Mutex
	main   bool            // Main runs and will stop Azurite
	server *azurite.Server // started on first use
	err    error           // why it could not be started; there is no second attempt
}

// Main runs a package's tests, then stops the Azurite that they started and
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
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

// Azurite returns a running Azurite that all tests of the process share. Use
// unique names in it, for example from [Name]. The first call starts Azurite
// and installs it if necessary. Without Node.js the test fails and names the
// program to install.
func Azurite(t testing.TB) *azurite.Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.main {
		t.Fatal("tests with Azurite need: func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start(t.Context())
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// OwnAzurite returns an Azurite that only this test uses, and which ends with
// it. It takes a second to start: use [Azurite] where unique names are enough.
func OwnAzurite(t testing.TB) *azurite.Server {
	t.Helper()
	Azurite(t) // installs it
	server, err := start(t.Context())
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

func start(ctx context.Context) (*azurite.Server, error) {
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
