package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module example.org/m\n\ngo 1.26\n",
		"a/a.go":            "package a\n\ntype Door struct{}\n\nfunc A(d Door) error { return shut(d) }\n",
		"a/shut_unix.go":    "//go:build unix\n\npackage a\n\nfunc shut(Door) error { return nil }\n",
		"a/a_darwin.go":     "package a\n\nvar _ int = A\n",
		"a/a_amd64_test.go": "package a\n\nvar _ = missing\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for system, want := range map[string]string{
		"linux/arm64":   "",
		"windows/arm64": "a.go:5:31: undefined: shut",
		"darwin/arm64":  "a_darwin.go:3:13: cannot use A",
		"linux/amd64":   "a_amd64_test.go:3:9: undefined: missing",
	} {
		problems, err := check(root, system)
		if got := strings.Join(problems, "\n"); err != nil || !strings.Contains(got, want) || (want == "") != (got == "") || len(problems) > 1 {
			t.Errorf("%s: %q, %v, want %q", system, got, err, want)
		}
	}
	if _, err := check(root, "plan10/amd64"); err == nil {
		t.Error("there is no plan10")
	}
}
