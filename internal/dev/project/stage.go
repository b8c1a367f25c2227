package project

import (
	"context"
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
	"time"
)

// A Target is the kind of machine that a handler is for.
type Target struct{ OS, Arch string }

// Azure is what Azure Functions runs: Linux on x64, on every plan that takes
// custom handlers.
var Azure = Target{OS: "linux", Arch: "amd64"}

// Executable is what the handler is called on the target.
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
	Env      map[string]string // the environment of the compiler

	// Step is called when something slow begins, and what it returns when that
	// ends. Default: nothing.
	Step func(text string) (done func())
}

// Stage fills dist/ with what the host wants to see and returns its path:
// host.json, the handler, and one folder with a function.json per function.
//
// Files are put in place whole, one by one, so that staging does no harm to
// an app that runs out of the folder. What Stage did not put there it leaves
// alone, except for functions that the source no longer has.
func (p *Project) Stage(ctx context.Context, t Target, options *StageOptions) (string, error) {
	opt := StageOptions{}
	if options != nil {
		opt = *options
	}
	dist := filepath.Join(p.Root, "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return "", err
	}
	handler := filepath.Join(dist, t.Executable())
	var err error
	if opt.Prebuilt != "" {
		err = copyFile(handler, opt.Prebuilt, 0o755)
	} else {
		err = p.build(ctx, t, handler, opt)
	}
	if err == nil && t == Azure {
		err = checkForAzure(handler)
	}
	if err != nil {
		return "", err
	}
	if err := copyFile(filepath.Join(dist, "host.json"), filepath.Join(p.Root, "host.json"), 0o644); err != nil {
		return "", err
	}
	for _, name := range p.Functions {
		if err := os.MkdirAll(filepath.Join(dist, name), 0o755); err != nil {
			return "", err
		}
		from := filepath.Join(p.Root, "functions", name, "function.json")
		if err := copyFile(filepath.Join(dist, name, "function.json"), from, 0o644); err != nil {
			return "", err
		}
	}
	// Publishing from dist/ with other tools reads it: it leaves the zip behind.
	const ignore = ".funcignore"
	err = copyFile(filepath.Join(dist, ignore), filepath.Join(p.Root, ignore), 0o644)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return dist, p.unstage(dist)
}

// unstage removes the functions from dist that the source no longer has: the
// host would go on running them.
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

// build compiles ./handler into the file to, in a way that two builds of the
// same source are the same bytes: no paths, no commit, no symbols.
func (p *Project) build(ctx context.Context, t Target, to string, opt StageOptions) error {
	if _, err := os.Stat(filepath.Join(p.Root, "handler")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no handler to build in %s: give a built one with --handler FILE", p.Root)
	}
	half := to + ".new"
	defer os.Remove(half)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", half, "./handler")
	cmd.Dir = p.Root
	for name, value := range opt.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "GOOS="+t.OS, "GOARCH="+t.Arch, "CGO_ENABLED=0",
		"GOAMD64=v1") // the processor that it will run on is not known
	cmd.WaitDelay = 5 * time.Second // the compilers it has started may hold its output
	if opt.Step != nil {
		defer opt.Step(fmt.Sprintf("building the handler for %s/%s", t.OS, t.Arch))()
	}
	output, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("there is no `go` on the PATH to build the handler with: install Go, or give a built one with --handler FILE")
	case err != nil:
		return fmt.Errorf("the handler does not build (%w):\n%s", err, strings.TrimSpace(string(output)))
	}
	return os.Rename(half, to)
}

// checkForAzure refuses a handler that Azure could not start.
func checkForAzure(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("the handler is no Linux program (%w): Azure runs Linux on x64", err)
	}
	defer file.Close()
	if file.Machine != elf.EM_X86_64 {
		return fmt.Errorf("the handler is a Linux program for %s: Azure runs Linux on x64 (GOOS=linux GOARCH=amd64)", file.Machine)
	}
	return nil
}

// copyFile puts a copy of the file from at to, whole or not at all.
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

// replaceFile writes the file at path, whole or not at all.
func replaceFile(path string, mode fs.FileMode, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // does nothing once it is renamed
	err = write(file)
	if err := errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(file.Name(), path)
}
