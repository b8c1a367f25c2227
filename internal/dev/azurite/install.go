package azurite

import (
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

// installTime limits an installation. A network that needs longer transfers less
// than 35 KB a second.
const installTime = 30 * time.Minute

const (
	tempMark = ".tmp-"   // between the final name of a folder and a random suffix
	tempAge  = time.Hour // an older temporary folder is abandoned
)

// Installed is an Azurite on disk, ready to start.
type Installed struct {
	Dir  string // holds the script and node_modules
	Node string // the node executable
}

// Tools are the programs that install and run Azurite on this machine.
type Tools struct {
	node string
	npm  string // "" if Azurite is already installed
	dir  string // of the installation
}

// Find finds Node.js and, unless Azurite is already installed below cacheDir,
// npm. Its error names the program to install.
func Find(ctx context.Context, cacheDir string) (Tools, error) {
	t := Tools{dir: filepath.Join(cacheDir, folderName())}
	var err error
	if t.node, err = find(ctx, "node", minNode); err == nil && !exists(t.dir) {
		t.npm, err = find(ctx, "npm", minNPM)
	}
	return t, err
}

// Install is [Find] and [Tools.Install].
func Install(ctx context.Context, cacheDir string, progress io.Writer) (Installed, error) {
	tools, err := Find(ctx, cacheDir)
	if err != nil {
		return Installed{}, err
	}
	return tools.Install(ctx, progress)
}

// Install installs Azurite into its own folder, unless it is already there. The
// download, about 60 MB, is reported to progress unless that is nil. An
// interrupted installation is never treated as complete.
func (t Tools) Install(ctx context.Context, progress io.Writer) (Installed, error) {
	if progress == nil {
		progress = io.Discard
	}
	in := Installed{Dir: t.dir, Node: t.node}
	if t.npm == "" || exists(t.dir) {
		return in, nil
	}
	if err := os.MkdirAll(filepath.Dir(t.dir), 0o755); err != nil {
		return Installed{}, fmt.Errorf("install Azurite: %w", err)
	}
	// The lock only avoids duplicate work. The rename at the end makes
	// concurrent installations safe.
	held, err := lock(ctx, t.dir+".lock", func() {
		fmt.Fprintf(progress, "waiting for another process that installs Azurite %s\n", Version)
	})
	if err != nil {
		return Installed{}, fmt.Errorf("install Azurite: wait for another installation: %w", err)
	}
	defer held.Close() // a nil file returns an error, which does not matter
	if exists(t.dir) {
		return in, nil
	}
	fmt.Fprintf(progress, "installing Azurite %s (once, 60 MB)\n", Version)
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	if err := install(ctx, t.npm, t.dir); err != nil {
		return Installed{}, fmt.Errorf("install Azurite: %w", err)
	}
	return in, nil
}

// install downloads into a temporary folder beside final and renames it at the
// end, so that final is complete or absent.
func install(ctx context.Context, npm, final string) error {
	if err := ping(ctx, npm); err != nil {
		return err
	}
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
	if err := download(ctx, npm, temp); err != nil {
		return err
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

// withoutAzurite is the way out if Azurite cannot be installed.
const withoutAzurite = "leave out --storage azurite: devstore needs none of it"

// find returns the path of node or npm. Its error names the program to install.
func find(ctx context.Context, name string, minVersion int) (string, error) {
	const advice = "the storage emulator Azurite needs Node.js %d or newer with npm; install it from https://nodejs.org or with your package manager, or " + withoutAzurite
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not on the PATH; "+advice, name, minNode)
	}
	output, err := exec.CommandContext(ctx, path, "--version").Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
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
