package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// The part of a workflow that our rules are about.
type (
	workflow struct {
		On          yaml.Node         `yaml:"on"`
		Permissions map[string]string `yaml:"permissions"`
		Jobs        map[string]job    `yaml:"jobs"`
	}
	job struct {
		RunsOn   string `yaml:"runs-on"`
		Strategy struct {
			Matrix struct{ OS []string }
		}
		Timeout     int               `yaml:"timeout-minutes"`
		If          string            `yaml:"if"`
		Permissions map[string]string `yaml:"permissions"`
		Steps       []step            `yaml:"steps"`
	}
	step struct {
		Uses, Run, Shell string
		With, Env        map[string]string
	}
)

// maySet lists the permissions that a job may have besides reading the source,
// and the action or command that needs each.
var maySet = map[string]string{
	"security-events": "github/codeql-action/analyze",
	"id-token":        "azure/login",
	"pull-requests":   "gh pr comment",
}

var (
	// A tag can be moved to other code, a commit cannot. The comment is what
	// Dependabot and a reader see.
	pinned     = regexp.MustCompile(`^[\w-]+/[\w./-]+@[0-9a-f]{40}$`)
	usesLine   = regexp.MustCompile(`(?m)^\s*-? *uses: (\S+)(.*)$`)
	tagComment = regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`)
	expression = regexp.MustCompile(`\$\{\{`)
	makeTarget = regexp.MustCompile(`\bmake ([a-z]+)`)
	// A label without a version moves to another system one day.
	versionedSystem = regexp.MustCompile(`^(ubuntu-2\d\.\d\d|macos-\d\d|windows-20\d\d)$`)

	goTool     = regexp.MustCompile(`\bgo (?:run|install) \S+\.\S+/\S+`)
	toolPinned = regexp.MustCompile(`@v\d+\.\d+\.\d+$`)
)

// lintWorkflow returns the mistakes in a workflow.
func lintWorkflow(text, makefile, goVersion string) (mistakes []string) {
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Sprintf(format, args...)) }
	var w workflow
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		return []string{err.Error()}
	}
	if w.On.Kind != yaml.MappingNode || len(w.Jobs) == 0 {
		return []string{"it has no events or no jobs"}
	}
	for i := 0; i < len(w.On.Content); i += 2 {
		if event := w.On.Content[i].Value; !slices.Contains([]string{"push", "pull_request", "schedule"}, event) {
			wrong("the event %s: others run the code of strangers with rights, or are not needed", event)
		}
	}
	if !maps.Equal(w.Permissions, map[string]string{"contents": "read"}) {
		wrong("the permissions of all jobs are %v, want contents: read", w.Permissions)
	}
	for _, m := range usesLine.FindAllStringSubmatch(text, -1) {
		if !pinned.MatchString(m[1]) || !tagComment.MatchString(m[2]) {
			wrong("%s%s: want OWNER/ACTION@COMMIT # vX.Y.Z", m[1], m[2])
		}
	}
	for name, j := range w.Jobs {
		systems := []string{j.RunsOn}
		if j.RunsOn == "${{ matrix.os }}" {
			systems = j.Strategy.Matrix.OS
		}
		if j.Timeout == 0 || len(systems) == 0 || slices.ContainsFunc(systems, func(s string) bool { return !versionedSystem.MatchString(s) }) {
			wrong("job %s: runs on %q for %d minutes, want versions of systems and timeout-minutes", name, systems, j.Timeout)
		}
		var all strings.Builder
		for _, s := range j.Steps {
			all.WriteString(s.Uses + "\n" + s.Run + "\n")
			if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != "false" {
				wrong("job %s: checkout without persist-credentials: false leaves its token on the disk", name)
			}
			if strings.HasPrefix(s.Uses, "actions/setup-go@") && s.With["go-version"] != goVersion {
				wrong("job %s: Go %q, want %q as in go.mod", name, s.With["go-version"], goVersion)
			}
			if expression.MatchString(s.Run) {
				wrong("job %s: an expression in a script can run what a stranger writes; pass it in env: %s", name, s.Run)
			}
			for _, m := range makeTarget.FindAllStringSubmatch(s.Run, -1) {
				if !strings.Contains(makefile, "\n"+m[1]+":") {
					wrong("job %s: the Makefile has no target %s", name, m[1])
				}
			}
			for _, tool := range goTool.FindAllString(s.Run, -1) {
				if !toolPinned.MatchString(tool) {
					wrong("job %s: %s: want a version", name, tool)
				}
			}
		}
		for permission, level := range j.Permissions {
			needs := maySet[permission]
			if permission+level != "contentsread" && (needs == "" || level != "write" || !strings.Contains(all.String(), needs)) {
				wrong("job %s: nothing in it needs the permission %s: %s", name, permission, level)
			}
		}
		if j.Permissions["id-token"] != "" && !strings.Contains(j.If, "head.repo.full_name == github.repository") {
			wrong("job %s: a fork must not sign in", name)
		}
	}
	return mistakes
}

// TestWorkflows checks the workflows by our rules, and that each rule finds its
// mistake.
func TestWorkflows(t *testing.T) {
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := strings.Join(goDirective.FindStringSubmatch(string(goMod))[1:3], ".")
	lint := func(text string) string { return strings.Join(lintWorkflow(text, all["Makefile"], version), "\n") }
	var together strings.Builder
	for path, text := range all {
		if filepath.ToSlash(filepath.Dir(path)) == ".github/workflows" {
			if mistakes := lint(text); mistakes != "" {
				t.Errorf("%s:\n%s", path, mistakes)
			}
			together.WriteString(text)
		}
	}
	for _, want := range []string{"make test", "make lint", "make prove", "make sbom", "make reproduce", "go mod verify", "govulncheck@", "codeql-action/analyze@", "az bicep lint", "what-if", "make cross", "make func", "testdata/func.sh"} {
		if !strings.Contains(together.String(), want) {
			t.Errorf("no workflow has %q", want)
		}
	}

	ci, hosted := all[".github/workflows/ci.yml"], all[".github/workflows/func.yml"]
	security, infra := all[".github/workflows/security.yml"], all[".github/workflows/infra.yml"]
	for _, tt := range []struct{ text, old, new, want string }{
		{ci, "name: ci", "name: {", "yaml: "},
		{ci, "  pull_request:\n", "  pull_request_target:\n", "the event pull_request_target"},
		{ci, "permissions:\n  contents: read\n", "", "the permissions of all jobs are map[]"},
		{ci, "contents: read", "contents: write", "the permissions of all jobs are map[contents:write]"},
		{ci, "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0", "actions/upload-artifact@v7", "want OWNER/ACTION@COMMIT"},
		{ci, "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0", "actions/upload-artifact@bbbca2d # v7.0.0", "want OWNER/ACTION@COMMIT"},
		{ci, "386f024f # v7.0.0", "386f024f", "want OWNER/ACTION@COMMIT"},
		{ci, "persist-credentials: false\n          fetch-depth", "fetch-depth", "leaves its token"},
		{ci, "make sbom", "make sboms", "the Makefile has no target sboms"},
		{ci, "make sbom", "echo ${{ github.head_ref }}", "an expression in a script"},
		{ci, "timeout-minutes: 45", "continue-on-error: false", "for 0 minutes"},
		{hosted, "macos-15", "macos-latest", "want versions of systems"},
		{hosted, "[ubuntu-24.04, macos-15, windows-2025]", "[]", "want versions of systems"},
		{hosted, "make func >", "make funk >", "the Makefile has no target funk"},
		{security, "govulncheck@v1.9.0", "govulncheck@latest", "want a version"},
		{security, "govulncheck@v1.9.0", "govulncheck", "want a version"},
		{security, `"1.26"` + "\n          check-latest", `"1.25"` + "\n          check-latest", `Go "1.25", want "1.26"`},
		{security, "security-events: write", "actions: write", "needs the permission actions: write"},
		{infra, "gh pr comment", "gh pr view", "needs the permission pull-requests: write"},
		{infra, "head.repo.full_name == github.repository", "head.repo.fork", "a fork must not sign in"},
	} {
		if strings.Count(tt.text, tt.old) != 1 {
			t.Errorf("a workflow contains %q %d times, want once", tt.old, strings.Count(tt.text, tt.old))
		}
		if mistakes := lint(strings.Replace(tt.text, tt.old, tt.new, 1)); !strings.Contains(mistakes, tt.want) {
			t.Errorf("%q in place of %q: mistakes %q, want %q", tt.new, tt.old, mistakes, tt.want)
		}
	}
}

// TestDependabot checks that each update finds its files, and that each kind of
// dependency has updates.
func TestDependabot(t *testing.T) {
	text, err := os.ReadFile(".github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Version int
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
			Schedule    struct{ Interval string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil || file.Version != 2 {
		t.Fatalf("version %d, error %v", file.Version, err)
	}
	manifests := map[string]string{"gomod": "go.mod", "npm": "package.json", "docker": "Dockerfile", "github-actions": ".github/workflows"}
	var got []string
	for _, u := range file.Updates {
		if manifests[u.Ecosystem] == "" || u.Schedule.Interval != "weekly" {
			t.Errorf("updates of %q, %q", u.Ecosystem, u.Schedule.Interval)
			continue
		}
		if u.Directory != "" {
			u.Directories = append(u.Directories, u.Directory)
		}
		for _, dir := range u.Directories {
			got = append(got, filepath.Join(".", dir, manifests[u.Ecosystem]))
		}
	}
	want := []string{".github/workflows"}
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	for path := range all {
		if base := filepath.Base(path); base == "Dockerfile" || base == "package.json" {
			want = append(want, path)
		}
	}
	want = append(want, "go.mod")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("updates of %q, want %q", got, want)
	}
}

// TestBicepConfig checks that the compiler of Bicep refuses secrets in the
// wrong place, about which it only warns by default.
func TestBicepConfig(t *testing.T) {
	text, err := os.ReadFile("infra/bicepconfig.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Analyzers struct {
			Core struct {
				Enabled bool
				Rules   map[string]struct{ Level string }
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil || !file.Analyzers.Core.Enabled {
		t.Fatalf("the linter is off, or the file is invalid: %v", err)
	}
	for _, rule := range []string{"adminusername-should-not-be-literal", "outputs-should-not-contain-secrets", "protect-commandtoexecute-secrets",
		"secure-parameter-default", "secure-params-in-nested-deploy", "secure-params-in-parameters-file", "secure-secrets-in-params", "use-secure-value-for-secure-inputs"} {
		if level := file.Analyzers.Core.Rules[rule].Level; level != "error" {
			t.Errorf("the level of %s is %q, want error", rule, level)
		}
	}
}

// TestAzureYAML checks that azd uploads what `kennel package` writes, on each
// system: from a folder it would make a .zip of its own, without the executable
// bit on Windows.
func TestAzureYAML(t *testing.T) {
	text, err := os.ReadFile("azure.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type hook struct{ Shell, Run string }
	type service struct {
		Project, Host, Language, Dist string
		Hooks                         map[string]map[string]hook
	}
	var got struct {
		Name     string
		Infra    map[string]string
		Services map[string]service
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	const run = "go run ./cmd/kennel package"
	want := got
	want.Infra = map[string]string{"provider": "bicep", "path": "infra", "module": "main"}
	want.Services = map[string]service{"app": {".", "function", "custom", "dist/kennel.zip",
		map[string]map[string]hook{"prepackage": {"posix": {"sh", run}, "windows": {"pwsh", run}}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("azure.yaml (-want +got):\n%s", diff)
	}
}
