// Module renames the module, from its root:
//
//	go run ./internal/dev/module example.org/you/kennel
//
// It changes go.mod, the imports and comments of every Go file, and the places
// in other files that name the module or one of its packages. Only the path
// changes: commands, folders and names in Azure stay. All files are read and
// checked before the first is written, and go.mod is written last, so a rename
// that was interrupted can be repeated. Renaming back restores every byte.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/module"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" {
		fmt.Fprintln(os.Stderr, "usage: make module NAME=example.org/you/kennel")
		os.Exit(2)
	}
	changed, err := rename(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "module:", err)
		os.Exit(1)
	}
	fmt.Printf("the module is %s; %d files changed\n", os.Args[1], changed)
}

var moduleLine = regexp.MustCompile(`(?m)^module[ \t]+(\S+)`)

// rename gives the module in the folder root another name and returns the
// number of files that it changed.
func rename(root, name string) (int, error) {
	if err := check(name); err != nil {
		return 0, err
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return 0, fmt.Errorf("%w; run this in the root of the module", err)
	}
	line := moduleLine.FindSubmatchIndex(mod)
	if line == nil {
		return 0, errors.New("go.mod has no line that names the module")
	}
	old := string(mod[line[2]:line[3]])
	if old == name {
		return 0, nil
	}
	paths, err := texts(root)
	if err != nil {
		return 0, err
	}
	r := newRenamer(old, name, paths)
	changed := make(map[string][]byte)
	for _, path := range paths {
		before, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return 0, err
		}
		if bytes.IndexByte(before, 0) >= 0 || !utf8.Valid(before) || !bytes.Contains(before, []byte(old)) {
			continue // not a text, or does not name the module
		}
		after := []byte(r.text(string(before))) // of a Go file only the imports and comments, see source
		if filepath.Ext(path) == ".go" && (bytes.Contains(before, []byte(`"`+old)) || !bytes.Equal(after, before)) {
			if after, err = r.source(before); err != nil {
				return 0, fmt.Errorf("%s: %w", path, err)
			}
		}
		if !bytes.Equal(after, before) {
			changed[path] = after
		}
	}
	for path, text := range changed {
		if err := write(filepath.Join(root, path), text); err != nil {
			return 0, err
		}
	}
	mod = slices.Concat(mod[:line[2]], []byte(name), mod[line[3]:])
	return 1 + len(changed), write(filepath.Join(root, "go.mod"), mod)
}

// check refuses a name that the go command does not accept for a module. The
// name that this module began with has no dot, so such names are accepted if
// they hide no package of the standard library.
func check(name string) error {
	first, _, _ := strings.Cut(name, "/")
	if strings.Contains(first, ".") {
		if err := module.CheckPath(name); err != nil {
			return err
		}
	} else {
		if err := module.CheckImportPath(name); err != nil {
			return err
		}
		output, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return fmt.Errorf("go env GOROOT: %w", err)
		}
		if _, err := os.Stat(filepath.Join(strings.TrimSpace(string(output)), "src", first)); err == nil {
			return fmt.Errorf("%s hides a package of the standard library; begin the name with a host, such as example.org/you/kennel", name)
		}
	}
	if _, major, ok := module.SplitPathVersion(name); !ok || major != "" {
		return fmt.Errorf("%s names a major version; the module has no version 2 yet, so leave %s out", name, major)
	}
	return nil
}

// texts returns the paths of the files of a repository that may name the
// module, except for go.mod and files that were built or downloaded.
func texts(root string) (paths []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := entry.Name()
		switch {
		case relative == ".":
		case entry.IsDir() && (slices.Contains([]string{"bin", "dist", "node_modules"}, name) || name[0] == '.' && name != ".ci" && name != ".github"):
			return filepath.SkipDir
		case entry.Type().IsRegular() && relative != "go.mod" && relative != "go.sum":
			paths = append(paths, relative)
		}
		return nil
	})
	return paths, err
}

type renamer struct {
	old, new string
	folders  []string // of the root, that contain packages
}

// newRenamer takes the paths of all files of the module.
func newRenamer(old, name string, paths []string) renamer {
	r := renamer{old: old, new: name}
	for _, path := range paths {
		first, _, below := strings.Cut(filepath.ToSlash(path), "/")
		if below && filepath.Ext(path) == ".go" && !slices.Contains(r.folders, first) {
			r.folders = append(r.folders, first)
		}
	}
	return r
}

// text renames where a text names a package, or the module itself where only a
// module can stand. Most old names are also plain words.
func (r renamer) text(s string) string {
	parts := strings.Split(s, r.old)
	var out strings.Builder
	out.WriteString(parts[0])
	for i, after := range parts[1:] {
		if r.names(parts[i], after) {
			out.WriteString(r.new)
		} else {
			out.WriteString(r.old)
		}
		out.WriteString(after)
	}
	return out.String()
}

// names reports whether the old name between two texts is that of the module.
func (r renamer) names(before, after string) bool {
	if folder, ok := strings.CutPrefix(after, "/"); ok {
		if end := strings.IndexFunc(folder, func(c rune) bool { return !isWord(c) }); end >= 0 {
			folder = folder[:end]
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		return slices.Contains(r.folders, folder) && !isWord(last) && !strings.ContainsRune("./~@$", last)
	}
	for _, prefix := range []string{"-require=", "-replace=", "has the path `"} {
		if strings.HasSuffix(before, prefix) && after != "" && strings.Contains("@=`", after[:1]) {
			return true
		}
	}
	return false
}

func isWord(c rune) bool { return c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) }

// source renames in the imports and comments of a Go file. Strings are left
// alone: no code may depend on the name of the module. The imports are sorted
// again, within their groups.
func (r renamer) source(before []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", before, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	type edit struct {
		begin, end int
		text       string
	}
	var edits []edit
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if rest, ok := strings.CutPrefix(path, r.old); ok && (rest == "" || rest[0] == '/') {
			edits = append(edits, edit{set.Position(spec.Path.Pos()).Offset, set.Position(spec.Path.End()).Offset, strconv.Quote(r.new + rest)})
		}
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if text := r.text(comment.Text); text != comment.Text {
				edits = append(edits, edit{set.Position(comment.Pos()).Offset, set.Position(comment.End()).Offset, text})
			}
		}
	}
	if len(edits) == 0 {
		return before, nil
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.begin - b.begin })
	var after []byte
	at := 0
	for _, e := range edits {
		after = append(append(after, before[at:e.begin]...), e.text...)
		at = e.end
	}
	return format.Source(append(after, before[at:]...))
}

// write replaces a file in one step and keeps its mode.
func write(path string, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", text, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
