package project

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// sources are the places of a module from which its handler is built, by paths
// with slashes from its root. Other modules do not change: go.sum has their
// hashes.
type sources struct {
	Packages []string `json:"packages"` // folders
	Embedded []string `json:"embedded"` // files, and folders with all that they contain
	Modules  []string `json:"modules"`  // folders of modules within, by which go.mod replaces others
}

// findSources follows the imports from the package of the program. An error
// means that the handler may depend on files elsewhere.
func findSources(root, program string) (sources, error) {
	modules, err := modulesWithin(root)
	if err != nil {
		return sources{}, err
	}
	found, err := closure(root, modules, path.Clean(program))
	if err != nil {
		return sources{}, err
	}
	for _, m := range modules[1:] {
		found.Modules = append(found.Modules, m.dir)
	}
	return found.sources, nil
}

// A Closure is what packages of a module consist of, with what they import.
type Closure struct {
	sources
	Others []string // imported packages of other modules and of the standard library
}

// ClosureOf follows the imports from packages of the module at root, which are
// folders with slashes. It regards all files of a package as parts of it, except
// tests, whatever system they are for.
func ClosureOf(root string, packages ...string) (Closure, error) {
	path, err := moduleOf(root)
	if err != nil {
		return Closure{}, err
	}
	return closure(root, []module{{path, "."}}, packages...)
}

func closure(root string, modules []module, packages ...string) (Closure, error) {
	found := Closure{sources: sources{Packages: packages}}
	for i := 0; i < len(found.Packages); i++ { // grows meanwhile
		imports, embedded, err := readPackage(root, found.Packages[i])
		if err != nil {
			return Closure{}, err
		}
		found.Embedded = append(found.Embedded, embedded...)
		for _, name := range imports {
			dir, ours := within(modules, name)
			switch {
			case !ours:
				found.Others = append(found.Others, name)
			case !slices.Contains(found.Packages, dir):
				found.Packages = append(found.Packages, dir)
			}
		}
	}
	for _, list := range []*[]string{&found.Packages, &found.Embedded, &found.Others} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return found, nil
}

// within returns the folder of an imported package in one of the modules.
func within(modules []module, name string) (dir string, ours bool) {
	for _, m := range modules {
		if rest, ok := strings.CutPrefix(name+"/", m.path+"/"); ok {
			return path.Join(m.dir, rest), true
		}
	}
	return "", false
}

// A module is a path and the folder that holds it, with slashes from the root of
// the project.
type module struct{ path, dir string }

// modulesWithin returns the module at root, and those within it by which its
// go.mod replaces others. It fails if go.mod replaces one by a folder elsewhere.
func modulesWithin(root string) ([]module, error) {
	file, err := readModFile(root)
	if err != nil {
		return nil, err
	}
	modules := []module{{file.Module.Mod.Path, "."}}
	for _, r := range file.Replace {
		if r.New.Version != "" {
			continue
		}
		dir := path.Clean(r.New.Path)
		if !strings.HasPrefix(r.New.Path, "./") || strings.HasPrefix(dir, "..") || dir == "." {
			return nil, errUnsure
		}
		modules = append(modules, module{r.Old.Path, dir})
	}
	return modules, nil
}

// moduleOf returns the path of the module at root.
func moduleOf(root string) (string, error) {
	file, err := readModFile(root)
	if err != nil {
		return "", err
	}
	return file.Module.Mod.Path, nil
}

func readModFile(root string) (*modfile.File, error) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err == nil && file.Module == nil {
		err = errUnsure
	}
	return file, err
}

// readPackage returns the imports of the files in a folder, and what they embed.
func readPackage(root, dir string) (imports, embedded []string, err error) {
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir)))
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		if !isSource(entry.Name()) {
			continue
		}
		if filepath.Ext(entry.Name()) != ".go" {
			return nil, nil, errUnsure // other languages include files
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(dir), entry.Name()))
		if err != nil {
			return nil, nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), text, parser.ImportsOnly|parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, nil, err
			}
			imports = append(imports, name)
		}
		names, err := embeddedBy(string(text))
		if err != nil {
			return nil, nil, err
		}
		for _, name := range names {
			embedded = append(embedded, path.Join(dir, name))
		}
	}
	return imports, embedded, nil
}

