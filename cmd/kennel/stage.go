package main

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

// A target is the kind of machine that a handler is for.
type target struct{ os, arch string }

// azureTarget is what Azure Functions runs: Linux on x64, on every plan that
// takes custom handlers.
var azureTarget = target{os: "linux", arch: "amd64"}

// executable is what the handler is called on the target.
func (t target) executable() string {
	if t.os == "windows" {
		return handlerName + ".exe"
	}
	return handlerName
}

// stage fills dist/ with what the host wants to see and returns its path:
// host.json, the handler, and one folder with a function.json per function.
// The handler is built from source, or is a copy of the file prebuilt.
//
// Files are put in place whole, one by one, so that staging does no harm to
// an app that runs out of the folder. What stage did not put there it leaves
// alone, except for functions that are gone from the source.
func (p project) stage(ctx context.Context, con *console, t target, prebuilt string) (string, error) {
	dist := filepath.Join(p.root, "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return "", err
	}
	handler := filepath.Join(dist, t.executable())
	var err error
	if prebuilt != "" {
		err = copyFile(handler, prebuilt, 0o755)
	} else {
		err = p.build(ctx, con, t, handler)
	}
	if err != nil {
		return "", err
	}
	if t == azureTarget {
		if err := checkForAzure(handler); err != nil {
			return "", err
		}
	}
	if err := copyFile(filepath.Join(dist, "host.json"), filepath.Join(p.root, "host.json"), 0o644); err != nil {
		return "", err
	}
	for _, name := range p.functions {
		if err := os.MkdirAll(filepath.Join(dist, name), 0o755); err != nil {
			return "", err
		}
		from := filepath.Join(p.root, "functions", name, "function.json")
		if err := copyFile(filepath.Join(dist, name, "function.json"), from, 0o644); err != nil {
			return "", err
		}
	}
	// Publishing from dist/ with other tools heeds it: it leaves the zip behind.
	const ignore = ".funcignore"
	err = copyFile(filepath.Join(dist, ignore), filepath.Join(p.root, ignore), 0o644)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return dist, p.unstage(dist)
}

// unstage removes the functions from dist that the source no longer has: the
// host would go on running them.
func (p project) unstage(dist string) error {
	stale, err := filepath.Glob(filepath.Join(dist, "*", "function.json"))
	if err != nil {
		return err
	}
	for _, file := range stale {
		folder := filepath.Dir(file)
		if slices.Contains(p.functions, filepath.Base(folder)) {
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
func (p project) build(ctx context.Context, con *console, t target, to string) error {
	if _, err := os.Stat(filepath.Join(p.root, "handler")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no handler to build in %s: give a built one with --handler FILE", p.root)
	}
	half := to + ".new"
	defer os.Remove(half)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", half, "./handler")
	cmd.Dir = p.root
	cmd.Env = append(environ(con.env), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0",
		"GOAMD64=v1") // nobody knows which processor it will run on
	cmd.WaitDelay = 5 * time.Second // the compilers it has started may hold its output
	done := con.step("building the handler for %s/%s", t.os, t.arch)
	output, err := cmd.CombinedOutput()
	done()
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
