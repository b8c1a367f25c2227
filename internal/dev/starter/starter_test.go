package starter

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full")
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dir, module, name, path, err string
	}{
		{"shop", "", "shop", "example.com/shop", ""},
		{"My_Shop 2", "", "my-shop-2", "example.com/my-shop-2", ""},
		{"shop", "shop.example.org/x", "shop", "shop.example.org/x", ""},
		{"42", "", "", "", "cannot be the name of a program"},
		{"ab", "", "", "", "cannot be the name of a program"},
		{strings.Repeat("a", 35), "", strings.Repeat("a", 35), "example.com/" + strings.Repeat("a", 35), ""},
		{strings.Repeat("a", 36), "", "", "", "cannot be the name of a program"},
		{"shop", "a b", "", "", "the module path is invalid"},
		{"shop", "kennel/shop", "", "", "belongs to kennel"},
		{full, "", "", "", "is not empty; name a new folder"},
	} {
		p, err := Describe(tt.dir, tt.module)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s, %s: got %v, want %q", tt.dir, tt.module, err, tt.err)
			}
			continue
		}
		if err != nil || p.Name != tt.name || p.Module != tt.path {
			t.Errorf("%s, %s: got %+v, %v", tt.dir, tt.module, p, err)
		}
	}
}

// write writes a program and returns its folder.
func write(t *testing.T, source, dir string) string {
	t.Helper()
	p, err := Describe(dir, "")
	if err == nil {
		err = p.Write(t.Context(), source)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.Dir
}

// TestWrite: a program has all that it needs, under its own name, and from its
// copy of the module the same program is written.
func TestWrite(t *testing.T) {
	source, err := FindSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := write(t, source, filepath.Join(t.TempDir(), "shop"))
	second := write(t, filepath.Join(first, filepath.FromSlash(CopyFolder)), filepath.Join(t.TempDir(), "shop"))
	names := func(dir string) (all []string) {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				all = append(all, strings.TrimPrefix(path, dir))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if one, other := names(first), names(second); !slices.Equal(one, other) {
		t.Errorf("a program from a copy has %d files, and that from the module %d", len(other), len(one))
	}
	for name, want := range map[string]string{
		"main.go":                          `Main("shop"`,
		"go.mod":                           "module example.com/shop\n",
		"azure.yaml":                       "name: shop\n",
		"infra/app.json":                   `"program": "shop"`,
		"README.md":                        "# shop\n",
		"host.json":                        "extensionBundle",
		"functions/Status/function.json":   "httpTrigger",
		".github/workflows/ci.yml":         "make test",
		"third_party/kennel/docs/embed.go": "openapi.yaml",
	} {
		if text, err := os.ReadFile(filepath.Join(second, filepath.FromSlash(name))); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, want %q in:\n%.500s", name, err, want, text)
		}
	}
	for _, name := range names(first) {
		if inside, copied := strings.CutPrefix(name, "/"+CopyFolder+"/"); copied && strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(inside, example) {
			t.Errorf("a test is copied: %s", name)
		}
	}
}

// TestUnfinishedWrite: what a kill left beside the folder does not reach the next
// program, and an error leaves nothing.
func TestUnfinishedWrite(t *testing.T) {
	source, err := FindSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	p, err := Describe(filepath.Join(parent, "shop"), "")
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := p.Write(stopped, source); err == nil {
		t.Error("an interrupted write succeeds")
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("an interrupted write left %v, %v", left, err)
	}
	stale := filepath.Join(parent, ".shop.new", "stale.go")
	if err := os.MkdirAll(filepath.Dir(stale), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir := write(t, source, p.Dir)
	if _, err := os.Stat(filepath.Join(dir, "stale.go")); err == nil {
		t.Error("a file of a killed write is in the program")
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
		t.Errorf("beside the program: %v, %v", left, err)
	}
}
