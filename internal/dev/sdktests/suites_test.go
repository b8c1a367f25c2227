package sdktests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// suites are the modules whose tests run, and their packages with live tests.
var suites = []struct {
	name, module string
	packages     []string
}{
	{"azblob", "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob",
		[]string{"azblob", "appendblob", "blob", "blockblob", "container", "lease", "pageblob", "sas", "service"}},
	{"azqueue", "github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2", []string{"azqueue"}},
	{"aztables", "github.com/Azure/azure-sdk-for-go/sdk/data/aztables", []string{"aztables"}},
}

// function is a test function, or a method of a test suite.
type function struct {
	suite, pkg string
	name       string // "TestX" or "Test/TestY"
	binary     string
	dir        string // of the source, which the test may read
	waits      bool   // calls a Sleep
}

// build copies the modules to dir, compiles their tests and returns the
// functions. All modules share one workspace with this one, so that they use the
// versions of its go.mod and its compiled packages.
func build(ctx context.Context, dir string) ([]function, error) {
	root, err := output(ctx, ".", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return nil, err
	}
	use := []string{"work", "init", root}
	compile := []string{"test", "-c", "-vet=off", "-ldflags=-w", "-o", filepath.Join(dir, "bin") + string(filepath.Separator)}
	for _, suite := range suites {
		if _, err := output(ctx, ".", "go", "mod", "download", suite.module); err != nil {
			return nil, err
		}
		source, err := output(ctx, ".", "go", "list", "-m", "-f", "{{.Dir}}", suite.module)
		if err != nil {
			return nil, err
		}
		if err := copyTree(filepath.Join(dir, suite.name), source); err != nil {
			return nil, err
		}
		use = append(use, "./"+suite.name)
		for _, pkg := range suite.packages {
			compile = append(compile, "./"+path.Join(suite.name, folder(suite.name, pkg)))
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "go.work")); err != nil { // else kept from an earlier run
		if _, err := output(ctx, dir, "go", use...); err != nil {
			return nil, err
		}
		if _, err := output(ctx, dir, "go", compile...); err != nil {
			return nil, err
		}
	}
	var all []function
	for _, suite := range suites {
		for _, pkg := range suite.packages {
			source := filepath.Join(dir, suite.name, folder(suite.name, pkg))
			list, err := functions(source)
			if err != nil {
				return nil, err
			}
			for _, f := range list {
				f.suite, f.pkg, f.dir, f.binary = suite.name, pkg, source, filepath.Join(dir, "bin", pkg+".test")
				all = append(all, f)
			}
		}
	}
	return all, nil
}

// folder returns where a package lies in its module.
func folder(suite, pkg string) string {
	if pkg == suite {
		return "."
	}
	return pkg
}

// output runs a program and returns what it prints.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-buildvcs=false")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// copyTree copies a folder of the module cache, whose files are read-only.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(file, from))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := os.ReadFile(file)
		return errors.Join(err, os.WriteFile(target, data, 0o644))
	})
}

var testName = regexp.MustCompile(`^Test([^a-z]|$)`)

// functions finds the test functions of a folder and, for each one that runs
// suites of testify, their methods instead.
func functions(dir string) ([]function, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	methods := make(map[string][]function) // by type
	runs := make(map[string][]string)      // the types by test function
	var found []function
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !testName.MatchString(fn.Name.Name) || fn.Name.Name == "TestMain" {
				continue
			}
			f := function{name: fn.Name.Name}
			var types []string
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if s, ok := call.Fun.(*ast.SelectorExpr); ok {
						f.waits = f.waits || s.Sel.Name == "Sleep"
						if x, ok := s.X.(*ast.Ident); ok && x.Name == "suite" && s.Sel.Name == "Run" {
							types = append(types, typeName(call.Args[1]))
						}
					}
				}
				return true
			})
			switch {
			case fn.Recv != nil:
				t := typeName(fn.Recv.List[0].Type)
				methods[t] = append(methods[t], f)
			case types != nil:
				runs[f.name] = types
			default:
				found = append(found, f)
			}
		}
	}
	for test, types := range runs {
		slices.Sort(types)
		for _, t := range slices.Compact(types) {
			for _, f := range methods[t] {
				f.name = test + "/" + f.name
				found = append(found, f)
			}
		}
	}
	slices.SortFunc(found, func(a, b function) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(found, func(a, b function) bool { return a.name == b.name }), nil
}

// typeName returns T for T, *T and &T{}.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.UnaryExpr:
		return typeName(e.X)
	case *ast.CompositeLit:
		return typeName(e.Type)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
