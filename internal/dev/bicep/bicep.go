// Package bicep evaluates the files in infra/ for tests: which resources a
// deployment with certain parameters would have, with names and properties.
//
// It is not a compiler. It knows the part of the language and the functions
// that the files use, and no types of resources. A value that only Azure knows,
// such as the client id of an identity, is a text in angle brackets that names
// it: <identity.properties.clientId>.
package bicep

import (
	"fmt"
	"slices"
	"strings"
)

// A Resource is one resource of a deployment.
type Resource struct {
	Symbol  string // of its declaration
	Type    string // without a version
	Version string
	Name    string         // its last segment
	Body    map[string]any // without name, parent, scope and dependsOn
	Parent  *Resource
	Scope   *Resource // of an extension, such as a role assignment

	absent bool // its condition is false
	after  set  // resources that are deployed before
}

// ID returns the type and the full name.
func (r *Resource) ID() string {
	if r.Scope != nil {
		return r.Scope.ID() + "/" + r.Type + "/" + r.Name
	}
	return r.Type + "/" + r.fullName()
}

func (r *Resource) fullName() string {
	if r.Parent != nil {
		return r.Parent.fullName() + "/" + r.Name
	}
	return r.Name
}

// After reports whether the resource is deployed after another one, because it
// or something before it depends on that.
func (r *Resource) After(other *Resource) bool {
	seen := make(set)
	var reaches func(*Resource) bool
	reaches = func(r *Resource) bool {
		if seen[r] {
			return false
		}
		seen[r] = true
		for before := range r.after {
			if before == other || reaches(before) {
				return true
			}
		}
		return false
	}
	return reaches(r)
}

// At returns the value at a path of members, such as "properties.sku.name"; nil
// if there is none, or no resource. The part of a path in a list is its index.
func (r *Resource) At(path string) any {
	if r == nil {
		return nil
	}
	var v any = r.Body
	for part := range strings.SplitSeq(path, ".") {
		switch of := v.(type) {
		case map[string]any:
			v = of[part]
		case []any:
			i := 0
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(of) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

type set map[*Resource]bool

// A Deployment has the resources that a file would deploy with certain
// parameters.
type Deployment struct {
	Resources []*Resource
	Outputs   map[string]any
}

// Of returns the resources of a type.
func (d *Deployment) Of(kind string) (found []*Resource) {
	for _, r := range d.Resources {
		if r.Type == kind {
			found = append(found, r)
		}
	}
	return found
}

// Names returns the names of the resources of a type, sorted.
func (d *Deployment) Names(kind string) (names []string) {
	for _, r := range d.Of(kind) {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// A Param is a parameter of a file.
type Param struct{ Name, Description string }

// Source is a set of files by name, parsed when needed.
type Source struct {
	texts  map[string]string
	parsed map[string]*file
}

// NewSource returns the files with these texts.
func NewSource(texts map[string]string) *Source {
	return &Source{texts, make(map[string]*file)}
}

func (s *Source) file(name string) (*file, error) {
	if f := s.parsed[name]; f != nil {
		return f, nil
	}
	text, ok := s.texts[name]
	if !ok {
		return nil, fmt.Errorf("there is no file %s", name)
	}
	f, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.parsed[name] = f
	return f, nil
}

// Params returns the parameters of a file, in their order.
func (s *Source) Params(name string) (params []Param, err error) {
	f, err := s.file(name)
	if err != nil {
		return nil, err
	}
	for _, key := range f.order {
		d := f.declared[key]
		if d.kind != "param" {
			continue
		}
		p := Param{Name: d.name}
		if x := d.decorators["description"]; len(x) == 1 {
			if parts, ok := x[0].(text); ok && len(parts) == 1 {
				p.Description, _ = parts[0].(string)
			}
		}
		params = append(params, p)
	}
	return params, nil
}

// Values returns the values of a file of parameters, in an environment.
func (s *Source) Values(name string, env map[string]string) (values map[string]any, err error) {
	defer catch(&err)
	f, err := s.file(name)
	if err != nil {
		return nil, err
	}
	values = make(map[string]any)
	e := &evaluation{file: f, path: name, env: env, known: make(map[string]*known)}
	for _, key := range f.order {
		if d := f.declared[key]; d.kind == "param" {
			values[d.name] = e.value(d.value)
		}
	}
	return values, nil
}

// Deploy evaluates a file with parameters.
func (s *Source) Deploy(name string, params map[string]any) (d *Deployment, err error) {
	defer catch(&err)
	d = &Deployment{Outputs: make(map[string]any)}
	e, err := s.evaluate(name, params, nil, d)
	if err != nil {
		return nil, err
	}
	for key, output := range e.outputs() {
		d.Outputs[key] = shown(output)
	}
	seen := make(map[string]bool)
	for _, r := range d.Resources {
		if seen[r.ID()] {
			return nil, fmt.Errorf("%s is declared twice", r.ID())
		}
		seen[r.ID()] = true
	}
	return d, nil
}
