package policy

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/token"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// These tests hold what protects the users of a build, and no linter knows:
// what an image, a workflow and a lock file may contain. `make lint` checks the
// rest of the workflows, and the workflows build and run the image.

// TestDockerfile: the image has no shell and no user with rights, answers a
// health check, and is compiled as `make build` compiles.
func TestDockerfile(t *testing.T) {
	all := repository(t)
	build, image, _ := strings.Cut(all["Dockerfile"], "\nFROM scratch\n")
	_, port, _ := strings.Cut(workerAddress(t), ":")
	for _, want := range []string{
		"\nUSER 65532:65532\n", "\nSTOPSIGNAL SIGTERM\n", "\nEXPOSE " + port + "\n",
		` CMD ["/handler", "probe"]` + "\n", "\nENTRYPOINT [\"/handler\", \"worker\", \"--listen\", \":" + port + "\"]\n",
	} {
		if !strings.Contains(image, want) {
			t.Errorf("the image of the Dockerfile lacks %q", want)
		}
	}
	for _, flag := range []string{"CGO_ENABLED=0 ", "go build -trimpath -buildvcs=false ", "-s -w -X ", ").version=", ").commit="} {
		if !strings.Contains(build, flag) || !strings.Contains(all["Makefile"], flag) {
			t.Errorf("Dockerfile or Makefile lacks %q", flag)
		}
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))[1]
	if !regexp.MustCompile(` golang:` + regexp.QuoteMeta(version) + `\.\d+(@sha256:[0-9a-f]{64})? AS build\n`).MatchString(build) {
		t.Errorf("the Dockerfile does not build with a patch of Go %s", version)
	}
	for _, secret := range []string{".*", "**/local.settings.json"} {
		if !strings.Contains(all[".dockerignore"], "\n"+secret+"\n") {
			t.Errorf(".dockerignore lacks %s", secret)
		}
	}
}

// workerAddress is the address that a worker and a probe use without --listen.
func workerAddress(t *testing.T) string {
	t.Helper()
	found := ""
	for _, f := range sources(t)["internal/app"] {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == "defaultProbes" {
				if text, ok := v.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
					unquoted, _ := strconv.Unquote(text.Value) // the parser accepted it
					found = cmp.Or(found, unquoted)
				}
			}
			return true
		})
	}
	if found == "" {
		t.Fatal("package internal/app has no constant defaultProbes")
	}
	return found
}

var (
	readOnly = regexp.MustCompile(`(?m)^permissions:\n  contents: read\n(?:\S|$)`) // for all jobs
	action   = regexp.MustCompile(`(?m)^\s*-? *uses: (.*)$`)
	// A tag can be moved to other code, a commit cannot. The comment is what
	// Dependabot and a reader see.
	pinned   = regexp.MustCompile(`^[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	download = regexp.MustCompile(`\bgo (?:run|install) \S+\.\S+/\S+`)
)

// TestWorkflows: the workflows run pinned code with the right to read, leave no
// token on the disk, and run no code of strangers with rights.
func TestWorkflows(t *testing.T) {
	workflows := 0
	for name, text := range repository(t) {
		if path.Dir(name) != ".github/workflows" {
			continue
		}
		workflows++
		if !readOnly.MatchString(text) {
			t.Errorf("%s: its permissions are not contents: read", name)
		}
		for _, words := range []string{"pull_request_target", "workflow_run"} {
			if strings.Contains(text, words) {
				t.Errorf("%s has %s", name, words)
			}
		}
		for _, m := range action.FindAllStringSubmatch(text, -1) {
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s: %s: want OWNER/ACTION@COMMIT # vX.Y.Z", name, m[1])
			}
		}
		for _, tool := range download.FindAllString(text, -1) {
			if !regexp.MustCompile(`@v\d+\.\d+\.\d+$`).MatchString(tool) {
				t.Errorf("%s: %s: want a version", name, tool)
			}
		}
		if strings.Count(text, "actions/checkout@") != strings.Count(text, "persist-credentials: false\n") {
			t.Errorf("%s: a checkout without persist-credentials: false leaves its token on the disk", name)
		}
	}
	if workflows < 4 {
		t.Errorf("found only %d workflows", workflows)
	}
}

var exactVersion = regexp.MustCompile(`^\d+\.\d+\.\d+(-[\w.-]+)?$`)

// TestLockFiles: what npm installs for tests and for `kennel up` is pinned by
// versions and digests, and by no address: npm downloads from the registry that
// it is configured for. No package runs a script when it is installed.
func TestLockFiles(t *testing.T) {
	type packages map[string]struct {
		Version, Resolved, Integrity string
		Dependencies                 map[string]string
		Link, HasInstallScript       bool
	}
	files := 0
	for name := range repository(t) {
		if path.Base(name) != "package.json" {
			continue
		}
		files++
		lock, err := os.ReadFile(path.Join(path.Dir(name), "package-lock.json"))
		if err != nil {
			t.Errorf("%s has no lock file: %v", name, err)
			continue
		}
		var locked struct{ Packages packages }
		if err := json.Unmarshal(lock, &locked); err != nil || len(locked.Packages) < 2 {
			t.Errorf("the lock file of %s has %d packages: %v", name, len(locked.Packages), err)
		}
		for dependency, p := range locked.Packages {
			for direct, version := range p.Dependencies {
				if dependency == "" && !exactVersion.MatchString(version) {
					t.Errorf("%s: %s %s: want one version", name, direct, version)
				}
			}
			if dependency != "" && (!strings.HasPrefix(p.Integrity, "sha512-") || !exactVersion.MatchString(p.Version) || p.Resolved != "" || p.Link || p.HasInstallScript) {
				t.Errorf("%s: %s is not pinned by a version and a digest alone, or runs a script", name, dependency)
			}
		}
	}
	if files < 3 {
		t.Errorf("found %d files package.json, want at least 3", files)
	}
}

// TestManifests: Dependabot knows each folder with dependencies, and azd
// uploads what `kennel package` writes. From a folder azd would make a .zip of
// its own, without the executable bit on Windows.
func TestManifests(t *testing.T) {
	all := repository(t)
	folders := []string{"", "tools"}
	for name := range all {
		if path.Base(name) == "package.json" {
			folders = append(folders, path.Dir(name))
		}
	}
	for _, folder := range folders {
		if !regexp.MustCompile(`(?m)^ +(?:-|directory:) /` + folder + `$`).MatchString(all[".github/dependabot.yml"]) {
			t.Errorf("Dependabot does not know the folder /%s", folder)
		}
	}
	if azd := all["azure.yaml"]; !strings.Contains(azd, "    dist: dist/kennel.zip\n") || strings.Count(azd, "run: go run ./cmd/kennel package\n") != 2 {
		t.Error("azure.yaml does not upload the package as it is")
	}
}

// repository returns the texts of the repository.
func repository(t *testing.T) map[string]string {
	t.Helper()
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
