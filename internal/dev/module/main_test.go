package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kennel/internal/storetest"
	"kennel/internal/version"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// other is a name that differs from that of the module.
func other() string {
	if version.Module == "example.org/you/kennel" {
		return "kennel"
	}
	return "example.org/you/kennel"
}

// repository returns a copy of this repository, without what git ignores.
func repository(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	top := filepath.Join("..", "..", "..")
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	cmd.Dir = top
	output, err := cmd.Output()
	if err != nil {
		t.Skip("this is no git repository: ", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(output), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(top, name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err == nil {
			err = os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// read returns every file below root.
func read(t *testing.T, root string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func same(t *testing.T, what string, want, got map[string][]byte) {
	t.Helper()
	for name := range want {
		if !bytes.Equal(want[name], got[name]) {
			t.Errorf("%s: %s differs", what, name)
		}
	}
	if len(want) != len(got) {
		t.Errorf("%s: %d files, want %d", what, len(got), len(want))
	}
}

// TestRename renames a copy of this repository, twice and back.
func TestRename(t *testing.T) {
	storetest.OnlyInProve(t)
	root := repository(t)
	before := read(t, root)
	n, err := rename(root, other())
	if err != nil || n < 300 {
		t.Fatalf("%d files changed: %v", n, err)
	}
	renamed := read(t, root)

	for name, text := range renamed {
		for _, missed := range []string{"go doc OLD/", "-X OLD/", "=OLD@", "=OLD=", "\t\"OLD/client\"\n", "\t\"OLD/internal/names\"\n", "\t\"OLD/internal/storetest\"\n"} {
			if missed = strings.ReplaceAll(missed, "OLD", version.Module); bytes.Contains(text, []byte(missed)) && filepath.Base(filepath.Dir(name)) != "module" {
				t.Errorf("%s still has %q", name, missed)
			}
		}
	}
	for name, text := range map[string]string{
		"go.mod":            "module " + other() + "\n",
		"docs/api.md":       "`go doc " + other() + "/client`",
		"cmd/kennel/app.go": `"` + other() + `/client"`,
		"handler/main.go":   `"` + other() + `"`,
	} {
		if !bytes.Contains(renamed[filepath.FromSlash(name)], []byte(text)) {
			t.Errorf("%s does not contain %s", name, text)
		}
	}

	if n, err := rename(root, other()); n != 0 || err != nil {
		t.Errorf("again: %d files changed: %v", n, err)
	}
	same(t, "again", renamed, read(t, root))

	// Interrupted before go.mod: the rest is renamed, and nothing twice.
	mod := filepath.Join(root, "go.mod")
	for _, name := range []string{"go.mod", filepath.FromSlash("docs/api.md"), filepath.FromSlash("handler/main.go")} {
		if err := os.WriteFile(filepath.Join(root, name), before[name], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := rename(root, other()); n != 3 || err != nil {
		t.Errorf("after an interruption: %d files changed: %v", n, err)
	}
	same(t, "after an interruption", renamed, read(t, root))

	if _, err := rename(root, version.Module); err != nil {
		t.Fatal(err)
	}
	same(t, "back", before, read(t, root))

	if err := os.Remove(mod); err != nil {
		t.Fatal(err)
	}
	if _, err := rename(root, other()); err == nil || !strings.Contains(err.Error(), "run this in the root") {
		t.Errorf("no go.mod: %v", err)
	}
}

// TestRenamed checks the types of all packages and tests of a renamed copy,
// builds it, and runs the tests that read the name of the module. Packages of
// other modules are those that this test was built with, so that they are not
// compiled again.
func TestRenamed(t *testing.T) {
	storetest.OnlyInProve(t)
	root := repository(t)
	if _, err := rename(root, other()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"gofmt", "-l", "."},
		{"go", "run", "./internal/dev/typecheck", runtime.GOOS + "/" + runtime.GOARCH},
		{"make", "build", "VERSION=v9.9.9", "COMMIT=0123456789", `BUILD=go build -ldflags="$(LINK)"`},
		{"go", "test", "-vet=off", "-skip", "^TestPlantedBugs$", "./internal/policy", "./internal/dev/docs", "./internal/dev/project", "./internal/dev/sbom"},
		{"go", "mod", "verify"},
	} {
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Skip(args[0] + " is not installed")
		}
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = root
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "KENNEL_PROVE=") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		output, err := cmd.CombinedOutput()
		if err != nil || args[0] == "gofmt" && len(output) > 0 {
			t.Fatalf("%s: %v\n%s", args, err, output)
		}
		t.Logf("%s: %s of processor time", args, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "kennel"), "version")
	if output, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(output, []byte("v9.9.9")) {
		t.Errorf("kennel version: %v\n%s", err, output)
	}
}

func TestCheck(t *testing.T) {
	for name, want := range map[string]string{
		"example.org/you/kennel":    "",
		"kennel":                    "",
		"github.com/You/kennel-app": "",
		"":                          "malformed",
		"example.org/you/":          "malformed",
		"/kennel":                   "malformed",
		"example.org//kennel":       "malformed",
		"example.org/a b":           "malformed",
		"Example.org/kennel":        "malformed",
		"https://example.org/a":     "malformed",
		"example.org/ähnlich":       "malformed",
		"net/kennel":                "hides a package of the standard library",
		"crypto":                    "hides a package of the standard library",
		"example.org/kennel/v2":     "leave /v2 out",
		"kennel/v2":                 "leave /v2 out",
	} {
		err := check(name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

func TestText(t *testing.T) {
	r := newRenamer("kennel", "example.org/k", []string{"ids/a.go", "cmd/kennel/main.go", "docs/embed.go", "infra/main.bicep", "a.go"})
	for text, want := range map[string]string{
		"`go doc kennel/ids`, kennel/cmd/kennel":      "`go doc example.org/k/ids`, example.org/k/cmd/kennel",
		"-X kennel/ids.version=$V -X kennel/ids.a=$C": "-X example.org/k/ids.version=$V -X example.org/k/ids.a=$C",
		"kennel/ids\nkennel/ids kennel/ids":           "example.org/k/ids\nexample.org/k/ids example.org/k/ids",
		"kennel/v0.1.0, kennel/x-servicebus-transfer": "kennel/v0.1.0, kennel/x-servicebus-transfer",
		"~/kennel/ids $HOME/kennel/ids .kennel/ids":   "~/kennel/ids $HOME/kennel/ids .kennel/ids",
		"cmd/kennel/docs bin/kennel kennel/infra":     "cmd/kennel/docs bin/kennel kennel/infra",
		"example.org/k/ids kennel/idsx my-kennel/ids": "example.org/k/ids kennel/idsx my-kennel/ids",
		"-require=kennel@v0 -replace=kennel=~/kennel": "-require=example.org/k@v0 -replace=example.org/k=~/kennel",
		"`kennel` has the path `kennel`":              "`kennel` has the path `example.org/k`",
	} {
		if got := r.text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
