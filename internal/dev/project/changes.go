package project

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// changes are the changes of staging in dist/. A Functions host that runs from
// the folder restarts the app when host.json or a function.json is replaced,
// even by the same bytes, so a file that is equal is no change. The new files
// are complete before the first one is moved to its place.
type changes struct {
	dist  string
	files []change
	gone  []string // functions and files to remove
	done  func()   // is called once all is applied; nil: nothing
}

// A change is a new file. Until it is applied, it is in dist/ under a temporary
// name: a folder of its own there would also restart the app.
type change struct{ name, temp string }

// write adds a file, unless dist/ has it with the same bytes and mode. name has
// slashes.
func (c *changes) write(name string, mode fs.FileMode, write func(io.Writer) error) error {
	file, err := os.CreateTemp(c.dist, ".*.new")
	if err != nil {
		return err
	}
	err = write(file)
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err == nil && name == settingsName {
		err = os.Chtimes(file.Name(), stagedTime, stagedTime)
	}
	if err != nil {
		os.Remove(file.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return c.add(name, file.Name())
}

// copy is write with the contents of the file from.
func (c *changes) copy(name, from string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return c.write(name, mode, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// add adds the file temp, or removes it if dist/ has the same one.
func (c *changes) add(name, temp string) error {
	same, err := sameFile(c.path(name), temp)
	if err != nil || same {
		return errors.Join(err, os.Remove(temp))
	}
	c.files = append(c.files, change{name, temp})
	return nil
}

// remove adds the removal of a function or file.
func (c *changes) remove(name string) { c.gone = append(c.gone, name) }

func (c *changes) path(name string) string { return filepath.Join(c.dist, filepath.FromSlash(name)) }

// disturb returns the changes that an app that runs from dist/ would notice:
// the files that the host watches, and a handler for another kind of machine,
// which the host would start after a crash. An app keeps a handler that it
// runs.
func (c *changes) disturb(t Target) []string {
	var names []string
	for _, f := range c.files {
		old, ok := TargetOf(c.path(f.name))
		if strings.HasSuffix(f.name, ".json") && f.name != settingsName || ok && old != t {
			names = append(names, f.name)
		}
	}
	for _, name := range c.gone {
		if name != versionFile {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// apply moves the new files to their places.
func (c *changes) apply() error {
	for _, f := range c.files {
		to := c.path(f.name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(f.temp, to); err != nil {
			return fmt.Errorf("replace dist/%s: %w; stop the app that runs from dist/", f.name, err)
		}
	}
	for _, name := range c.gone {
		if err := os.RemoveAll(c.path(name)); err != nil {
			return err
		}
	}
	if c.done != nil {
		c.done()
	}
	return nil
}

// discard removes the new files that were not applied.
func (c *changes) discard() {
	for _, f := range c.files {
		os.Remove(f.temp) // fails if it was applied
	}
}

// sameFile reports whether the file at path exists and has the bytes and the
// mode of the other one.
func sameFile(path, other string) (bool, error) {
	was, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	is, err2 := os.Stat(other)
	if err := errors.Join(err, err2); err != nil {
		return false, err
	}
	if was.Mode() != is.Mode() || was.Size() != is.Size() {
		return false, nil
	}
	return sameBytes(path, other)
}

func sameBytes(path, other string) (bool, error) {
	a, err := os.ReadFile(path)
	b, err2 := os.ReadFile(other)
	return bytes.Equal(a, b), errors.Join(err, err2)
}
