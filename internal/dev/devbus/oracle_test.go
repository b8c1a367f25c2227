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

// TestOracle runs the official JavaScript SDK against the broker. It has other
// authors than the Go SDK, and checks parts of the protocol that the Go SDK
// ignores. npm installs it, and caches the downloads.
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
			t.Fatalf("%s is not on the PATH: install Node.js 20 or later, which runs the JavaScript SDK", name)
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
