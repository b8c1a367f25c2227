package project

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

// entries lists the files of the package, in the order of the archive.
func (p *Project) entries(withVersion bool) []entry {
	list := []entry{{"host.json", 0o644}, {handlerName, 0o755}}
	if withVersion {
		list = append(list, entry{versionFile, 0o644})
	}
	for _, name := range p.Functions {
		list = append(list, entry{path.Join(name, "function.json"), 0o644})
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return list
}

// packageEpoch is the modification time of every file of a package: the
// earliest time that the format supports.
var packageEpoch = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// A Package describes a zip file that was written for Azure.
type Package struct {
	Path    string   `json:"path"`
	Size    int64    `json:"size"`
	SHA256  string   `json:"sha256"`
	Version string   `json:"version,omitempty"` // "" if not known
	Files   []string `json:"-"`                 // modes and names
}

// Pack writes the files that were staged in dist into a zip file at out. The
// same files produce the same bytes: time stamps are fixed. Modes come from a
// list and not from the disk, so that the handler is executable even if the
// package is made on Windows.
func (p *Project) Pack(dist, out string) (Package, error) {
	version, err := readVersion(dist)
	if err != nil {
		return Package{}, err
	}
	made := Package{Path: out, Version: version}
	hash := sha256.New()
	err = replaceFile(out, 0o644, func(w io.Writer) error {
		archive := zip.NewWriter(io.MultiWriter(w, hash))
		for _, e := range p.entries(version != "") {
			if err := addEntry(archive, dist, e); err != nil {
				return fmt.Errorf("add %s: %w", e.name, err)
			}
			made.Files = append(made.Files, fmt.Sprintf("%s  %s", e.mode, e.name))
		}
		return archive.Close()
	})
	if err != nil {
		return Package{}, err
	}
	info, err := os.Stat(out)
	if err != nil {
		return Package{}, err
	}
	made.Size, made.SHA256 = info.Size(), hex.EncodeToString(hash.Sum(nil))
	return made, nil
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
