package policy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// named finds the paths of files and packages that the tour names.
var named = regexp.MustCompile(`[A-Za-z_-]+(?:/[A-Za-z_-]+)*(?:\.go|\.md)?`)

// TestTour: the tour of the code in internal/doc.go names each package, and only files
// that exist.
func TestTour(t *testing.T) {
	text, err := os.ReadFile("internal/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	names := named.FindAllString(string(text), -1)
	files := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".md") {
			continue
		}
		files++
		if _, err := os.Stat(name); err != nil {
			t.Errorf("internal/doc.go names a file that does not exist: %v", err)
		}
	}
	for dir := range layers {
		if dir != "." && dir != "internal" && !strings.Contains(dir, "testdata") && !slices.Contains(names, dir) {
			t.Errorf("internal/doc.go does not name package %s", dir)
		}
	}
	if files < 40 {
		t.Errorf("internal/doc.go names only %d files", files)
	}
}
