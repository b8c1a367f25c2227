package devbus_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// The official JavaScript SDK is the second judge: it was written by others
// than the Go SDK, and expects things of the wire that the Go SDK does not
// look at. It is installed from testdata/oracle, once per version.

func TestOracle(t *testing.T) {
	storetest.OnlyInProve(t) // it installs packages from npm
	modules := installOracle(t)
	b, err := devbus.Listen(nil)
	must(t, err, "listen")
	defer b.Close()

	script := filepath.Join("testdata", "oracle", "oracle.js")
	if _, err := os.ReadFile(script); err != nil { // so that go test notices when it changes
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", script, b.ConnectionString())
	node.Env = append(node.Environ(), "NODE_PATH="+modules)
	out, err := node.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("the JavaScript SDK disagrees: %v", err)
	}
}

// installOracle returns the directory with the SDK. It is complete or not
// there: it is installed beside its place and then renamed, so that test runs
// at the same time do not disturb each other.
func installOracle(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is not on the PATH: install Node.js 20 or later; the JavaScript SDK, which judges the broker, needs it", tool)
		}
	}
	files := os.DirFS(filepath.Join("testdata", "oracle"))
	lock, err := fs.ReadFile(files, "package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "kennel")
	place := filepath.Join(cache, fmt.Sprintf("devbus-oracle-%.8x", sha256.Sum256(lock)))
	modules := filepath.Join(place, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}

	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	beside, err := os.MkdirTemp(cache, "installing-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(beside)
	fresh := filepath.Join(beside, "oracle")
	if err := os.CopyFS(fresh, files); err != nil {
		t.Fatal(err)
	}
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts")
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci, which installs the JavaScript SDK, failed: %v\n%s", err, out)
	}
	if err := os.Rename(fresh, place); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, missing := os.Stat(modules); missing != nil { // nor has another run been faster
			t.Fatal(err)
		}
	}
	return modules
}
