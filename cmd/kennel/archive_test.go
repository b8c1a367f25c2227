package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPackLayoutAndModes(t *testing.T) {
	dist := writeTree(t, map[string]string{
		"host.json":                 "host",
		"handler":                   "binary",
		"NextOrderId/function.json": "next",
		"a/function.json":           "a",
		"kennel.zip":                "older package",
		"local.settings.json":       "secret",
	})
	p := project{functions: []string{"NextOrderId", "a"}}
	out := filepath.Join(t.TempDir(), "new", "folder", "out.zip")
	made, err := pack(dist, out, p.entries())
	if err != nil {
		t.Fatal(err)
	}

	type file struct {
		Name, Text string
		Mode       fs.FileMode
	}
	archive, err := zip.OpenReader(out)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var got []file
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, file{f.Name, string(text), f.Mode()})
		if !f.Modified.Equal(packageEpoch) {
			t.Errorf("%s was changed at %s, want %s", f.Name, f.Modified, packageEpoch)
		}
		const unix = 3 // what the modes are worth depends on it
		if creator := f.CreatorVersion >> 8; creator != unix {
			t.Errorf("%s was made by system %d, want %d: its mode would not count", f.Name, creator, unix)
		}
	}
	want := []file{
		{"NextOrderId/function.json", "next", 0o644},
		{"a/function.json", "a", 0o644},
		{"handler", "binary", 0o755},
		{"host.json", "host", 0o644},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if diff := cmp.Diff(parcel{out, int64(len(text)), hex.EncodeToString(sum[:])}, made); diff != "" {
		t.Errorf("parcel (-want +got):\n%s", diff)
	}
}

func TestPackIsReproducible(t *testing.T) {
	files := map[string]string{"host.json": "host", "handler": "binary", "One/function.json": "one"}
	p := project{functions: []string{"One"}}
	var packages [2][]byte
	for i := range packages {
		dist := writeTree(t, files)
		// Neither the time nor the mode on the disk counts.
		if err := os.Chmod(filepath.Join(dist, "host.json"), 0o600+fs.FileMode(i)*0o44); err != nil {
			t.Fatal(err)
		}
		changed := packageEpoch.AddDate(20+i, 0, 0)
		if err := os.Chtimes(filepath.Join(dist, "handler"), changed, changed); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dist, "out.zip")
		if _, err := pack(dist, out, p.entries()); err != nil {
			t.Fatal(err)
		}
		var err error
		if packages[i], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(packages[0], packages[1]) {
		t.Error("two packages of the same files differ")
	}
}

func TestPackThatFailsLeavesTheOldOne(t *testing.T) {
	dist := writeTree(t, map[string]string{"out.zip": "older package", "host.json": "host"})
	out := filepath.Join(dist, "out.zip")
	if _, err := pack(dist, out, project{}.entries()); err == nil {
		t.Fatal("packed without a handler")
	}
	text, err := os.ReadFile(out)
	if err != nil || string(text) != "older package" {
		t.Errorf("got %q, %v; want the older package, untouched", text, err)
	}
	left, err := filepath.Glob(filepath.Join(dist, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
