package project

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

// TestPack checks that the same files produce the same bytes, whatever their
// times and modes on the disk, and that only files of the app are packed.
func TestPack(t *testing.T) {
	p := &Project{Functions: []string{"NextOrderId", "a"}}
	var packages [2][]byte
	var made Package
	var out string
	for i := range packages {
		dist := writeTree(t, map[string]string{
			"host.json":                 "host",
			"handler":                   "binary",
			"version.txt":               "v1.0.0\nabc\n",
			"NextOrderId/function.json": "next",
			"a/function.json":           "a",
			"kennel.zip":                "older package",
			"local.settings.json":       "secret",
		})
		if err := os.Chmod(filepath.Join(dist, "host.json"), 0o600+fs.FileMode(i)*0o44); err != nil {
			t.Fatal(err)
		}
		changed := packageEpoch.AddDate(20+i, 0, 0)
		if err := os.Chtimes(filepath.Join(dist, "handler"), changed, changed); err != nil {
			t.Fatal(err)
		}
		out = filepath.Join(t.TempDir(), "out.zip")
		made = must(p.Pack(dist, out))
		packages[i] = must(os.ReadFile(out))
	}
	if !bytes.Equal(packages[0], packages[1]) {
		t.Error("two packages of the same files differ")
	}
	sum := sha256.Sum256(packages[1])
	want := Package{out, int64(len(packages[1])), hex.EncodeToString(sum[:]), "v1.0.0", []string{
		"-rw-r--r--  NextOrderId/function.json", "-rw-r--r--  a/function.json", "-rwxr-xr-x  handler", "-rw-r--r--  host.json", "-rw-r--r--  version.txt",
	}}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("package (-want +got):\n%s", diff)
	}

	type file struct {
		Name, Text string
		Mode       fs.FileMode
	}
	archive := must(zip.NewReader(bytes.NewReader(packages[0]), int64(len(packages[0]))))
	var got []file
	for _, f := range archive.File {
		got = append(got, file{f.Name, string(must(io.ReadAll(must(f.Open())))), f.Mode()})
		const unix = 3 // required for the modes
		if creator := f.CreatorVersion >> 8; creator != unix || !f.Modified.Equal(packageEpoch) {
			t.Errorf("%s was made by system %d at %s, want %d and %s", f.Name, creator, f.Modified, unix, packageEpoch)
		}
	}
	if diff := cmp.Diff([]file{
		{"NextOrderId/function.json", "next", 0o644},
		{"a/function.json", "a", 0o644},
		{"handler", "binary", 0o755},
		{"host.json", "host", 0o644},
		{"version.txt", "v1.0.0\nabc\n", 0o644},
	}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestFailedPackKeepsTheOldPackage(t *testing.T) {
	dist := writeTree(t, map[string]string{"out.zip": "older package", "host.json": "host"})
	out := filepath.Join(dist, "out.zip")
	if _, err := new(Project).Pack(dist, out); err == nil {
		t.Fatal("packed without a handler")
	}
	if got := readFile(out); got != "older package" {
		t.Errorf("got %q, want the older package, untouched", got)
	}
	if left, err := filepath.Glob(filepath.Join(dist, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
