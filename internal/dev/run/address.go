package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// addressFolder is the folder below the root of a project for the state of this
// machine. Git ignores it.
const addressFolder = ".kennel"

// An addressFile names the addresses of the apps that run in a project, one a
// line, the one that started last first: that is the one other commands call.
type addressFile struct{ folder, url string }

func (f addressFile) path() string { return filepath.Join(f.folder, "url") }

// others returns the addresses in the file except that of f.
func (f addressFile) others() []string {
	text, _ := os.ReadFile(f.path()) // without the file there are none
	return slices.DeleteFunc(strings.Fields(string(text)), func(url string) bool { return url == f.url })
}

// write puts the address of f first.
func (f addressFile) write() error {
	if err := os.MkdirAll(f.folder, 0o755); err != nil {
		return err
	}
	return f.replace(append([]string{f.url}, f.others()...))
}

func (f addressFile) replace(urls []string) error {
	half := f.path() + ".new"
	if err := os.WriteFile(half, []byte(strings.Join(urls, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(half, f.path())
}

// remove removes the address of f, and those of runs that were killed. A file
// that names an app that runs stays.
func (f addressFile) remove() { f.removeWithin(2 * time.Second) }

func (f addressFile) removeWithin(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// An app that does not answer in time may be busy. Where a run was killed,
	// the connection is refused at once.
	running := slices.DeleteFunc(f.others(), func(url string) bool { return !answers(ctx, url) && ctx.Err() == nil })
	if len(running) > 0 {
		f.replace(running) // a file that stays names a port at which nothing answers
		return
	}
	os.Remove(f.path())
	os.Remove(f.folder) // fails if it holds something else
}

// Running returns the address of an app that `kennel up` runs from dist/ of the
// project at root, "" for none. The address except is that of the caller.
func Running(ctx context.Context, root, except string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, url := range (addressFile{filepath.Join(root, addressFolder), except}).others() {
		if answers(ctx, url) {
			return url
		}
	}
	return ""
}

// answers reports whether an app answers at the address. The line of a run that
// was killed names one at which none does.
func answers(ctx context.Context, url string) bool {
	// A host that requires keys does not show its state.
	_, err := hostState(ctx, url)
	return err == nil || errors.Is(err, errNoHost)
}
