package main

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

// handlerName is what the program behind the host is called, in dist/ and in
// the package. The deployment tools set the executable bit by this very name,
// so host.json must say it exactly like this, without "./".
const handlerName = "handler"

// A project is a source tree whose host.json and functions have been checked.
type project struct {
	root      string   // the folder that holds host.json
	functions []string // the folder names below functions/, sorted
}

// openProject finds the project that dir is a part of and checks it. Its
// error names every problem at once.
func openProject(dir string) (project, error) {
	root, err := projectRoot(dir)
	if err != nil {
		return project{}, err
	}
	functions, err := checkFunctions(filepath.Join(root, "functions"))
	if err = errors.Join(checkHostFile(filepath.Join(root, "host.json")), err); err != nil {
		return project{}, err
	}
	return project{root: root, functions: functions}, nil
}

// projectRoot is the nearest folder, from dir upwards, with a host.json.
func projectRoot(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "host.json")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("there is no host.json in %s or above it: run this inside the project", dir)
		}
	}
}

// checkHostFile makes sure that the host will find the handler.
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
		problems = append(problems, fmt.Errorf(`host.json: version is %q: the host wants "2.0"`, file.Version))
	}
	if got := file.CustomHandler.Description.DefaultExecutablePath; got != handlerName {
		problems = append(problems, fmt.Errorf(
			"host.json: customHandler.description.defaultExecutablePath is %q, but the package holds %q: the host would not find it",
			got, handlerName))
	}
	return errors.Join(problems...)
}

// checkFunctions checks the folder of functions and returns their names.
func checkFunctions(dir string) ([]string, error) {
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
		name := filepath.Dir(relative)
		if name == "." || strings.ContainsRune(name, filepath.Separator) {
			problems = append(problems, fmt.Errorf(
				"functions/%s is at the wrong depth: the host looks for functions/<Name>/function.json only",
				filepath.ToSlash(relative)))
			return nil
		}
		for _, problem := range append(checkName(name, names), checkBindings(path)...) {
			problems = append(problems, fmt.Errorf("functions/%s: %w", filepath.ToSlash(relative), problem))
		}
		names = append(names, name)
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no folder %s: a package without functions does nothing", dir)
	case err != nil:
		return nil, fmt.Errorf("read the functions: %w", err)
	case len(names) == 0 && len(problems) == 0:
		return nil, fmt.Errorf("%s holds no function.json: a package without functions does nothing", dir)
	}
	slices.Sort(names)
	return names, errors.Join(problems...)
}

// readJSON decodes one JSON file; a byte order mark, which Windows editors
// like to add, does no harm to the host and none here.
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
