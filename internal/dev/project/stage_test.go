package project

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"kennel/internal/storetest"
	buildversion "kennel/internal/version"
)

// headerOf returns the header of a Linux program for the machine, which is the
// only part that Stage reads.
func headerOf(machine elf.Machine) string {
	header := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...)
	header[16], header[18], header[20], header[52] = byte(elf.ET_EXEC), byte(machine), byte(elf.EV_CURRENT), 64
	return string(header)
}

func TestStageForAzureRejectsOtherTargets(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler string
		want    string // in the error
	}{
		{"not Go", headerOf(elf.EM_X86_64), "is not a handler: it is not a Go program; build it from the program of this project"},
		{"arm64", headerOf(elf.EM_AARCH64), "a Linux program for EM_AARCH64; Azure runs Linux on x64"},
		{"Windows", "MZ\x90\x00", "the handler is not a Linux program"},
	} {
		p := &Project{Root: writeTree(t, map[string]string{"host.json": goodHost, "built": tt.handler})}
		_, err := p.Stage(t.Context(), Azure, &StageOptions{Prebuilt: filepath.Join(p.Root, "built")})
		expectError(t, tt.name, err, tt.want)
		if _, err := os.Stat(filepath.Join(p.Root, "dist")); err == nil {
			t.Errorf("%s: dist was written", tt.name)
		}
	}
}

func TestStageForAzureRejectsOtherPrograms(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("this test is not a Linux program for x64")
	}
	p := &Project{Root: writeTree(t, map[string]string{"host.json": goodHost})}
	_, err := p.Stage(t.Context(), Azure, &StageOptions{Prebuilt: must(os.Executable())})
	expectError(t, "another program", err, "is not a handler: it was built from "+buildversion.Module+"/internal/dev/project.test;")
}

func TestStageReplacesARunningHandler(t *testing.T) {
	root := writeTree(t, map[string]string{
		"host.json":                   goodHost,
		"functions/One/function.json": "one",
		".funcignore":                 "*.zip\n",
		"built":                       "new",
		"dist/handler":                "old",
		"dist/kennel.zip":             "package",
		"dist/Gone/function.json":     "{}",
	})
	running := must(os.Open(filepath.Join(root, "dist", "handler")))
	defer running.Close()

	p := &Project{Root: root, Functions: []string{"One"}}
	dist := must(p.Stage(t.Context(), Target{OS: "linux", Arch: "arm64"}, &StageOptions{Prebuilt: filepath.Join(root, "built")}))
	old := make([]byte, 10)
	if n, _ := running.Read(old); string(old[:n]) != "old" {
		t.Errorf("the running handler was changed to %q", old[:n])
	}
	for name, want := range map[string]string{
		"handler":           "new",
		"host.json":         goodHost,
		"One/function.json": "one",
		".funcignore":       "*.zip\n",
		"kennel.zip":        "package",
	} {
		if got := readFile(filepath.Join(dist, name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dist, "Gone")); err == nil {
		t.Error("a function that the source no longer has is still in dist")
	}
}

// TestStageBuilds checks that the handler in dist/ is always that of the source,
// although an unchanged one is not linked again.
func TestStageBuilds(t *testing.T) {
	storetest.OnlyInProve(t) // it builds
	root := writeTree(t, map[string]string{
		"host.json": goodHost, "go.mod": "module kennel\n", "handler/main.go": "package main\nfunc main() {}\n",
		"dist/handler": "#!/bin/sh\n", // as given with --handler
	})
	p := &Project{Root: root}
	build := func() (digest string) {
		env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "GOCACHE": os.Getenv("GOCACHE")}
		dist := must(p.Stage(t.Context(), Azure, &StageOptions{Env: env}))
		return fmt.Sprintf("%x", sha256.Sum256([]byte(readFile(filepath.Join(dist, "handler")))))
	}
	first, second := build(), build()
	if first != second {
		t.Error("two builds of the same source differ")
	}
	if err := os.WriteFile(filepath.Join(root, "handler", "main.go"), []byte("package main\nfunc main() { panic(1) }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if build() == first {
		t.Error("a build after a change is the old one")
	}
}

func TestStageWithoutSource(t *testing.T) {
	p := &Project{Root: t.TempDir()}
	_, err := p.Stage(t.Context(), Azure, nil)
	expectError(t, "no handler", err, "use --handler FILE for a built handler")

	steps := ""
	p.Root = writeTree(t, map[string]string{"go.mod": "module kennel\n", "handler/main.go": "package broken {"})
	_, err = p.Stage(t.Context(), Azure, &StageOptions{
		Env:  map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "GOFLAGS": ""},
		Step: func(text string) func() { steps += text; return func() { steps += ", done" } },
	})
	expectError(t, "no Go", err, "the handler does not build")
	if want := "building the handler for linux/amd64, done"; steps != want {
		t.Errorf("steps: got %q, want %q", steps, want)
	}
}
