package project

import (
	"errors"
	"testing"
)

// TestProgramPackage: ./handler is the program if it exists, else the root, and
// another package is named.
func TestProgramPackage(t *testing.T) {
	const program, library = "package main\n\nfunc main() {}\n", "package shop\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		given string
		want  string
		err   string
	}{
		{"the handler", map[string]string{"main.go": program, "handler/main.go": program}, "", "./handler", ""},
		{"the root", map[string]string{"main.go": program, "main_test.go": "package main_test\n"}, "", ".", ""},
		{"a named one", map[string]string{"shop.go": library, "cmd/shop/main.go": program}, "./cmd/shop/", "./cmd/shop", ""},
		{"a file named handler", map[string]string{"main.go": program, "handler": ""}, "", ".", ""},
		{"a library at the root", map[string]string{"shop.go": library}, "", "", "holds the package shop, which is not a program; name the package of the program"},
		{"what does not parse", map[string]string{"main.go": "packag"}, "", ".", ""},
		{"outside", map[string]string{"main.go": program}, "../other", "", `the package "../other" is not below`},
		{"absolute", map[string]string{"main.go": program}, "/other", "", `the package "/other" is not below`},
	} {
		got, err := ProgramPackage(writeTree(t, tt.files), tt.given)
		expectError(t, tt.name, err, tt.err)
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, files := range []map[string]string{nil, {"shop_test.go": "package shop\n"}} {
		if _, err := ProgramPackage(writeTree(t, files), ""); !errors.Is(err, ErrNoSource) {
			t.Errorf("%v: got %v, want ErrNoSource", files, err)
		}
	}
	if _, err := ProgramPackage(writeTree(t, nil), "./cmd"); !errors.Is(err, ErrNoSource) {
		t.Errorf("a missing folder: got %v, want ErrNoSource", err)
	}
}
