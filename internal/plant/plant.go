// Package plant plants bugs: it changes the real source for one run of a
// package's own tests, which must then fail. A test that stays green over the
// bug that it is there for proves nothing.
package plant

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// slots keeps the planted runs from taking the whole machine.
var slots = make(chan struct{}, 2)

// Bug plants a bug into a file of the package under test by edits (old, new,
// old, new, …), of which each old text must be there exactly once, and fails
// unless one of the tests that match caughtBy fails. Further arguments are for
// those tests. It runs beside the other parallel tests.
func Bug(t *testing.T, file string, edits []string, caughtBy string, args ...string) {
	t.Helper()
	t.Parallel()
	gotool, err := exec.LookPath("go")
	if err != nil {
		t.Fatalf("planting bugs needs the go command: %v", err)
	}
	slots <- struct{}{}
	defer func() { <-slots }()
	overlay := Overlay(t, file, edits)
	cmd := exec.CommandContext(t.Context(), gotool, append([]string{
		"test", "-count=1", "-vet=off", "-failfast", "-timeout=2m", "-overlay=" + overlay, "-run=" + caughtBy, ".",
	}, args...)...)
	out, err := cmd.CombinedOutput()
	switch {
	case bytes.Contains(out, []byte("no tests to run")):
		t.Errorf("there is no %s", caughtBy)
	case err == nil:
		t.Errorf("%s stayed green", caughtBy)
	case bytes.Contains(out, []byte("build failed")) || !bytes.Contains(out, []byte("FAIL")):
		t.Errorf("the tests did not run: %v\n%s", err, out)
	case bytes.Contains(out, []byte("test timed out")):
		t.Errorf("%s hung instead of failing:\n%.2000s", caughtBy, out)
	}
}

// Overlay writes the edited file, and the description that has the go command
// take it for the real one.
func Overlay(t *testing.T, file string, edits []string) (path string) {
	t.Helper()
	real, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for i := 0; i < len(edits); i += 2 {
		if n := strings.Count(text, edits[i]); n != 1 {
			t.Fatalf("%s holds %d times, and must hold once:\n%s", file, n, edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	dir := t.TempDir()
	edited := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	description, err := json.Marshal(map[string]map[string]string{"Replace": {real: edited}})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, description, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
