package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kennel/internal/dev/localhost"
	"kennel/internal/dev/project"
)

// CheckStaged returns every problem that `func start` would have with a staged
// folder and these settings on a machine of this kind. The Functions host
// reports most of them late, and some not at all: it ignores a function.json
// that is not in a direct sub-folder, and runs without a handler that it cannot
// start.
func CheckStaged(dist string, t project.Target, settings map[string]string) error {
	problems := []error{checkStagedHandler(dist, t)}
	if value := settings[runtimeSetting]; !strings.EqualFold(value, "custom") {
		problems = append(problems, fmt.Errorf("the setting %s is %q; set it to custom, otherwise func prompts for it", runtimeSetting, value))
	}
	var names []string
	missing := make(map[string][]string) // functions by connection
	err := filepath.WalkDir(dist, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "function.json" {
			return err
		}
		folder := filepath.Dir(path)
		name, err := filepath.Rel(dist, folder)
		if err != nil {
			return err
		}
		problem := func(err error) {
			problems = append(problems, fmt.Errorf("dist/%s/function.json: %w", filepath.ToSlash(name), err))
		}
		if name == "." || name != filepath.Base(name) {
			problem(errors.New("wrong depth; the host reads only dist/<Name>/function.json"))
			return nil
		}
		if slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) }) {
			problem(errors.New("another function has this name in another case, which the host ignores"))
		}
		names = append(names, name)
		if err := localhost.CheckFunction(folder); err != nil {
			problem(err)
			return nil
		}
		for _, connection := range connections(path) {
			if !mentions(settings, connection) {
				missing[connection] = append(missing[connection], name)
			}
		}
		return nil
	})
	for _, connection := range slices.Sorted(maps.Keys(missing)) {
		problems = append(problems, fmt.Errorf("the setting %s is missing, the connection of %s; add it to local.settings.json",
			connection, strings.Join(missing[connection], ", ")))
	}
	if err == nil && len(names) == 0 {
		err = errors.New("dist contains no function; the host then does not start the handler")
	}
	return errors.Join(append(problems, err)...)
}

// checkStagedHandler checks that the host finds the handler and can start it.
func checkStagedHandler(dist string, t project.Target) error {
	var host struct {
		CustomHandler struct {
			Description struct{ DefaultExecutablePath string }
		}
	}
	if err := readStaged(filepath.Join(dist, "host.json"), &host); err != nil {
		return fmt.Errorf("dist/host.json: %w", err)
	}
	const again = "run `kennel package --local` on this machine"
	name := host.CustomHandler.Description.DefaultExecutablePath
	if name != t.Executable() {
		return fmt.Errorf("dist/host.json: defaultExecutablePath is %q, and on this machine the handler is %s; %s", name, t.Executable(), again)
	}
	path := filepath.Join(dist, name)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("dist/%s is missing or not a file; %s", name, again)
	}
	if t.OS != "windows" && info.Mode()&0o111 != 0o111 {
		return fmt.Errorf("dist/%s is not executable; run chmod 755 dist/%[1]s", name)
	}
	if is, ok := project.TargetOf(path); ok && is != t {
		return fmt.Errorf("dist/%s is a program for %s/%s, and this machine is %s/%s; %s", name, is.OS, is.Arch, t.OS, t.Arch, again)
	}
	return nil
}

// connections returns the connections that a valid function.json needs. Timers
// keep their status in the storage of the host.
func connections(path string) []string {
	var function struct {
		Bindings []struct{ Type, Connection string }
	}
	_ = readStaged(path, &function) // it was checked before
	var names []string
	for _, b := range function.Bindings {
		name := b.Connection
		if kind := strings.ToLower(b.Type); name == "" && (strings.HasPrefix(kind, "queue") || kind == "timertrigger") {
			name = storageSetting
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// readStaged decodes a JSON file, which may begin with a byte order mark.
func readStaged(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), into)
}
