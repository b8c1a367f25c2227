package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// addressFolder is the folder below the root of a project that holds what this
// machine knows about it. Git ignores it.
const addressFolder = ".kennel"

// An addressFile names the address of the app for other commands, while it runs.
type addressFile struct{ folder, url string }

func (f addressFile) path() string { return filepath.Join(f.folder, "url") }

func (f addressFile) write() error {
	if err := os.MkdirAll(f.folder, 0o755); err != nil {
		return err
	}
	half := f.path() + ".new"
	if err := os.WriteFile(half, []byte(f.url+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(half, f.path())
}

// remove removes the file unless another run of the project has replaced it.
func (f addressFile) remove() {
	if text, err := os.ReadFile(f.path()); err == nil && string(text) == f.url+"\n" {
		os.Remove(f.path()) // a file that stays names a port at which nothing answers
		os.Remove(f.folder) // fails if it holds something else
	}
}

// Running returns the address of an app that `kennel up` runs from dist/ of the
// project at root, "" for none. The address except is that of the caller.
func Running(ctx context.Context, root, except string) string {
	text, err := os.ReadFile(addressFile{folder: filepath.Join(root, addressFolder)}.path())
	url := strings.TrimSpace(string(text))
	if err != nil || url == except {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	// A host that requires keys does not show its state.
	if _, err := hostState(ctx, url); err != nil && !errors.Is(err, errNoHost) {
		return "" // left by a run that was killed
	}
	return url
}