// embeddedBy returns what a file of a package may embed. Of a pattern it
// returns the folder above its first name with a wildcard.
func embeddedBy(text string) (names []string, err error) {
	for line := range strings.Lines(text) {
		patterns, ok := strings.CutPrefix(strings.TrimSpace(line), "//go:embed")
		if !ok {
			continue
		}
		if strings.ContainsAny(patterns, "\"`") {
			return nil, errUnsure // a name with blanks
		}
		for pattern := range strings.FieldsSeq(patterns) {
			pattern = strings.TrimPrefix(pattern, "all:")
			if at := strings.IndexAny(pattern, `*?[\`); at >= 0 {
				pattern = pattern[:strings.LastIndex(pattern[:at], "/")+1]
			}
			names = append(names, pattern)
		}
	}
	return names, nil
}

// languages are the endings of files that the Go tool regards as parts of a
// package.
var languages = []string{".go", ".c", ".cc", ".cpp", ".cxx", ".m", ".h", ".hh", ".hpp", ".hxx", ".f", ".F", ".for", ".f90", ".s", ".S", ".sx", ".swig", ".swigcxx", ".syso"}

// isSource reports whether a file is a part of its package.
func isSource(name string) bool {
	return !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_") && !strings.HasSuffix(name, "_test.go") &&
		slices.Contains(languages, filepath.Ext(name))
}

// state has a line for each file. newest is the time of the last change of one.
func (s sources) state(root string) (lines []string, newest time.Time, err error) {
	add := func(name string, info fs.FileInfo) error {
		if !info.Mode().IsRegular() {
			return errUnsure // such as a link, whose target may change
		}
		if changed := changeTime(info); changed.After(newest) {
			newest = changed
		}
		lines = append(lines, stateOf(name, info))
		return nil
	}
	own := []string{"go.mod", "go.sum"}
	for _, dir := range s.Modules {
		own = append(own, path.Join(dir, "go.mod"))
	}
	for _, name := range own {
		info, err := os.Lstat(filepath.Join(root, name))
		if err == nil {
			err = add(name, info)
		} else if errors.Is(err, fs.ErrNotExist) && name == "go.sum" {
			err = nil
		}
		if err != nil {
			return nil, newest, err
		}
	}
	if _, err := os.Lstat(filepath.Join(root, "vendor")); !errors.Is(err, fs.ErrNotExist) {
		return nil, newest, errUnsure
	}
	for _, dir := range s.Packages {
		if err := s.statePackage(root, dir, add); err != nil {
			return nil, newest, err
		}
	}
	for _, name := range s.Embedded {
		at := filepath.Join(root, filepath.FromSlash(name))
		err := filepath.WalkDir(at, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			return errors.Join(err, add(relative, info))
		})
		if err != nil {
			return nil, newest, err
		}
	}
	return lines, newest, nil
}

// statePackage adds the files of a package. It must be a folder of this module:
// no link, and in no other module than those that go.mod names.
func (s sources) statePackage(root, dir string, add func(name string, info fs.FileInfo) error) error {
	for above := dir; above != "."; above = path.Dir(above) {
		at := filepath.Join(root, filepath.FromSlash(above))
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return errUnsure
		}
		if _, err := os.Lstat(filepath.Join(at, "go.mod")); !errors.Is(err, fs.ErrNotExist) && !slices.Contains(s.Modules, above) {
			return errUnsure
		}
	}
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir)))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !isSource(entry.Name()) {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := add(path.Join(dir, entry.Name()), info); err != nil {
			return err
		}
	}
	return nil
}

// stateOf describes a file. Two states are equal only if it has not changed.
func stateOf(name string, info fs.FileInfo) string {
	return fmt.Sprintf("%s %d %d %s", name, info.Size(), info.ModTime().UnixNano(), identity(info))
}

// changeTime is when a file was changed, moved to its place or given its time.
func changeTime(info fs.FileInfo) time.Time {
	if changed := inodeTime(info); changed.After(info.ModTime()) {
		return changed
	}
	return info.ModTime()
}
