package bicep

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// evaluation evaluates one file. A module has an evaluation of its own.
type evaluation struct {
	source *Source
	file   *file
	path   string // of the file
	env    map[string]string
	known  map[string]*known
	all    *Deployment
	before set // dependencies of a module
	deps   set // of the expression that is evaluated now
	locals []local
}

// known is the value of a name. It is nil while it is evaluated.
type known struct {
	value any
	deps  set
	done  bool
}

type local struct {
	name  string
	value any
}

// later is a value that is not known before the deployment.
type later string

// module is the value of a module.
type module struct {
	outputs map[string]any
	after   set // its resources
}

func fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func (s *Source) evaluate(name string, params map[string]any, before set, all *Deployment) (*evaluation, error) {
	f, err := s.file(name)
	if err != nil {
		return nil, err
	}
	e := &evaluation{source: s, file: f, path: name, known: make(map[string]*known), all: all, before: before, deps: make(set)}
	for given := range params {
		if d := f.declared[given]; d == nil || d.kind != "param" {
			return nil, fmt.Errorf("%s has no parameter %s", name, given)
		}
	}
	for _, key := range f.order {
		d := f.declared[key]
		if d.kind != "param" {
			continue
		}
		value, given := params[d.name]
		if !given {
			if d.value == nil {
				return nil, fmt.Errorf("%s needs the parameter %s", name, d.name)
			}
			value = e.value(d.value)
		}
		if err := e.check(d, value); err != nil {
			return nil, fmt.Errorf("%s: parameter %s: %w", name, d.name, err)
		}
		e.known[key] = &known{value: value, done: true}
	}
	for _, key := range f.order {
		if d := f.declared[key]; d.kind != "output" && d.value != nil {
			e.lookup(key)
		}
	}
	return e, nil
}

func (e *evaluation) outputs() map[string]any {
	outputs := make(map[string]any)
	for _, key := range e.file.order {
		if d := e.file.declared[key]; d.kind == "output" {
			outputs[d.name] = e.value(d.value)
		}
	}
	return outputs
}

// check checks the type and the decorators of a parameter.
func (e *evaluation) check(d *declaration, value any) error {
	if _, ok := value.(later); ok {
		return nil
	}
	kinds := map[string]reflect.Kind{"string": reflect.String, "int": reflect.Int, "bool": reflect.Bool, "array": reflect.Slice, "object": reflect.Map}
	if kind, ok := kinds[d.form]; !ok || reflect.ValueOf(value).Kind() != kind {
		return fmt.Errorf("%v is no %s", value, d.form)
	}
	size := 0
	switch v := value.(type) {
	case int:
		size = v
	case string:
		size = len(v)
	case []any:
		size = len(v)
	}
	for decorator, args := range d.decorators {
		if len(args) != 1 {
			return fmt.Errorf("@%s needs one argument", decorator)
		}
		switch arg := e.value(args[0]); decorator {
		case "description":
		case "allowed":
			if !slices.ContainsFunc(arg.([]any), func(v any) bool { return v == value }) {
				return fmt.Errorf("%v is not allowed", value)
			}
		case "minValue", "minLength":
			if size < arg.(int) {
				return fmt.Errorf("%v is below %v", value, arg)
			}
		case "maxValue", "maxLength":
			if size > arg.(int) {
				return fmt.Errorf("%v is above %v", value, arg)
			}
		default:
			return fmt.Errorf("@%s is unknown", decorator)
		}
	}
	return nil
}

// lookup returns the value of a declared name.
func (e *evaluation) lookup(key string) any {
	for _, l := range slices.Backward(e.locals) {
		if l.name == key {
			return l.value
		}
	}
	if k := e.known[key]; k != nil {
		if !k.done {
			fail("%s: %s depends on itself", e.path, key)
		}
		maps.Copy(e.deps, k.deps)
		return k.value
	}
	d := e.file.declared[key]
	if d == nil || d.value == nil {
		fail("%s: there is no %s", e.path, key)
	}
	k := &known{}
	e.known[key] = k
	outer, locals := e.deps, e.locals
	e.deps, e.locals = make(set), nil
	switch d.kind {
	case "resource":
		k.value, k.deps = e.each(d.value, func(body any) any { return e.resource(d, body) }), make(set)
		for _, r := range flat(k.value) {
			k.deps[r.(*Resource)] = true
		}
	case "module":
		k.value = e.each(d.value, func(body any) any { return e.module(d, body) })
		k.deps = k.value.(*module).after
	default:
		k.value = e.value(d.value)
		k.deps = e.deps
	}
	e.deps, e.locals = outer, locals
	k.done = true
	maps.Copy(e.deps, k.deps)
	return k.value
}

