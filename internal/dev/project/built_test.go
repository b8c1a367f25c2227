//go:build unix

package project

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeTools puts a Go tool on the PATH that "builds" without a compiler and
// counts that, and a git with the version in a file.
func fakeTools(t *testing.T) (dir string) {
	t.Helper()
	dir = writeTree(t, map[string]string{
		"VERSION": "go1.26", "go.env": "", "version": "v1\n",
		"bin/go": `#!/bin/sh
echo . >>"${0%/*}/../builds"
while test "$1" != -o; do shift; done
echo built >"$2"
`,
		"git/git": `#!/bin/sh
read -r version <"${0%/*}/../version"
echo "$version"
`,
	})
	for _, name := range []string{"bin/go", "git/git"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+filepath.Join(dir, "git"))
	return dir
}

// warmStage is a project in a state in which the next start runs no compiler.
type warmStage struct {
	t           *testing.T
	root, tools string
	target      Target
	env         map[string]string
}

func newWarmStage(t *testing.T) *warmStage {
	t.Helper()
	old := settled
	settled = 0
	t.Cleanup(func() { settled = old })
	s := &warmStage{t, writeTree(t, map[string]string{
		"a/host.json":       goodHost,
		"a/go.mod":          "module example.org/app\n\nreplace example.org/x => example.org/y v1.0.0\n",
		"a/handler/main.go": "package main\n\nimport _ \"example.org/app/part/deep\"\n\nfunc main() {}\n",
		"a/part/deep/deep.go": `package deep

import _ "embed"

//go:embed page/*.html
var page string
`,
		"a/part/deep/page/index.html":   "hello",
		"a/part/deep/deep_test.go":      "package deep",
		"a/part/deep/other_windows.go":  "package deep\n\nimport _ \"example.org/app/windows\"\n",
		"a/windows/windows.go":          "package windows\n",
		"a/unrelated/unrelated.go":      "package unrelated\n",
		"a/functions/One/function.json": "{}",
	}), fakeTools(t), Target{"linux", "amd64"}, map[string]string{"PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "GOENV": "off"}}
	s.settle()
	if built := s.stage(); !built {
		t.Fatal("the first start did not build")
	}
	if built := s.stage(); built {
		t.Fatal("the second start built again")
	}
	return s
}

// settle waits until a change of a file has another time than those before.
func (s *warmStage) settle() {
	s.t.Helper()
	stamp := func() time.Time {
		path := filepath.Join(s.tools, "stamp")
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			s.t.Fatal(err)
		}
		return must(os.Stat(path)).ModTime()
	}
	for was := stamp(); !stamp().After(was); time.Sleep(time.Millisecond) {
	}
}

// stage stages the project and reports whether it was built.
func (s *warmStage) stage() bool {
	s.t.Helper()
	p := &Project{Root: filepath.Join(s.root, "a"), Functions: []string{"One"}}
	if _, err := p.Stage(s.t.Context(), s.target, &StageOptions{Env: s.env, Keep: true}); err != nil {
		s.t.Fatal(err)
	}
	builds := filepath.Join(s.tools, "builds")
	_, err := os.Stat(builds)
	os.Remove(builds)
	return err == nil
}

func (s *warmStage) path(name string) string { return filepath.Join(s.root, filepath.FromSlash(name)) }

func (s *warmStage) write(name, text string) {
	s.t.Helper()
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// TestChangesAreBuilt makes each kind of change after a start that built
// nothing. A handler that is older than its source must be impossible.
func TestChangesAreBuilt(t *testing.T) {
	type change struct {
		name string
		do   func(s *warmStage)
		want string // build: once; always: at each start; nothing
	}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	changes := []change{
		{"an edited file", func(s *warmStage) { s.write("a/part/deep/deep.go", "package deep\n\nvar x = 1\n") }, "build"},
		{"an edit with the same size and time", func(s *warmStage) {
			path := s.path("a/part/deep/deep.go")
			was := must(os.Stat(path))
			s.write("a/part/deep/deep.go", strings.ReplaceAll(readFile(path), "page string", "pagf string"))
			check(os.Chtimes(path, was.ModTime(), was.ModTime()))
		}, "build"},
		{"another file of the same size and time in its place", func(s *warmStage) {
			path, other := s.path("a/windows/windows.go"), s.path("a/windows/other")
			was := must(os.Stat(path))
			s.write("a/windows/other", "package windowx\n")
			check(os.Chtimes(other, was.ModTime(), was.ModTime()))
			check(os.Rename(other, path))
		}, "build"},
		{"an added file", func(s *warmStage) { s.write("a/part/deep/more.go", "package deep\n") }, "build"},
		{"an added file of another system", func(s *warmStage) { s.write("a/windows/more_plan9.go", "package windows\n") }, "build"},
		{"a removed file", func(s *warmStage) { check(os.Remove(s.path("a/part/deep/other_windows.go"))) }, "build"},
		{"a renamed file", func(s *warmStage) {
			check(os.Rename(s.path("a/part/deep/other_windows.go"), s.path("a/part/deep/other_linux.go")))
		}, "build"},
		{"an added import", func(s *warmStage) {
			s.write("a/windows/windows.go", "package windows\n\nimport _ \"example.org/app/unrelated\"\n")
		}, "build"},
		{"an edited embedded file", func(s *warmStage) { s.write("a/part/deep/page/index.html", "other") }, "build"},
		{"an added embedded file", func(s *warmStage) { s.write("a/part/deep/page/more.html", "more") }, "build"},
		{"go.mod", func(s *warmStage) { s.write("a/go.mod", readFile(s.path("a/go.mod"))+"go 1.26\n") }, "build"},
		{"go.sum", func(s *warmStage) { s.write("a/go.sum", "") }, "build"},
		{"the version", func(s *warmStage) { check(os.WriteFile(filepath.Join(s.tools, "version"), []byte("v2\n"), 0o644)) }, "build"},
		{"the target", func(s *warmStage) { s.target.Arch = "arm64" }, "build"},
		{"GOFLAGS", func(s *warmStage) { s.env["GOFLAGS"] = "-tags=more" }, "build"},
		{"GOEXPERIMENT", func(s *warmStage) { s.env["GOEXPERIMENT"] = "none" }, "build"},
		{"go env -w", func(s *warmStage) {
			s.write("env", "GOFLAGS=-tags=more\n")
			s.env["GOENV"] = s.path("env")
		}, "build"},
		{"the Go tool", func(s *warmStage) {
			check(os.Chtimes(filepath.Join(s.tools, "bin", "go"), time.Time{}, time.Now().Add(-time.Hour)))
		}, "build"},
		{"its version", func(s *warmStage) { check(os.WriteFile(filepath.Join(s.tools, "VERSION"), []byte("go1.27"), 0o644)) }, "build"},
		{"the handler in dist", func(s *warmStage) { s.write("a/dist/handler", "other") }, "build"},
		{"no handler in dist", func(s *warmStage) { check(os.Remove(s.path("a/dist/handler"))) }, "build"},
		{"a broken record", func(s *warmStage) { s.write("a/dist/"+builtName, "{") }, "build"},

		{"a link", func(s *warmStage) {
			check(os.Rename(s.path("a/windows/windows.go"), s.path("w.go")))
			check(os.Symlink(s.path("w.go"), s.path("a/windows/windows.go")))
		}, "always"},
		{"a folder that is a link", func(s *warmStage) {
			check(os.Rename(s.path("a/windows"), s.path("w")))
			check(os.Symlink(s.path("w"), s.path("a/windows")))
		}, "always"},
		{"a module within", func(s *warmStage) { s.write("a/part/go.mod", "module example.org/part\n") }, "always"},
		{"a workspace", func(s *warmStage) { s.write("go.work", "go 1.26\n\nuse ./a\n") }, "always"},
		{"a named workspace", func(s *warmStage) { s.env["GOWORK"] = "/go.work" }, "always"},
		{"a vendor folder", func(s *warmStage) { s.write("a/vendor/modules.txt", "") }, "always"},
		{"a module in another folder", func(s *warmStage) { s.write("a/go.mod", "module example.org/app\n\nreplace example.org/x => ../x\n") }, "always"},
		{"a module within that replaces another", func(s *warmStage) {
			s.write("a/go.mod", "module example.org/app\n\nreplace example.org/x => ./x\n")
			s.write("a/x/go.mod", "module example.org/x\n")
			s.write("a/x/y/y.go", "package y\n")
			s.write("a/windows/windows.go", "package windows\n\nimport _ \"example.org/x/y\"\n")
			s.settle()
			if first, second := s.stage(), s.stage(); !first || second {
				s.t.Errorf("with the module the first start built: %t, the second one: %t", first, second)
			}
			s.write("a/x/y/y.go", "package y\n\nvar x int\n")
		}, "build"},
		{"an overlay", func(s *warmStage) { s.env["GOFLAGS"] = "-overlay=/x.json" }, "always"},
		{"another GOROOT", func(s *warmStage) { s.env["GOROOT"] = "/go" }, "always"},
		{"assembly", func(s *warmStage) { s.write("a/windows/x.s", "") }, "always"},
		{"a program that starts a Go tool", func(s *warmStage) { check(os.Remove(filepath.Join(s.tools, "VERSION"))) }, "always"},

		{"a test", func(s *warmStage) { s.write("a/part/deep/deep_test.go", "package deep\n\nvar x int\n") }, "nothing"},
		{"a package that is not imported", func(s *warmStage) { s.write("a/unrelated/unrelated.go", "package unrelated\n\nvar x int\n") }, "nothing"},
		{"a document", func(s *warmStage) { s.write("a/part/deep/README.md", "text") }, "nothing"},
		{"a setting of the app", func(s *warmStage) { s.env["KENNEL_DRAIN"] = "1s" }, "nothing"},
		{"no Go tool", func(s *warmStage) { s.t.Setenv("PATH", filepath.Join(s.tools, "git")) }, "nothing"},
	}
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			if inodeTime(must(os.Stat("."))).IsZero() && strings.Contains(c.name, "same size and time") {
				t.Skip("this system has no time of a file that programs cannot set")
			}
			s := newWarmStage(t)
			c.do(s)
			s.settle()
			got := fmt.Sprint(s.stage(), s.stage(), s.stage())
			if want := map[string]string{"build": "true false false", "always": "true true true", "nothing": "false false false"}[c.want]; got != want {
				t.Errorf("the next three starts built: %s, want %s", got, want)
			}
		})
	}
}

// TestYoungSourcesAreBuiltAgain checks that a build of a file that was changed
// just before is not the last one: the file may have changed again at what the
// file system regards as the same time.
func TestYoungSourcesAreBuiltAgain(t *testing.T) {
	s := newWarmStage(t)
	s.write("a/windows/windows.go", "package windows\n\nvar x int\n")
	settled = time.Hour
	if first, second := s.stage(), s.stage(); !first || !second {
		t.Errorf("the first start built: %t, the second one: %t", first, second)
	}
	settled = 0
	s.settle()
	if !s.stage() || s.stage() {
		t.Error("later starts build again")
	}
}

// TestPackagesAreBuilt checks that only a start may do without the compiler.
func TestPackagesAreBuilt(t *testing.T) {
	s := newWarmStage(t)
	p := &Project{Root: s.path("a"), Functions: []string{"One"}}
	if _, err := p.Stage(t.Context(), s.target, &StageOptions{Env: maps.Clone(s.env)}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.tools, "builds")); err != nil {
		t.Error("nothing was built:", err)
	}
}
