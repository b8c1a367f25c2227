package policy

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"kennel/internal/version"
)

// ignored returns a function that reports whether .dockerignore has a path. It
// uses the matcher of the engines.
func ignored(t *testing.T) func(name string) bool {
	t.Helper()
	text, err := os.Open(".dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	patterns, err := ignorefile.ReadAll(text)
	if err != nil {
		t.Fatal(err)
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) bool {
		match, err := matcher.MatchesOrParentMatches(name)
		if err != nil {
			t.Fatal(err)
		}
		return match
	}
}

// buildContext returns a function that reports whether a file exists and is
// sent to the engine.
func buildContext(t *testing.T) func(name string) bool {
	t.Helper()
	ignored := ignored(t)
	return func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.Mode().IsRegular() && !ignored(name)
	}
}

// filesOf returns a file, or all files in a folder that is embedded.
func filesOf(t *testing.T, name string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(name, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Errorf("the handler embeds %s: %v", name, err)
	}
	return files
}

// TestBuildContext: what the handler is made of is sent to the engine, and no
// setting, test or build is.
func TestBuildContext(t *testing.T) {
	sent, ignored := buildContext(t), ignored(t)
	all := sources(t)
	seen, todo := make(map[string]bool), []string{"handler"}
	for len(todo) > 0 {
		dir := todo[0]
		if todo = todo[1:]; seen[dir] {
			continue
		}
		seen[dir] = true
		for _, f := range all[dir] {
			if f.test {
				continue
			}
			for _, needed := range append(embedded(f), path.Base(f.path)) {
				for _, needed := range filesOf(t, path.Join(dir, needed)) {
					if !sent(needed) {
						t.Errorf(".dockerignore has %s, of which the handler is made", needed)
					}
				}
			}
			for _, imported := range f.imports {
				if own, ok := strings.CutPrefix(imported, version.Module+"/"); ok {
					todo = append(todo, own)
				}
			}
		}
	}
	if !seen["docs"] || !seen["internal/azure/requests"] {
		t.Errorf("found only %q", slices.Sorted(maps.Keys(seen)))
	}
	for _, name := range []string{
		".git/config", "local.settings.json", "handler/local.settings.json", ".kennel/url", "dist/handler", "bin/handler",
		".env", "handler/main_test.go", "handler/testdata/bare/main.go", "handler/handler", "ids.test", "docs/design.md",
		"internal/console/browser/suite.mjs", "internal/console/browser/node_modules/axe-core/axe.js",
	} {
		if !ignored(name) {
			t.Errorf(".dockerignore lacks %s", name)
		}
	}
}

// embedded returns the patterns that a file embeds.
func embedded(f sourceFile) (patterns []string) {
	for _, group := range f.syntax.Comments {
		for _, comment := range group.List {
			if text, ok := strings.CutPrefix(comment.Text, "//go:embed "); ok {
				patterns = append(patterns, strings.Fields(text)...)
			}
		}
	}
	return patterns
}
