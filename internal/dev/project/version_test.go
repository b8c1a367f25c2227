package project

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDescribe checks the version of a source without git, at a commit, with
// changes and at a tag.
func TestDescribe(t *testing.T) {
	p := &Project{Root: writeTree(t, map[string]string{"host.json": goodHost})}
	env := map[string]string{"GIT_CEILING_DIRECTORIES": filepath.Dir(p.Root), "GIT_CONFIG_GLOBAL": "none", "GIT_CONFIG_NOSYSTEM": "1"}
	if got := p.describe(t.Context(), env); got != (version{}) {
		t.Errorf("without git: %+v, want no version", got)
	}
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=ann", "-c", "user.email=ann@example.com"}, args...)
		if output, err := p.command(t.Context(), env, "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	git("init", "-q")
	git("add", "host.json")
	git("commit", "-qm", "one")
	got := p.describe(t.Context(), env)
	if len(got.name) != 10 || !strings.HasPrefix(got.commit, got.name) {
		t.Errorf("at a commit: %+v, want its hash", got)
	}
	commit := got.commit
	git("tag", "v0.1.0")
	if got := p.describe(t.Context(), env); got != (version{"v0.1.0", commit}) {
		t.Errorf("at a tag: %+v, want v0.1.0", got)
	}
	git("rm", "-q", "--cached", "host.json")
	if got := p.describe(t.Context(), env); got != (version{"v0.1.0-dirty", commit}) {
		t.Errorf("with changes: %+v, want v0.1.0-dirty", got)
	}
}

// TestMakefileBuildsAlike checks that `make build` gives the linker the flags of
// `kennel package`.
func TestMakefileBuildsAlike(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	p := &Project{Root: filepath.Join("..", "..", "..")}
	output, err := p.command(t.Context(), nil, "make", "-n", "build").CombinedOutput()
	want := `go build -trimpath -buildvcs=false -ldflags="` + p.describe(t.Context(), nil).linkerFlags() + `"`
	if err != nil || !strings.Contains(string(output), want) {
		t.Errorf("make build: %v, want %s in:\n%s", err, want, output)
	}
}

// A prebuilt handler has no known version, so it must not get that of the
// handler before it.
func TestVersionOfStagedHandler(t *testing.T) {
	dist := t.TempDir()
	for _, v := range []version{{"v0.1.0", "abc"}, {}, {}} {
		c := &changes{dist: dist}
		if err := errors.Join(v.write(c), c.apply()); err != nil {
			t.Fatal(err)
		}
		if got, err := readVersion(dist); err != nil || got != v.name {
			t.Errorf("read %q, %v, want %q", got, err, v.name)
		}
	}
}
