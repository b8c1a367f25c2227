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
}

// findSources follows the imports from ./handler. It regards all files of a
// package as parts of it, except tests, whatever system they are for. An error
// means that the handler may depend on files elsewhere.
func findSources(root string) (sources, error) {
	module, err := modulePath(root)
	if err != nil {
		return sources{}, err
	}
	found := sources{Packages: []string{path.Clean(programOf(root))}}
	for i := 0; i < len(found.Packages); i++ { // grows meanwhile
		imports, embedded, err := readPackage(root, found.Packages[i])
		if err != nil {
			return sources{}, err
		}
		found.Embedded = append(found.Embedded, embedded...)
		for _, name := range imports {
			dir, ours := strings.CutPrefix(name+"/", module+"/")
			if dir = path.Clean("./" + dir); ours && !slices.Contains(found.Packages, dir) {
				found.Packages = append(found.Packages, dir)
			}
		}
	}
	slices.Sort(found.Packages)
	slices.Sort(found.Embedded)
	found.Embedded = slices.Compact(found.Embedded)
	return found, nil
}

// modulePath returns the path of the module at root, unless go.mod replaces
// another one by a folder.
func modulePath(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return "", err
	}
	for _, r := range file.Replace {
		if r.New.Version == "" {
			return "", errUnsure
		}
	}
	if file.Module == nil {
		return "", errUnsure
	}
	return file.Module.Mod.Path, nil
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
	for _, name := range []string{"go.mod", "go.sum"} {
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
// no link, and in no other module.
func (s sources) statePackage(root, dir string, add func(name string, info fs.FileInfo) error) error {
	for above := dir; above != "."; above = path.Dir(above) {
		at := filepath.Join(root, filepath.FromSlash(above))
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Join(at, "go.mod")); !info.IsDir() || !errors.Is(err, fs.ErrNotExist) {
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
