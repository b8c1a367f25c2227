package devbus_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// The official JavaScript SDK is the second judge: it was written by others
// than the Go SDK, and expects things of the wire that the Go SDK ignores. It
// is installed from npm, which keeps what it downloads in its own cache.
func TestOracle(t *testing.T) {
	storetest.OnlyInProve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "oracle"))); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%s is not on the PATH: install Node.js 20 or later for the JavaScript SDK, which judges the broker", name)
		}
		command := exec.CommandContext(ctx, name, args...)
		command.Dir, command.WaitDelay = dir, 5*time.Second
		out, err := command.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Fatalf("%s %s: %v", name, args[0], err)
		}
	}
	run("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts")
	b, err := devbus.Listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	run("node", "oracle.js", b.ConnectionString())
}
