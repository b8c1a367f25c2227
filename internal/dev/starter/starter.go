// Package starter writes new programs: a copy of examples/starter that carries a
// copy of this module, because no proxy has it.
package starter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"kennel/internal/version"
)

// CopyFolder is the folder of a program with the copy of this module.
const CopyFolder = "third_party/kennel"

// example is the folder of the program that is copied.
const example = "examples/starter"

// A Program is a new program.
type Program struct {
	Dir    string // an absolute path; the folder may exist if it is empty
	Name   string // in its storage account
	Module string // the path of its Go module
}

// Describe checks the folder of a new program and the path of its module, which
// may be "", and completes them. It writes nothing.
func Describe(dir, modulePath string) (p Program, err error) {
	if p.Dir, err = filepath.Abs(dir); err != nil {
		return p, err
	}
	base := filepath.Base(p.Dir)
	p.Name = strings.Trim(unnamed.ReplaceAllString(strings.ToLower(base), "-"), "-")
	if !named.MatchString(p.Name) || len(p.Name) < 3 || len(p.Name) > 35 {
		return p, fmt.Errorf("%q cannot be the name of a program; use a folder whose name begins with a letter and has 3 to 35 letters, digits and hyphens", base)
	}
	p.Module = modulePath
	if p.Module == "" {
		p.Module = "example.com/" + p.Name
	}
	if err := module.CheckImportPath(p.Module); err != nil {
		return p, fmt.Errorf("the module path is invalid: %w", err)
	}
	if own := version.Module; p.Module == own || strings.HasPrefix(p.Module, own+"/") {
		return p, fmt.Errorf("the module path %q belongs to %s; use another one, such as example.com/%s", p.Module, own, p.Name)
	}
	return p, p.checkEmpty()
}

var (
	unnamed = regexp.MustCompile(`[^a-z0-9]+`)
	named   = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

// checkEmpty refuses a folder that holds something.
func (p Program) checkEmpty() error {
	entries, err := os.ReadDir(p.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty; name a new folder", p.Dir)
	}
	return nil
}

// Write writes the program, from the module at source. After an error or a kill
// the folder of the program is as it was: all is written to one beside it, which
// is then renamed. The next Write removes what a kill left there.
func (p Program) Write(ctx context.Context, source string) error {
	half := filepath.Join(filepath.Dir(p.Dir), "."+filepath.Base(p.Dir)+".new")
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	defer os.RemoveAll(half) // has no effect after the rename
	list, err := list(source)
	if err != nil {
		return fmt.Errorf("read the source of kennel in %s: %w", source, err)
	}
	for _, name := range list.module {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := copyFile(filepath.Join(source, filepath.FromSlash(name)), filepath.Join(half, filepath.FromSlash(path.Join(CopyFolder, name))), nil); err != nil {
			return err
		}
	}
	for to, from := range list.program {
		if err := copyFile(filepath.Join(source, filepath.FromSlash(from)), filepath.Join(half, filepath.FromSlash(to)), p.adapt(to)); err != nil {
			return err
		}
	}
	text, err := p.goMod(source, list.imports)
	if err == nil {
		err = os.WriteFile(filepath.Join(half, "go.mod"), text, 0o644)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(p.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; name a new folder", err) // something was put into it meanwhile
	}
	return os.Rename(half, p.Dir)
}

// adapt returns how the text of a file of the program differs from that of the
// example.
func (p Program) adapt(name string) func(string) string {
	title := strings.ToUpper(p.Name[:1]) + p.Name[1:]
	replace := func(pairs ...string) func(string) string { return strings.NewReplacer(pairs...).Replace }
	switch name {
	case "main.go":
		return replace("// Starter is", "// "+title+" is", `Main("starter"`, `Main("`+p.Name+`"`)
	case "README.md":
		return replace("# starter\n", "# "+p.Name+"\n")
	case "azure.yaml":
		return replace("name: starter\n", "name: "+p.Name+"\n")
	case "infra/app.json":
		return replace(`"program": "starter"`, `"program": "`+p.Name+`"`)
	case "Makefile":
		return replace("kennel/cmd/kennel", version.Module+"/cmd/kennel")
	}
	return func(text string) string { return text }
}

// goMod returns the go.mod of the program. It requires what the copied packages
// import, so that no command has to add anything.
func (p Program) goMod(source string, imports []string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return nil, err
	}
	theirs, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return nil, err
	}
	goVersion := strings.TrimPrefix(runtime.Version(), "go")
	if theirs.Go != nil {
		goVersion = theirs.Go.Version
	}
	var ours strings.Builder
	own := version.Module
	fmt.Fprintf(&ours, "module %s\n\ngo %s\n\ntool %s/cmd/kennel\n\nrequire %s v0.0.0\n\nrequire (\n", p.Module, goVersion, own, own)
	for _, r := range theirs.Require {
		if r.Indirect || imported(imports, r.Mod.Path) {
			fmt.Fprintf(&ours, "\t%s %s // indirect\n", r.Mod.Path, r.Mod.Version)
		}
	}
	fmt.Fprintf(&ours, ")\n\nreplace %s => ./%s\n", own, CopyFolder)
	mod, err := modfile.Parse("go.mod", []byte(ours.String()), nil)
	if err != nil {
		return nil, err
	}
	mod.SortBlocks()
	return mod.Format()
}

// imported reports whether one of the packages is in a module.
func imported(packages []string, module string) bool {
	for _, name := range packages {
		if name == module || strings.HasPrefix(name, module+"/") {
			return true
		}
	}
	return false
}

// FindSource returns the folder of the module from which this program was built:
// where its source was, or above the program itself, or, in a program that
// carries a copy, that copy.
func FindSource(ctx context.Context) (string, error) {
	_, here, _, _ := runtime.Caller(0) // no path of a file if it was built with -trimpath
	starts := []string{here}
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			starts = append(starts, self)
		}
	}
	for _, start := range starts {
		if !filepath.IsAbs(start) {
			continue
		}
		for at := filepath.Dir(start); at != filepath.Dir(at); at = filepath.Dir(at) {
			if isSource(at) {
				return at, nil
			}
		}
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", version.Module).Output()
	if dir := strings.TrimSpace(string(out)); err == nil && isSource(dir) {
		return dir, nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return "", errors.New("the source of kennel is not found: a new program carries a copy of it; run this command in a clone of kennel's repository, or in a program that `kennel new` wrote")
}

// isSource reports whether a folder is the root of this module.
func isSource(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || modfile.ModulePath(text) != version.Module {
		return false
	}
	_, err = os.Stat(filepath.Join(dir, filepath.FromSlash(example), "main.go"))
	return err == nil
}
