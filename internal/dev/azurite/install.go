package azurite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What installing and running Azurite takes at least.
const (
	minNode = 20
	minNPM  = 7 // the first to read lock files of version 3
)

const (
	tempMark = ".tmp-"   // between a folder's final name and a random suffix
	tempAge  = time.Hour // after which no installation is still under way
)

// Installed is an Azurite on disk, ready to start.
type Installed struct {
	Dir  string // holds the script and node_modules
	Node string // the node executable
}

// Install makes sure that Azurite is in a folder of its own below cacheDir and
// returns where. It downloads once, about 60 MB, with a line to progress
// (nil: none); afterwards it returns at once. An installation that is
// interrupted leaves nothing that could be mistaken for a complete one.
func Install(ctx context.Context, cacheDir string, progress io.Writer) (Installed, error) {
	if progress == nil {
		progress = io.Discard
	}
	node, err := find(ctx, "node", minNode)
	if err != nil {
		return Installed{}, err
	}
	final := filepath.Join(cacheDir, folderName())
	in := Installed{Dir: final, Node: node}
	if exists(final) {
		return in, nil
	}

	npm, err := find(ctx, "npm", minNPM)
	if err != nil {
		return Installed{}, err
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return Installed{}, fmt.Errorf("install Azurite: %w", err)
	}
	// The lock only spares work: the rename at the end is what makes several
	// installations at once safe.
	held, err := lock(ctx, final+".lock", func() {
		fmt.Fprintf(progress, "another process is installing Azurite %s, waiting for it\n", Version)
	})
	if err != nil {
		return Installed{}, fmt.Errorf("install Azurite: wait for another installation: %w", err)
	}
	defer held.Close() // a nil file closes with an error, which says nothing here
	if exists(final) {
		return in, nil
	}
	fmt.Fprintf(progress, "installing Azurite %s (once, 60 MB)…\n", Version)
	if err := install(ctx, npm, final); err != nil {
		return Installed{}, fmt.Errorf("install Azurite: %w", err)
	}
	return in, nil
}

// install downloads into a neighbour of final and renames it at the end, so
// that final is complete or absent.
func install(ctx context.Context, npm, final string) error {
	sweep(final)
	temp, err := os.MkdirTemp(filepath.Dir(final), filepath.Base(final)+tempMark)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	source, err := fs.Sub(files, "npm")
	if err != nil {
		return err
	}
	if err := os.CopyFS(temp, source); err != nil {
		return err
	}

	cmd := exec.CommandContext(ctx, npm, "ci", "--omit=optional", "--ignore-scripts",
		"--no-audit", "--no-fund", "--engine-strict=false", "--loglevel=error")
	cmd.Dir = temp
	cmd.WaitDelay = 5 * time.Second
	if output, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("npm ci: %w\n%s", err, bytes.TrimSpace(output))
	}
	if err := os.Rename(temp, final); err != nil && !exists(final) {
		return err // not even another process has put it there
	}
	return nil
}

// sweep removes what killed installations left behind.
func sweep(final string) {
	left, err := filepath.Glob(final + tempMark + "*")
	if err != nil {
		return // only garbage stays
	}
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > tempAge {
			os.RemoveAll(path)
		}
	}
}

// folderName tells installations apart by what they consist of, so that a
// changed lock file makes a new one.
func folderName() string {
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json", "serve.cjs"} {
		content, err := files.ReadFile("npm/" + name)
		if err != nil {
			panic(err) // embedded, so there
		}
		sum.Write(content)
	}
	return fmt.Sprintf("azurite-%s-%.4x", Version, sum.Sum(nil))
}

// find returns the path of node or npm, or tells what to install.
func find(ctx context.Context, name string, minVersion int) (string, error) {
	const advice = "storage on this machine is served by Azurite, which needs Node.js %d or newer, with npm: install it from https://nodejs.org or with your package manager, then try again"
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not on the PATH: "+advice, name, minNode)
	}
	output, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	version := strings.TrimSpace(string(output))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return "", fmt.Errorf("%s --version says %.40q, which is no version", path, version)
	}
	if n < minVersion {
		return "", fmt.Errorf("%s %s (%s) is too old: "+advice, name, version, path, minNode)
	}
	return path, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
