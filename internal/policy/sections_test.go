package policy

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// TestSectionNames: the sections of reports, which many packages declare, have
// different columns. Of two with one name a process would report only one.
func TestSectionNames(t *testing.T) {
	constructors := []string{"List", "One", "ByName", "newSection"}
	valid := regexp.MustCompile(`^[a-z][A-Za-z]*$`)
	declared := map[string]string{"format": "the row itself", "report": "the row itself", "problems": "the row itself"}
	for dir, files := range sources(t) {
		for _, f := range files {
			if f.test {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) < 2 {
					return true
				}
				called := call.Fun
				if typed, ok := called.(*ast.IndexExpr); ok {
					called = typed.X
				}
				var name string
				switch fn := called.(type) {
				case *ast.Ident:
					if dir == "internal/instances" {
						name = fn.Name
					}
				case *ast.SelectorExpr:
					if pkg, ok := fn.X.(*ast.Ident); ok && pkg.Name == "instances" {
						name = fn.Sel.Name
					}
				}
				if !slices.Contains(constructors, name) {
					return true
				}
				literal, ok := call.Args[0].(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true // within a constructor, and of problems
				}
				at := f.set.Position(call.Pos()).String()
				column, err := strconv.Unquote(literal.Value)
				if err != nil || !valid.MatchString(column) {
					t.Errorf("%s: the section %s: use lower-case letters, and capitals only within", at, literal.Value)
				}
				if other := declared[column]; other != "" {
					t.Errorf("%s: the column %s belongs to %s", at, column, other)
				}
				declared[column] = at
				return true
			})
		}
	}
	if len(declared) < 3+12 {
		t.Errorf("found only the columns %v", declared)
	}
}
