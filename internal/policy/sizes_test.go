package policy

import (
	"go/ast"
	"strings"
	"testing"
)

// The largest sizes that can be read at once. Commands and the tools of
// developers have others.
const (
	maxFiles  = 25   // of a package, without tests
	maxLines  = 4000 // of these
	maxLength = 60   // lines of a function
	maxGiven  = 5    // parameters of a constructor
)

func TestSizes(t *testing.T) {
	for dir, all := range sources(t) {
		if dir == "cmd/kennel" || strings.HasPrefix(dir, "internal/dev/") {
			continue
		}
		files, lines := 0, 0
		for _, f := range all {
			if f.test {
				continue
			}
			files++
			lines += f.set.File(f.syntax.Pos()).LineCount() - 1
			for _, d := range f.syntax.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if n := f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1; n > maxLength {
					t.Errorf("%s: %s has %d lines, want at most %d", f.path, fn.Name.Name, n, maxLength)
				}
				if n := fn.Type.Params.NumFields(); n > maxGiven && strings.HasPrefix(strings.ToLower(fn.Name.Name), "new") {
					t.Errorf("%s: %s has %d parameters, want at most %d", f.path, fn.Name.Name, n, maxGiven)
				}
			}
		}
		if files > maxFiles || lines > maxLines {
			t.Errorf("package %s has %d files and %d lines, want at most %d and %d", dir, files, lines, maxFiles, maxLines)
		}
	}
}
