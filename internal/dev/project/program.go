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
	"strings"
)

// ErrNoSource reports a folder without the source of a program.
var ErrNoSource = errors.New("no source of a program")

// ProgramPackage returns the package of the program in the module at root, as
// the Go tool takes it: given, if it is not "", else ./handler if that folder
// exists, else the module root. The package must be one that can be started.
func ProgramPackage(root, given string) (string, error) {
	dir := given
	if dir == "" {
		dir = programOf(root)
	}
	clean := path.Clean(filepath.ToSlash(dir))
	if path.IsAbs(clean) || filepath.IsAbs(dir) || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("the package %q is not below %s; name a folder of the project, such as ./cmd/shop", given, root)
	}
	if err := checkProgram(filepath.Clean(root), filepath.Join(root, filepath.FromSlash(clean))); err != nil {
		return "", err
	}
	if clean == "." {
		return ".", nil
	}
	return "./" + clean, nil
}

// programOf returns the first package that was named when the functions were
// written, or else ./handler if that folder exists, else the root.
func programOf(root string) string {
	if named := namedPackages(root); len(named) > 0 {
		return named[0]
	}
	if info, err := os.Stat(filepath.Join(root, handlerName)); err == nil && info.IsDir() {
		return "./" + handlerName
	}
	return "."
}

// checkProgram checks that a folder of the project holds a package main.
func checkProgram(root, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w in %s", ErrNoSource, dir)
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() || filepath.Ext(entry.Name()) != ".go" || !isSource(entry.Name()) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, entry.Name()), nil, parser.PackageClauseOnly)
		if err != nil {
			return nil // the compiler explains it better
		}
		if name := file.Name.Name; name != "main" {
			return fmt.Errorf("%s holds the package %s, which is not a program; name the package of the program, such as ./cmd/shop", dir, name)
		}
		return nil
	}
	if dir == root {
		return fmt.Errorf("%w in %s", ErrNoSource, dir)
	}
	return nil // the compiler explains it better
}

// importPath returns the import path of the program, as a binary names it; "" if
// it is not known.
func (p *Project) importPath() string {
	module, err := moduleOf(p.Root)
	if err != nil {
		return ""
	}
	pkg, err := ProgramPackage(p.Root, p.Package)
	if err != nil {
		return ""
	}
	return path.Join(module, pkg)
}

// Embedded returns the files that the program embeds, and folders with all that
// they contain, with slashes from the root; none if that is not known.
func (p *Project) Embedded() []string {
	program, err := ProgramPackage(p.Root, p.Package)
	if err != nil {
		return nil
	}
	found, err := findSources(p.Root, program)
	if err != nil {
		return nil
	}
	return found.Embedded
}
