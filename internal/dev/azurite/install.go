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

// The minimum versions to install and run Azurite.
const (
	minNode = 20
	minNPM  = 7 // the first that supports lock files of version 3
)

const (
	tempMark = ".tmp-"   // between the final name of a folder and a random suffix
	tempAge  = time.Hour // an older temporary folder is abandoned
)

// Installed is an Azurite on disk, ready to start.
type Installed struct {
	Dir  string // holds the script and node_modules
	Node string // the node executable
}

// Install installs Azurite into its own folder below cacheDir, unless it is
// already there. The download, about 60 MB, is reported to progress unless that
// is nil. An interrupted installation is never treated as complete.
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
	// The lock only avoids duplicate work. The rename at the end makes
	// concurrent installations safe.
	held, err := lock(ctx, final+".lock", func() {
		fmt.Fprintf(progress, "another process is installing Azurite %s, waiting for it\n", Version)
	})
	if err != nil {
		return Installed{}, fmt.Errorf("install Azurite: wait for another installation: %w", err)
	}
	defer held.Close() // a nil file returns an error, which does not matter
	if exists(final) {
		return in, nil
	}
	fmt.Fprintf(progress, "installing Azurite %s (once, 60 MB)…\n", Version)
	if err := install(ctx, npm, final); err != nil {
		return Installed{}, fmt.Errorf("install Azurite: %w", err)
	}
	return in, nil
}

// install downloads into a temporary folder beside final and renames it at the
// end, so that final is complete or absent.
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
		return err // no other process has installed it either
	}
	return nil
}

// sweep removes the temporary folders of killed installations.
func sweep(final string) {
	left, err := filepath.Glob(final + tempMark + "*")
	if err != nil {
		return // only unused folders remain
	}
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > tempAge {
			os.RemoveAll(path)
		}
	}
}

// folderName derives the name of an installation from its files, so that a
// changed lock file leads to a new installation.
func folderName() string {
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json", "serve.cjs"} {
		content, err := files.ReadFile("npm/" + name)
		if err != nil {
			panic(err) // embedded, so it exists
		}
		sum.Write(content)
	}
	return fmt.Sprintf("azurite-%s-%.4x", Version, sum.Sum(nil))
}

// find returns the path of node or npm. Its error names what to install.
func find(ctx context.Context, name string, minVersion int) (string, error) {
	const advice = "the storage emulator Azurite needs Node.js %d or newer with npm; install it from https://nodejs.org or with your package manager"
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not on the PATH; "+advice, name, minNode)
	}
	output, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("get the version of %s: %w", path, err)
	}
	version := strings.TrimSpace(string(output))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return "", fmt.Errorf("%s --version printed %.40q, which is not a version", path, version)
	}
	if n < minVersion {
		return "", fmt.Errorf("%s %s (%s) is too old; "+advice, name, version, path, minNode)
	}
	return path, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
