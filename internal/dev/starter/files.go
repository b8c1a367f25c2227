package starter

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"kennel/internal/dev/project"
)

// files are what a new program consists of, by paths with slashes from the root
// of this module.
type files struct {
	module  []string          // that the copy of the module has, at the same paths
	program map[string]string // of the program, by their paths in it
	imports []string          // packages outside this module that the copied ones import
}

// shared are files and folders of this module that each program has, too.
var shared = []string{"host.json", ".funcignore", "infra", "go.sum"}

// notCopied are files of the example that concern this module alone.
var notCopied = []string{example + "/functions_test.go"}

// list returns the files. The copy of the module has the command line, all
// public packages and what these import, without tests, and all from which the
// next program is written.
func list(source string) (files, error) {
	packages := []string{"cmd/kennel", "."}
	entries, err := os.ReadDir(source)
	if err != nil {
		return files{}, err
	}
	for _, entry := range entries {
		if name := entry.Name(); entry.IsDir() && isPublic(source, name) {
			packages = append(packages, name)
		}
	}
	found, err := project.ClosureOf(source, packages...)
	if err != nil {
		return files{}, err
	}
	l := files{program: make(map[string]string), imports: found.Others}
	for _, dir := range found.Packages {
		names, err := filepath.Glob(filepath.Join(source, filepath.FromSlash(dir), "*.go"))
		if err != nil {
			return l, err
		}
		for _, name := range names {
			if base := filepath.Base(name); !strings.HasSuffix(base, "_test.go") {
				l.module = append(l.module, path.Join(dir, base))
			}
		}
	}
	for _, name := range slices.Concat(found.Embedded, shared, []string{example, "go.mod", "LICENSE"}) {
		err := walk(source, name, func(file string) {
			l.module = append(l.module, file)
			if inside, ok := strings.CutPrefix(file, example+"/"); ok {
				l.program[inside] = file
			} else if first, _, _ := strings.Cut(file, "/"); slices.Contains(shared, first) {
				l.program[file] = file
			}
		})
		if err != nil {
			return l, err
		}
	}
	slices.Sort(l.module)
	l.module = slices.Compact(l.module)
	return l, nil
}

// isPublic reports whether a folder of the root holds a package that other
// modules import.
func isPublic(source, name string) bool {
	if name == "internal" || name == "docs" || strings.HasPrefix(name, ".") {
		return false
	}
	sources, err := filepath.Glob(filepath.Join(source, name, "*.go"))
	if err != nil || len(sources) == 0 {
		return false
	}
	_, err = project.ProgramPackage(source, name)
	return err != nil // not a package main
}

// walk calls add for a file, or for each one below a folder.
func walk(source, name string, add func(file string)) error {
	return filepath.WalkDir(filepath.Join(source, filepath.FromSlash(name)), func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(source, at)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(relative)
		skip := slices.Contains([]string{"dist", "bin", "node_modules", ".kennel"}, entry.Name()) || slices.Contains(notCopied, file)
		switch {
		case entry.IsDir() && skip:
			return filepath.SkipDir
		case entry.Type().IsRegular() && !skip:
			add(file)
		}
		return nil
	})
}

// copyFile copies a file to a path whose folder it makes.
func copyFile(from, to string, adapt func(string) string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if adapt != nil {
		text = []byte(adapt(string(text)))
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644))
}
