package policy

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"kennel/internal/version"
)

// exported writes the exported names of packages, one a line and without the
// names of parameters, so that two versions can be compared. An alias of a type
// of an internal package counts as a type of its own: it is written with the
// members of the internal type, and named where that type is used.
type exported struct {
	aliases []alias
	pkg     *types.Package // the one that is written
	inside  func(*types.Package) bool
	foreign map[string][]string // types of internal packages in lines, by the name of the line
	lines   map[string]string   // by name
	name    string              // of the line that is written
}

// alias is a name for a type of an internal package.
type alias struct {
	of   types.Type
	name *types.TypeName
}

// find records the aliases of a package.
func (e *exported) find(pkg *types.Package) {
	for _, name := range pkg.Scope().Names() {
		if t, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && t.Exported() && t.IsAlias() {
			if of, ok := types.Unalias(t.Type()).(*types.Named); ok && e.inside(of.Obj().Pkg()) {
				e.aliases = append(e.aliases, alias{of, t})
			}
		}
	}
}

// write returns the exported names of a package and their lines.
func (e *exported) write(pkg *types.Package) map[string]string {
	e.pkg, e.lines, e.foreign = pkg, make(map[string]string), make(map[string][]string)
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		e.name = name
		switch o := o.(type) {
		case *types.Const:
			e.line(name, "const %s %s = %s", name, e.text(o.Type()), o.Val().ExactString())
		case *types.Var:
			e.line(name, "var %s %s", name, e.text(o.Type()))
		case *types.Func:
			e.line(name, "func %s%s", name, e.signature(o.Signature()))
		case *types.TypeName:
			e.declared(o)
		}
	}
	return e.lines
}

func (e *exported) line(name, format string, values ...any) {
	e.lines[name] = fmt.Sprintf(format, values...)
}

// declared writes a type and its members.
func (e *exported) declared(o *types.TypeName) {
	name := o.Name()
	t := types.Unalias(o.Type())
	of, parameters := "", ""
	if named, ok := t.(*types.Named); ok {
		parameters = e.parameters(named.TypeParams())
		if o.IsAlias() && named.TypeArgs() != nil {
			parameters = ""
		}
		if o.IsAlias() && !e.inside(named.Obj().Pkg()) {
			e.line(name, "type %s = %s", name, e.text(t))
			return // its members are another module's
		}
	} else if o.IsAlias() {
		e.line(name, "type %s = %s", name, e.text(t))
		return
	}
	switch under := t.Underlying().(type) {
	case *types.Struct:
		of = "struct"
		e.fields(name, under)
	case *types.Interface:
		of = "interface"
		for m := range under.Methods() {
			e.method(name, m, "")
		}
	default:
		of = e.text(under)
	}
	e.name = name
	if o.IsAlias() {
		of = "= " + of
	}
	e.line(name, "type %s%s %s", name, parameters, of)
	if !types.IsInterface(t) {
		values := types.NewMethodSet(t)
		for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
			star := "*"
			if values.Lookup(m.Obj().Pkg(), m.Obj().Name()) != nil {
				star = ""
			}
			e.method(name, m.Obj().(*types.Func), star)
		}
	}
}

func (e *exported) method(of string, m *types.Func, star string) {
	e.name = of + "." + m.Name()
	if m.Exported() {
		e.line(e.name, "method (%s%s) %s%s", star, of, m.Name(), e.signature(m.Signature()))
	}
}

// fields writes the fields of a struct, and those of what it embeds under names
// that callers do not have.
func (e *exported) fields(of string, s *types.Struct) {
	for i := range s.NumFields() {
		f := s.Field(i)
		e.name = of + "." + f.Name()
		switch under, isStruct := f.Type().Underlying().(*types.Struct); {
		case f.Exported():
			kind := "field"
			if f.Embedded() {
				kind = "embedded"
			}
			tag := ""
			if t := s.Tag(i); t != "" {
				tag = " `" + t + "`"
			}
			e.line(e.name, "%s %s.%s %s%s", kind, of, f.Name(), e.text(f.Type()), tag)
		case f.Embedded() && isStruct:
			e.fields(of, under)
		}
	}
}

func (e *exported) parameters(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var all []string
	for p := range list.TypeParams() {
		all = append(all, p.Obj().Name()+" "+e.text(p.Constraint()))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func (e *exported) signature(s *types.Signature) string {
	return e.parameters(s.TypeParams()) + "(" + e.tuple(s.Params(), s.Variadic()) + ")" + e.results(s.Results())
}

func (e *exported) results(r *types.Tuple) string {
	switch r.Len() {
	case 0:
		return ""
	case 1:
		return " " + e.text(r.At(0).Type())
	}
	return " (" + e.tuple(r, false) + ")"
}

func (e *exported) tuple(t *types.Tuple, variadic bool) string {
	var all []string
	for i := range t.Len() {
		text := e.text(t.At(i).Type())
		if variadic && i == t.Len()-1 {
			text = "..." + strings.TrimPrefix(text, "[]")
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// text returns a type as a caller of the package writes it.
func (e *exported) text(t types.Type) string {
	var found *types.TypeName
	for _, a := range e.aliases {
		if types.Identical(types.Unalias(t), a.of) && (found == nil || a.name.Pkg() == e.pkg) { // the package's own one first
			found = a.name
		}
	}
	if found != nil {
		return e.qualified(found)
	}
	switch t := t.(type) {
	case *types.Alias:
		return e.named(t.Obj(), t.TypeArgs())
	case *types.Named:
		return e.named(t.Obj(), t.TypeArgs())
	case *types.Pointer:
		return "*" + e.text(t.Elem())
	case *types.Slice:
		return "[]" + e.text(t.Elem())
	case *types.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), e.text(t.Elem()))
	case *types.Map:
		return "map[" + e.text(t.Key()) + "]" + e.text(t.Elem())
	case *types.Chan:
		return map[types.ChanDir]string{types.SendRecv: "chan ", types.SendOnly: "chan<- ", types.RecvOnly: "<-chan "}[t.Dir()] + e.text(t.Elem())
	case *types.Signature:
		return "func" + e.signature(t)
	case *types.TypeParam:
		return t.Obj().Name()
	}
	return types.TypeString(t, func(p *types.Package) string { // literals of structs and interfaces, and basic types
		if p == e.pkg {
			return ""
		}
		return p.Name()
	})
}

func (e *exported) named(o *types.TypeName, args *types.TypeList) string {
	text := e.qualified(o)
	if args.Len() > 0 {
		var all []string
		for t := range args.Types() {
			all = append(all, e.text(t))
		}
		text += "[" + strings.Join(all, ", ") + "]"
	}
	return text
}

func (e *exported) qualified(o *types.TypeName) string {
	switch p := o.Pkg(); {
	case p == nil || p == e.pkg:
		return o.Name()
	default:
		path := strings.TrimPrefix(p.Path(), version.Module+"/")
		if hidden := e.inside(p) || slices.Contains([]string{"work", "relay"}, path); hidden {
			e.foreign[e.name] = append(e.foreign[e.name], path+"."+o.Name())
		}
		return p.Name() + "." + o.Name()
	}
}
