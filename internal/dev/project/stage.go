package project

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Target is the kind of machine that a handler is for.
type Target struct{ OS, Arch string }

// Azure is the target for Azure Functions: Linux on x64, on every plan that
// supports custom handlers.
var Azure = Target{OS: "linux", Arch: "amd64"}

// Executable returns the file name of the handler on the target.
func (t Target) Executable() string {
	if t.OS == "windows" {
		return handlerName + ".exe"
	}
	return handlerName
}

// StageOptions are the choices of [Project.Stage]; nil and zero fields mean the
// defaults.
type StageOptions struct {
	Prebuilt string            // stage a copy of this handler; default: build ./handler
	Env      map[string]string // the environment of the compiler and of git

	// Step is called when a slow step starts; the returned function is called
	// when the step ends. Default: nothing.
	Step func(text string) (done func())
}

// Stage writes the files that the host needs to dist/ and returns its path:
// host.json, the handler, its version if known, and one folder with a
// function.json per function.
//
// Each file is replaced atomically, so that staging does not disturb an app
// that runs from the folder. Other files in dist/ are kept, except functions
// that the source no longer has.
func (p *Project) Stage(ctx context.Context, t Target, options *StageOptions) (string, error) {
	opt := StageOptions{}
	if options != nil {
		opt = *options
	}
	if opt.Prebuilt != "" && t == Azure {
		if err := checkForAzure(opt.Prebuilt); err != nil {
			return "", err // before anything is written
		}
	}
	dist := filepath.Join(p.Root, "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return "", err
	}
	handler := filepath.Join(dist, t.Executable())
	var from version
	var err error
	if opt.Prebuilt != "" {
		err = copyFile(handler, opt.Prebuilt, 0o755)
	} else {
		from = p.describe(ctx, opt.Env)
		err = p.build(ctx, t, handler, from, opt)
	}
	if err == nil {
		err = from.write(dist)
	}
	if err != nil {
		return "", err
	}
	if err := copyFile(filepath.Join(dist, "host.json"), filepath.Join(p.Root, "host.json"), 0o644); err != nil {
		return "", err
	}
	for _, name := range p.Functions {
		if err := p.stageFunction(dist, name); err != nil {
			return "", err
		}
	}
	// Other tools that publish from dist/ read it to exclude the zip file.
	const ignore = ".funcignore"
	err = copyFile(filepath.Join(dist, ignore), filepath.Join(p.Root, ignore), 0o644)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return dist, p.unstage(dist)
}

// unstage removes functions that the source no longer has from dist. Otherwise
// the host would still run them.
func (p *Project) unstage(dist string) error {
	stale, err := filepath.Glob(filepath.Join(dist, "*", "function.json"))
	if err != nil {
		return err
	}
	for _, file := range stale {
		folder := filepath.Dir(file)
		if slices.Contains(p.Functions, filepath.Base(folder)) {
			continue
		}
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	return nil
}

// build compiles ./handler into the file to. Two builds of the same commit
// produce the same bytes: no paths, no symbols.
func (p *Project) build(ctx context.Context, t Target, to string, from version, opt StageOptions) error {
	if _, err := os.Stat(filepath.Join(p.Root, "handler")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no handler source in %s; use --handler FILE for a built handler", p.Root)
	}
	half := to + ".new"
	defer os.Remove(half)
	if _, err := buildinfo.ReadFile(to); err == nil {
		// The Go tool does not link a program again that has not changed, which
		// saves most of the time. It refuses to replace other files.
		if err := copyFile(half, to, 0o755); err != nil {
			return err
		}
	}
	cmd := p.command(ctx, opt.Env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", from.linkerFlags(), "-o", half, "./handler")
	cmd.Env = append(cmd.Env, "GOOS="+t.OS, "GOARCH="+t.Arch, "CGO_ENABLED=0",
		"GOAMD64=v1") // the target processor is unknown
	if opt.Step != nil {
		defer opt.Step(fmt.Sprintf("building the handler for %s/%s", t.OS, t.Arch))()
	}
	output, err := cmd.CombinedOutput()
	if isInterrupted(err) { // by Ctrl+C, of which this process learns at about the same time
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("go is not on the PATH, so the handler cannot be built; install Go or use --handler FILE for a built handler")
	case err != nil:
		return fmt.Errorf("the handler does not build (%w):\n%s", err, strings.TrimSpace(string(output)))
	}
	return os.Rename(half, to)
}

// command returns a command that runs in the project's folder.
func (p *Project) command(ctx context.Context, env map[string]string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.Root
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.WaitDelay = 5 * time.Second // programs that it started may hold its output
	return cmd
}

// checkForAzure rejects a file that is not a handler, or that Azure cannot
// start.
func checkForAzure(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("the handler is not a Linux program (%w); Azure runs Linux on x64", err)
	}
	defer file.Close()
	if file.Machine != elf.EM_X86_64 {
		return fmt.Errorf("the handler is a Linux program for %s; Azure runs Linux on x64 (GOOS=linux GOARCH=amd64)", file.Machine)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s is not a handler: it is not a Go program; build it from ./handler", path)
	}
	if filepath.Base(info.Path) != handlerName {
		return fmt.Errorf("%s is not a handler: it was built from %s; build it from ./handler", path, info.Path)
	}
	return nil
}

// copyFile atomically replaces the file to with a copy of from.
func copyFile(to, from string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return replaceFile(to, mode, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// replaceFile atomically replaces the file at path.
func replaceFile(path string, mode fs.FileMode, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // has no effect after the rename
	err = write(file)
	if err := errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(file.Name(), path)
}

// isInterrupted reports whether a program was ended by SIGINT or SIGTERM.
func isInterrupted(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGINT || status.Signal() == syscall.SIGTERM)
}
