// Package project reads and checks the source of a function app with a custom
// handler, stages it in the layout of the Functions host, and packs it for
// Azure.
//
// A project is a Go module with host.json and one folder with a function.json
// per function in functions/. Its program is the package in handler/ if there is
// one, else that of its root. The host finds functions only directly below its
// root, so it runs in dist/, not here.
package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// handlerName is the name of the handler in dist/ and in the package. The
// deployment tools set the executable bit on exactly this name, so host.json
// must contain it without "./".
const handlerName = "handler"

// A Project is a source tree with valid host.json and functions.
type Project struct {
	Root      string   // the folder that holds host.json
	Functions []string // the folder names below functions/ that the handler serves, and their copies, sorted
	Package   string   // of the program; "": see ProgramPackage
	Prefix    string   // of the program's queues in staged functions; "": none

	partitions int               // see Partition
	copies     map[string][]byte // function.json of the copies
}

// Open finds and checks the project that contains the absolute path dir. Its
// error contains every problem. checkFunction returns the problems of the
// function.json in a folder.
func Open(dir string, checkFunction func(folder string) error) (*Project, error) {
	root, err := findRoot(dir)
	if err != nil {
		return nil, err
	}
	functions, err := checkFunctions(filepath.Join(root, "functions"), checkFunction)
	if err = errors.Join(checkHostFile(filepath.Join(root, "host.json")), err); err != nil {
		return nil, err
	}
	last, _ := lastDescription(root) // without one the handler serves all
	return &Project{Root: root, Functions: served(functions, last)}, nil
}

// findRoot returns the nearest folder, from dir upwards, with a host.json.
func findRoot(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "host.json")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no host.json in %s or its parent folders; run this command inside the project", dir)
		}
	}
}

// checkHostFile checks that the host will find the handler.
func checkHostFile(path string) error {
	var file struct {
		Version       string
		CustomHandler struct {
			Description struct{ DefaultExecutablePath string }
		}
	}
	if err := readJSON(path, &file); err != nil {
		return err
	}
	var problems []error
	if file.Version != "2.0" {
		problems = append(problems, fmt.Errorf(`host.json: version is %q; the host requires "2.0"`, file.Version))
	}
	if got := file.CustomHandler.Description.DefaultExecutablePath; got != handlerName {
		problems = append(problems, fmt.Errorf(
			"host.json: customHandler.description.defaultExecutablePath is %q; set it to %q, the name of the handler in the package",
			got, handlerName))
	}
	return errors.Join(problems...)
}

// checkFunctions checks the folder of functions and returns their names.
func checkFunctions(dir string, check func(folder string) error) ([]string, error) {
	var names []string
	var problems []error
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || entry.Name() != "function.json" {
			return nil
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		problem := func(err error) {
			if err != nil {
				problems = append(problems, fmt.Errorf("functions/%s: %w", filepath.ToSlash(relative), err))
			}
		}
		name := filepath.Dir(relative)
		if name == "." || strings.ContainsRune(name, filepath.Separator) {
			problem(errors.New("wrong depth; the host reads only functions/<Name>/function.json"))
			return nil
		}
		problem(check(filepath.Dir(path)))
		problem(checkName(name, names))
		names = append(names, name)
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("folder %s does not exist; a project needs at least one function", dir)
	case err != nil:
		return nil, fmt.Errorf("read the functions: %w", err)
	case len(names) == 0 && len(problems) == 0:
		return nil, fmt.Errorf("%s contains no function.json; a project needs at least one function", dir)
	}
	slices.Sort(names)
	return names, errors.Join(problems...)
}

// checkName rejects a folder name that collides with another name in dist/ on a
// file system that ignores case.
func checkName(name string, before []string) error {
	if strings.EqualFold(name, handlerName) {
		return fmt.Errorf("the name %q is reserved; use another name for the function", name)
	}
	for _, other := range before {
		if strings.EqualFold(name, other) {
			return fmt.Errorf("differs from the function %q only in case, which the host ignores", other)
		}
	}
	return nil
}

// readJSON decodes a JSON file. It ignores a byte order mark, which Windows
// editors add, as the host does.
func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), into); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return nil
}
