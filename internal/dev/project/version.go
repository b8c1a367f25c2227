package project

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	buildversion "kennel/internal/version"
)

// versionFile is the file of the package in which an operator reads the version
// and the commit of its handler.
const versionFile = "version.txt"

// A version identifies the source. It is empty outside a git repository.
type version struct{ name, commit string }

// describe reads the version of the source from git. The Makefile does the
// same. The abbreviated commit has a fixed length, which otherwise depends on
// the size of the clone.
func (p *Project) describe(ctx context.Context, env map[string]string) version {
	git := func(args ...string) string {
		output, err := p.command(ctx, env, "git", args...).Output()
		if err != nil {
			return "" // no git, no repository or no commit
		}
		return strings.TrimSpace(string(output))
	}
	var v version
	var describing sync.WaitGroup
	describing.Go(func() { v.name = git("describe", "--tags", "--always", "--dirty", "--abbrev=10") })
	v.commit = git("rev-parse", "HEAD")
	describing.Wait()
	return v
}

// linkerFlags returns the flags that make a program small, the same in each
// folder, and aware of its version.
func (v version) linkerFlags() string {
	return "-s -w -X " + buildversion.Package + ".version=" + v.name + " -X " + buildversion.Package + ".commit=" + v.commit
}

// write stages the version file, or removes it if the version is not known, as
// with a prebuilt handler.
func (v version) write(c *changes) error {
	if v.name == "" {
		if _, err := os.Stat(c.path(versionFile)); !errors.Is(err, fs.ErrNotExist) {
			c.remove(versionFile)
		}
		return nil
	}
	return c.write(versionFile, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, v.name+"\n"+v.commit+"\n")
		return err
	})
}

// readVersion returns the name of the version in dist; "" if it is not known.
func readVersion(dist string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dist, versionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	name, _, _ := strings.Cut(string(text), "\n")
	return name, err
}
