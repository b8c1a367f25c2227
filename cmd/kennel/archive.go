package main

import (
	"archive/zip"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// An entry is one file of the package.
type entry struct {
	name string // with slashes, from the root of the archive
	mode fs.FileMode
}

// entries lists what belongs into the package, in the order of the archive.
func (p project) entries() []entry {
	list := []entry{{"host.json", 0o644}, {handlerName, 0o755}}
	for _, name := range p.functions {
		list = append(list, entry{path.Join(name, "function.json"), 0o644})
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return list
}

// packageEpoch is when every file of a package was last changed, so to speak:
// the earliest time that the format knows.
var packageEpoch = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// A parcel is a written package.
type parcel struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// pack writes the entries, read from dist, into a zip at out. The same files
// give the same bytes: time stamps are fixed, and modes come from the list,
// not from the disk, so that the handler stays executable when the package is
// made on Windows.
func pack(dist, out string, entries []entry) (parcel, error) {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return parcel{}, err
	}
	hash := sha256.New()
	size := new(counter)
	err := replaceFile(out, 0o644, func(w io.Writer) error {
		archive := zip.NewWriter(io.MultiWriter(w, hash, size))
		for _, e := range entries {
			if err := addEntry(archive, dist, e); err != nil {
				return fmt.Errorf("add %s: %w", e.name, err)
			}
		}
		return archive.Close()
	})
	if err != nil {
		return parcel{}, err
	}
	return parcel{Path: out, Size: int64(*size), SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

func addEntry(archive *zip.Writer, dist string, e entry) error {
	file, err := os.Open(filepath.Join(dist, filepath.FromSlash(e.name)))
	if err != nil {
		return err
	}
	defer file.Close()
	header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: packageEpoch}
	header.SetMode(e.mode)
	w, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