func flat(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

// each evaluates the bodies of a declaration. A body is nil if its condition is
// false.
func (e *evaluation) each(x any, one func(body any) any) any {
	switch x := x.(type) {
	case loop:
		return e.loop(x, func(body any) any { return e.each(body, one) })
	case only:
		if !e.truth(x.condition) {
			return one(absent{x.body})
		}
		return one(x.body)
	}
	return one(x)
}

// absent is the body of a declaration whose condition is false.
type absent struct{ body any }

// resource evaluates one resource.
func (e *evaluation) resource(d *declaration, body any) *Resource {
	outer := e.deps
	e.deps = maps.Clone(outer)
	defer func() { e.deps = outer }()
	r := &Resource{Symbol: d.name, Body: make(map[string]any), absent: d.existing}
	r.Type, r.Version, _ = strings.Cut(d.form, "@")
	if a, ok := body.(absent); ok {
		r.absent, body = true, a.body
	}
	o, ok := body.(object)
	if !ok {
		fail("%s: the body of %s is no object", e.path, d.name)
	}
	for _, p := range o {
		key := e.text(p.key)
		switch key {
		case "name":
			name, ok := e.value(p.value).(string)
			if !ok || strings.ContainsAny(name, "<>") {
				fail("%s: the name of %s is not known before the deployment", e.path, d.name)
			}
			r.Name = name
		case "parent":
			r.Parent = e.symbol(p.value)
		case "scope":
			r.Scope = e.symbol(p.value)
		case "dependsOn":
			e.value(p.value)
		default:
			if _, twice := r.Body[key]; twice {
				fail("%s: %s has %s twice", e.path, d.name, key)
			}
			if !r.absent {
				r.Body[key] = shown(e.value(p.value))
			}
		}
	}
	if r.Name == "" {
		fail("%s: %s has no name", e.path, d.name)
	}
	if r.after = e.deps; e.before != nil {
		maps.Copy(r.after, e.before)
	}
	if !r.absent {
		e.all.Resources = append(e.all.Resources, r)
	}
	return r
}

func (e *evaluation) symbol(x any) *Resource {
	r, ok := e.value(x).(*Resource)
	if !ok {
		fail("%s: a parent or scope is no resource", e.path)
	}
	return r
}

// module evaluates one module.
func (e *evaluation) module(d *declaration, body any) *module {
	if _, ok := body.(absent); ok {
		return &module{after: make(set)}
	}
	params := make(map[string]any)
	for _, p := range body.(object) {
		switch key := e.text(p.key); key {
		case "params":
			for _, param := range p.value.(object) {
				params[e.text(param.key)] = e.value(param.value)
			}
		case "name", "dependsOn":
			e.value(p.value)
		default:
			fail("%s: module %s has %s", e.path, d.name, key)
		}
	}
	began := len(e.all.Resources)
	of, err := e.source.evaluate(d.form, params, e.deps, e.all)
	if err != nil {
		panic(failure{err})
	}
	m := &module{outputs: of.outputs(), after: maps.Clone(e.deps)}
	for _, r := range e.all.Resources[began:] {
		m.after[r] = true
	}
	return m
}

// loop evaluates the body of a loop for each item.
func (e *evaluation) loop(l loop, one func(body any) any) []any {
	in, ok := e.value(l.in).([]any)
	if !ok {
		fail("%s: a loop is not over a list that is known before the deployment", e.path)
	}
	results := []any{}
	locals := e.locals
	for i, item := range in {
		e.locals = append(slices.Clone(locals), local{l.item, item})
		if l.index != "" {
			e.locals = append(e.locals, local{l.index, i})
		}
		results = append(results, one(l.body))
	}
	e.locals = locals
	return results
}

func (e *evaluation) truth(x any) bool {
	b, ok := e.value(x).(bool)
	if !ok {
		fail("%s: a condition is not known before the deployment", e.path)
	}
	return b
}

func (e *evaluation) text(x any) string {
	switch v := e.value(x).(type) {
	case string:
		return v
	case later:
		return "<" + string(v) + ">"
	case int, bool:
		return fmt.Sprint(v)
	}
	fail("%s: a part of a text is no text", e.path)
	return ""
}

// shown replaces the unknown parts of a value by their texts.
func shown(v any) any {
	switch v := v.(type) {
	case later:
		return "<" + string(v) + ">"
	case *Resource:
		return v.ID()
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = shown(v[i])
		}
		return list
	case map[string]any:
		o := make(map[string]any, len(v))
		for key := range v {
			if v[key] != nil { // Azure ignores it
				o[key] = shown(v[key])
			}
		}
		return o
	}
	return v
}
