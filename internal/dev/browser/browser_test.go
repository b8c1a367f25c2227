package browser

import (
	"os"
	"strings"
	"testing"
)

// TestToolsAreNamed: where tools are missing, the error names all of them and
// how to get them.
func TestToolsAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	_, err := Install(t.Context(), os.Environ(), ".", dir)
	if err == nil {
		t.Fatal("installed without tools")
	}
	for _, want := range []string{"chromium or ", "apt-get install chromium", "node is not", "Node.js 20", "npm is not"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v in the folder, want nothing", left, err)
	}
}
