package project

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// builtName is the file beside a handler that describes what it was built from.
// Its name is none that a Functions host watches.
const builtName = ".handler.built"

// settled is how old a source must be when a build begins. A younger one may
// change again without a new time, on a file system with coarse times. Tests
// change it.
var settled = 2 * time.Second

// A builtFrom describes what the handler in dist/ was built from, so that the
// next start need not run the Go tool, which takes half a second to find out
// that nothing has changed. In all doubt there is no such file, or its digest
// differs, and then the Go tool decides.
type builtFrom struct {
	Sources sources `json:"sources"`
	Tool    string  `json:"tool"`   // the Go tool
	Digest  string  `json:"digest"` // of the state of all of it, and of the handler
}

// A goBuild is a call of the Go tool for the handler.
type goBuild struct {
	project *Project
	target  Target
	args    []string
	env     map[string]string
	program string // the package
	handler string // its path in dist/
}

// isCurrent reports whether the handler is what the build would produce.
func (b *goBuild) isCurrent() bool {
	var was builtFrom
	text, err := os.ReadFile(b.record())
	if err != nil || json.Unmarshal(text, &was) != nil || !slices.Contains(was.Sources.Packages, path.Clean(b.program)) {
		return false
	}
	tool, err := b.tool()
	if errors.Is(err, exec.ErrNotFound) {
		tool, err = was.Tool, nil // without a compiler, there is no other one
	}
	if err != nil || tool != was.Tool {
		return false
	}
	digest, _, err := b.digest(was.Sources, tool)
	return err == nil && digest == was.Digest
}

// remember writes down what the handler in dist/ was built from by a build that
// began at a time, if that is certain.
func (b *goBuild) remember(began time.Time) {
	was := builtFrom{}
	found, err := findSources(b.project.Root, b.program)
	if err == nil {
		was.Sources = found
		was.Tool, err = b.tool()
	}
	var newest time.Time
	if err == nil {
		was.Digest, newest, err = b.digest(was.Sources, was.Tool)
	}
	if err != nil || !newest.Before(began.Add(-settled)) {
		os.Remove(b.record()) // an old one does not match the handler
		return
	}
	_ = replaceFile(b.record(), 0o644, func(w io.Writer) error { return json.NewEncoder(w).Encode(was) }) // the next start builds
}

func (b *goBuild) record() string { return filepath.Join(filepath.Dir(b.handler), builtName) }

// begin returns the time at which a build begins, by the clock of the file
// system or by that of this machine, whichever is behind.
func (b *goBuild) begin() (time.Time, error) {
	file, err := os.CreateTemp(filepath.Dir(b.handler), ".*.new")
	if err != nil {
		return time.Time{}, err
	}
	defer os.Remove(file.Name())
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return time.Time{}, err
	}
	if now := time.Now(); now.Before(info.ModTime()) {
		return now, nil
	}
	return info.ModTime(), nil
}

// digest describes the present state of all that the handler depends on. newest
// is the time of the last change of a source.
func (b *goBuild) digest(from sources, tool string) (digest string, newest time.Time, err error) {
	env, err := b.environment(tool)
	if err != nil {
		return "", newest, err
	}
	files, newest, err := from.state(b.project.Root)
	if err != nil {
		return "", newest, err
	}
	handler, err := os.Lstat(b.handler)
	if err != nil {
		return "", newest, err
	}
	lines := slices.Concat([]string{"2", b.target.OS, b.target.Arch, tool, stateOf("handler", handler)}, b.args, env, files)
	sum := sha256.New()
	for _, line := range lines {
		fmt.Fprintf(sum, "%q\n", line)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), newest, nil
}

// errUnsure reports that only the Go tool knows what a handler depends on.
var errUnsure = errors.New("the handler may depend on more than the files of its module")

// tool describes the Go tool on the PATH.
func (b *goBuild) tool() (string, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	root := filepath.Dir(filepath.Dir(path))
	text := path
	// A program without these files may start one of several Go tools.
	for _, name := range []string{path, filepath.Join(root, "VERSION"), filepath.Join(root, "go.env")} {
		info, err := os.Stat(name)
		if err != nil {
			return "", errUnsure
		}
		text += " " + stateOf("", info)
	}
	return text, nil
}

// knownFlags are flags in GOFLAGS that name no files outside the module.
var knownFlags = []string{"-mod=mod", "-mod=readonly", "-buildvcs", "-tags=", "-trimpath", "-p=", "-v", "-x", "-gcflags=", "-ldflags=", "-asmflags=", "-modcacherw"}

// environment returns the variables that change a build, of the environment and
// of the file of "go env -w".
func (b *goBuild) environment(tool string) ([]string, error) {
	all, err := settingsOfGo(b.env)
	if err != nil {
		return nil, err
	}
	for name, value := range b.env {
		if name == "HOME" || strings.HasPrefix(name, "GO") || strings.HasPrefix(name, "CGO") {
			all[name] = value
		}
	}
	for flag := range strings.FieldsSeq(all["GOFLAGS"]) {
		if !slices.ContainsFunc(knownFlags, func(known string) bool { return strings.HasPrefix("-"+strings.TrimLeft(flag, "-"), known) }) {
			return nil, errUnsure
		}
	}
	if all["GO111MODULE"] == "off" || strings.Contains(all["GOTOOLCHAIN"], "path") {
		return nil, errUnsure
	}
	if root := all["GOROOT"]; root != "" && !strings.HasPrefix(tool, filepath.Join(root, "bin")+string(filepath.Separator)) {
		return nil, errUnsure // another compiler than the one beside the Go tool
	}
	if work := all["GOWORK"]; work != "off" {
		for at := b.project.Root; ; at = filepath.Dir(at) {
			if _, err := os.Lstat(filepath.Join(at, "go.work")); work != "" || !errors.Is(err, fs.ErrNotExist) {
				return nil, errUnsure
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	lines := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, name+"="+all[name])
	}
	return lines, nil
}

// settingsOfGo returns what "go env -w" has written.
func settingsOfGo(env map[string]string) (map[string]string, error) {
	all := make(map[string]string)
	path := env["GOENV"]
	if path == "off" {
		return all, nil
	}
	if path == "" {
		folder, err := os.UserConfigDir()
		if err != nil {
			return all, nil // then the Go tool has no such file either
		}
		path = filepath.Join(folder, "go", "env")
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		all[name] = value
	}
	return all, err
}
