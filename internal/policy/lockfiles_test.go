package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The part of a package.json, and of a package in a lock file, that our rules
// are about.
type npmPackage struct {
	Version, Resolved, Integrity                        string
	Link                                                bool
	Dependencies, DevDependencies, OptionalDependencies map[string]string
}

// direct returns the versions that a package.json, or the first package of a
// lock file, requires.
func (p npmPackage) direct() map[string]string {
	all := make(map[string]string)
	for _, some := range []map[string]string{p.Dependencies, p.DevDependencies, p.OptionalDependencies} {
		maps.Copy(all, some)
	}
	return all
}

var exactVersion = regexp.MustCompile(`^\d+\.\d+\.\d+(-[\w.-]+)?$`)

// lintLock returns the mistakes in a package.json and its lock file. The lock
// file pins contents by digest and has no addresses: npm downloads from the
// registry that it is configured for.
func lintLock(manifest, lock string) (mistakes []string) {
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Sprintf(format, args...)) }
	var required npmPackage
	var locked struct {
		LockfileVersion int
		Packages        map[string]npmPackage
	}
	if err := json.Unmarshal([]byte(manifest), &required); err != nil {
		return []string{err.Error()}
	}
	if err := json.Unmarshal([]byte(lock), &locked); err != nil {
		return []string{err.Error()}
	}
	if locked.LockfileVersion != 3 {
		wrong("the lock file has format %d, want 3", locked.LockfileVersion)
	}
	if strings.Contains(lock, "://") {
		wrong("the lock file has an address")
	}
	if root := locked.Packages[""]; !maps.Equal(root.direct(), required.direct()) || len(required.direct()) == 0 {
		wrong("the lock file is for %v, want %v", root.direct(), required.direct())
	}
	for name, version := range required.direct() {
		if !exactVersion.MatchString(version) || locked.Packages["node_modules/"+name].Version != version {
			wrong("%s %q: want one version, and the same in the lock file", name, version)
		}
	}
	for name, p := range locked.Packages {
		if name != "" && (!strings.HasPrefix(p.Integrity, "sha512-") || !exactVersion.MatchString(p.Version) || p.Resolved != "" || p.Link) {
			wrong("%s is not pinned by a version and a digest alone", name)
		}
	}
	return mistakes
}

// TestLockFiles checks what npm installs for tests and for `kennel up`, and that
// each rule finds its mistake.
func TestLockFiles(t *testing.T) {
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	lint := func(manifest, lock string) string { return strings.Join(lintLock(manifest, lock), "\n") }
	files := 0
	for path, manifest := range all {
		if filepath.Base(path) != "package.json" {
			continue
		}
		files++
		lock, err := os.ReadFile(filepath.Join(filepath.Dir(path), "package-lock.json"))
		if err != nil {
			t.Errorf("%s has no lock file: %v", path, err)
			continue
		}
		if mistakes := lint(manifest, string(lock)); mistakes != "" {
			t.Errorf("%s:\n%s", path, mistakes)
		}
	}
	if files < 3 {
		t.Errorf("found %d files package.json, want at least 3", files)
	}

	const manifest = `{"dependencies":{"a":"1.2.3"}}`
	const lock = `{"lockfileVersion":3,"packages":{"":{"dependencies":{"a":"1.2.3"}},"node_modules/a":{"version":"1.2.3","integrity":"sha512-x"},"node_modules/b":{"version":"4.5.6","integrity":"sha512-y"}}}`
	if mistakes := lint(manifest, lock); mistakes != "" {
		t.Errorf("a lock file without mistakes: %s", mistakes)
	}
	for _, tt := range []struct{ old, new, want string }{
		{`"lockfileVersion":3`, `"lockfileVersion":2`, "has format 2"},
		{`"sha512-y"`, `"sha512-y","resolved":"https://registry.example/b-4.5.6.tgz"`, "has an address\nnode_modules/b is not pinned"},
		{`"sha512-y"`, `"sha512-y","resolved":"b-4.5.6.tgz"`, "node_modules/b is not pinned"},
		{`"sha512-y"`, `"sha1-y"`, "node_modules/b is not pinned"},
		{`,"integrity":"sha512-y"`, ``, "node_modules/b is not pinned"},
		{`"4.5.6"`, `"^4.5.6"`, "node_modules/b is not pinned"},
		{`"version":"4.5.6"`, `"version":"4.5.6","link":true`, "node_modules/b is not pinned"},
		{`"":{"dependencies":{"a":"1.2.3"}}`, `"":{"dependencies":{}}`, "is for map[], want map[a:1.2.3]"},
		{`"version":"1.2.3"`, `"version":"1.2.4"`, "a \"1.2.3\": want one version"},
	} {
		if mistakes := lint(manifest, strings.Replace(lock, tt.old, tt.new, 1)); !strings.Contains(mistakes, tt.want) {
			t.Errorf("%s in place of %s: mistakes %q, want %q", tt.new, tt.old, mistakes, tt.want)
		}
	}
	if mistakes := lint(strings.Replace(manifest, "1.2.3", "^1.2.3", 1), strings.Replace(lock, `{"a":"1.2.3"}`, `{"a":"^1.2.3"}`, 1)); !strings.Contains(mistakes, "want one version") {
		t.Errorf("a range of versions: mistakes %q", mistakes)
	}
}
