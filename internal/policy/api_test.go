package policy

import (
	"flag"
	"go/types"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"kennel/internal/storetest"
	"kennel/internal/version"
)

var update = flag.Bool("update", false, "write api/*.txt")

// promised are the packages whose exported names are a promise. Those of relay
// follow the major versions of azservicebus.
var promised = []string{".", "azurestore", "client", "devstore", "gate", "ids", "kenneltest", "queue"}

// hiddenTypes are the exported names that have a type of an internal package,
// with the reason. No other module can use them.
var hiddenTypes = map[string]string{
	"queue.NewClaims":     "a table of the app; azurestore has one for other programs",
	"queue.NewKeptClaims": "as NewClaims",
}

// aliases are the exported names of package kennel for types of internal
// packages, with the reason. go doc does not show their fields.
var aliases = map[string]string{
	"PanicError": "errors.As finds it; its comment has the fields",
}

// TestExportedAPI compares the exported names of the packages that are promised
// with api/*.txt. With -update it writes these, unless a name goes or changes that
// the changelog does not have.
func TestExportedAPI(t *testing.T) {
	changelog, _, _ := strings.Cut(after(t, repository(t)["CHANGELOG.md"], "\n## Unreleased\n"), "\n## ") // reads the sources, too: the go command runs this again after a change
	e := &exported{inside: func(p *types.Package) bool {
		return p != nil && strings.HasPrefix(p.Path(), version.Module+"/") && slices.Contains(strings.Split(p.Path(), "/"), "internal")
	}}
	loaded := loadPromised(t)
	for _, pkg := range loaded {
		e.find(pkg)
	}
	for _, pkg := range loaded {
		lines := e.write(pkg)
		checkHidden(t, pkg.Name(), e.foreign)
		if pkg.Name() == "kennel" {
			checkAliases(t, pkg)
		}
		file := path.Join("api", pkg.Name()+".txt")
		old, err := os.ReadFile(file)
		if err != nil && !*update {
			t.Error(err)
			continue
		}
		now := strings.Join(slices.Sorted(maps.Values(lines)), "\n") + "\n"
		if now == string(old) {
			continue
		}
		missing := unnamed(changelog, pkg.Name(), string(old), now)
		for _, name := range missing {
			t.Errorf("%s goes or changes: name it in CHANGELOG.md under \"Unreleased\" first, and say what its callers must do", name)
		}
		switch {
		case *update && len(missing) == 0:
			if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
				t.Error(err)
			}
		case !*update:
			t.Errorf("%s is not what package %s exports:\n%s\nrun go test ./internal/policy -run TestExportedAPI -args -update", file, pkg.Name(), changes(string(old), now))
		}
	}
}

// loadPromised returns the types of the packages that are promised.
func loadPromised(t *testing.T) (all []*types.Package) {
	t.Helper()
	var paths []string
	for _, folder := range promised {
		paths = append(paths, path.Join(version.Module, folder))
	}
	loaded, err := packages.Load(&packages.Config{
		Context: t.Context(), BuildFlags: storetest.BuildFlags(), // what this test was compiled with: nothing is compiled twice
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports | packages.NeedDeps,
	}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loaded {
		for _, err := range p.Errors {
			t.Fatal(err)
		}
		all = append(all, p.Types)
	}
	if len(all) != len(promised) {
		t.Fatalf("loaded %d packages, want %d", len(all), len(promised))
	}
	return all
}

// checkHidden reports names that other modules cannot use.
func checkHidden(t *testing.T, pkg string, foreign map[string][]string) {
	t.Helper()
	for name, hidden := range foreign {
		if _, allowed := hiddenTypes[pkg+"."+name]; !allowed && (pkg == "kennel" || slices.ContainsFunc(hidden, isInternal)) {
			t.Errorf("%s.%s has the types %q: its callers cannot name them, or they are outside the promise of package %s", pkg, name, hidden, pkg)
		}
	}
	for name := range hiddenTypes {
		if owner, member, _ := strings.Cut(name, "."); owner == pkg && foreign[member] == nil {
			t.Errorf("%s has no hidden type any more: remove it from hiddenTypes", name)
		}
	}
}

// checkAliases reports names whose documentation is elsewhere.
func checkAliases(t *testing.T, pkg *types.Package) {
	t.Helper()
	for _, name := range pkg.Scope().Names() {
		object, isType := pkg.Scope().Lookup(name).(*types.TypeName)
		if !isType || !object.Exported() {
			continue
		}
		if is, allowed := object.IsAlias(), aliases[name] != ""; is != allowed {
			t.Errorf("%s.%s is an alias: %t, want %t; go doc does not show the fields of aliases", pkg.Name(), name, is, allowed)
		}
	}
}

func isInternal(name string) bool {
	return slices.Contains(strings.Split(path.Dir(name), "/"), "internal")
}

// unnamed returns the names whose lines are in old and not in now, and which the
// changelog does not have.
func unnamed(changelog, pkg, old, now string) (names []string) {
	kept := strings.Split(now, "\n")
	for line := range strings.Lines(old) {
		line = strings.TrimSuffix(line, "\n")
		if name := pkg + "." + nameOf(line); !slices.Contains(kept, line) && !slices.Contains(names, name) &&
			!regexp.MustCompile(`(^|[^\w.])`+regexp.QuoteMeta(name)+`($|[^\w.]|\.\W)`).MatchString(changelog) {
			names = append(names, name)
		}
	}
	return names
}

// apiLine finds the type and the member that a line of api/*.txt names.
var apiLine = regexp.MustCompile(`^(?:method \(\*?(\w+)\) (\w+)|(?:field|embedded) (\w+\.\w+)|\w+ (\w+))`)

func nameOf(line string) string {
	m := apiLine.FindStringSubmatch(line)
	switch {
	case m == nil:
		return line
	case m[1] != "":
		return m[1] + "." + m[2]
	}
	return m[3] + m[4]
}

// changes returns the lines that differ.
func changes(old, now string) string {
	var all []string
	for line := range strings.Lines(old) {
		if !strings.Contains("\n"+now, "\n"+line) {
			all = append(all, "- "+line)
		}
	}
	for line := range strings.Lines(now) {
		if !strings.Contains("\n"+old, "\n"+line) {
			all = append(all, "+ "+line)
		}
	}
	return strings.Join(all, "")
}

func after(t *testing.T, text, mark string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, mark)
	if !found {
		t.Fatalf("CHANGELOG.md has no %q", strings.TrimSpace(mark))
	}
	return rest
}

// TestChangedNames: a name that goes or changes is found by what the changelog
// says, and a new one needs nothing.
func TestChangedNames(t *testing.T) {
	const old = "const Max untyped int = 3\nfield Options.Wait time.Duration\nfunc New(string) *T\nmethod (*T) Close()\ntype T struct\n"
	const now = "const Max untyped int = 4\nfield Options.Wait int\nfunc Make(string) *T\nmethod (T) Close()\ntype T struct\n"
	if got, want := unnamed("", "p", old, now), []string{"p.Max", "p.Options.Wait", "p.New", "p.T.Close"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	changelog := "- `p.Max` is 4. p.Options.Wait is a number, p.New has gone and `xp.T.Close` p.T.Closed, too."
	if got, want := unnamed(changelog, "p", old, now), []string{"p.T.Close"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	if got := unnamed("", "p", old, old+"var X int\n"); got != nil {
		t.Errorf("names %q for a new one", got)
	}
}
