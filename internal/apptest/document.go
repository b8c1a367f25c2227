// Package apptest is what the tests of several packages of the app share: the
// check that each call is as docs/openapi.yaml describes it, and stores and
// values for them.
package apptest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"kennel/docs"
)

// document is docs/openapi.yaml with each reference replaced by its target,
// except references to schemas. Reading it fails on a member that is not
// declared here, so that a misspelt one is found.
type document struct {
	OpenAPI  string
	Info     struct{ Title, Summary, Version, Description, License any }
	Servers  []any
	Security []map[string][]string
	Tags     []struct{ Name, Description string }
	Paths    map[string]struct {
		Parameters             []*parameter
		Get, Put, Post, Delete *operation
	}
	Components struct {
		Responses                                                              map[string]*response
		Schemas, Parameters, Headers, Examples, RequestBodies, SecuritySchemes map[string]any
	}

	Operations map[string]*operation // by method and address: "GET /api/gates/{gate}"
	anyError   *media                // the schema of every error
	Refs       map[string]bool       // all references
}

type operation struct {
	OperationID, Summary, Description string
	Tags                              []string
	Security                          []map[string][]string
	Parameters                        []*parameter // also those of its path
	RequestBody                       *struct {
		Description string
		Required    bool
		Content     map[string]*media
	}
	Responses map[string]*response
}

type response struct {
	Description string
	Headers     map[string]*parameter
	Content     map[string]*media
}

// Codes returns the error codes of an answer: those of its examples.
func (r *response) Codes() (codes []string) {
	for _, content := range r.Content {
		for _, value := range content.Values() {
			if code, ok := Member(value, "error", "code").(string); ok {
				codes = append(codes, code)
			}
		}
	}
	return codes
}

// Member returns a member of a member of an object, nil if there is none.
func Member(value any, names ...string) any {
	for _, name := range names {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

// parameter is a parameter of a request or a header of an answer.
type parameter struct {
	Name, In, Description string
	Required              bool
	media
}

// media is a kind of values: their schema and examples.
type media struct {
	Schema   any
	Example  any
	Examples map[string]struct{ Value any }

	Place    string // for messages
	Compiled *jsonschema.Schema
}

// Values returns all examples.
func (m *media) Values() (values []any) {
	if m.Example != nil {
		values = append(values, m.Example)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Examples)) {
		values = append(values, m.Examples[name].Value)
	}
	return values
}

// check validates a text from an address or a header.
func (p *parameter) check(text string) error {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil && p.Compiled.Validate(json.Number(text)) == nil {
		return nil
	}
	return p.Compiled.Validate(text)
}

var readDocument = sync.OnceValues(func() (*document, error) { return parseDocument(docs.OpenAPI) })

func Described(t testing.TB) *document {
	t.Helper()
	d, err := readDocument()
	if err != nil {
		t.Fatalf("docs/openapi.yaml: %v", err)
	}
	return d
}

func parseDocument(text []byte) (*document, error) {
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	d := &document{
		Operations: make(map[string]*operation),
		anyError:   &media{Schema: map[string]any{"$ref": "#/components/schemas/Error"}},
		Refs:       make(map[string]bool),
	}
	resolved, err := d.resolve(tree, tree)
	if err != nil {
		return nil, err
	}
	if text, err = json.Marshal(resolved); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	if err := decoder.Decode(d); err != nil {
		return nil, err
	}
	for path, item := range d.Paths {
		for method, op := range map[string]*operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete} {
			if op != nil {
				op.Parameters = append(op.Parameters, item.Parameters...)
				d.Operations[method+" /api"+path] = op
			}
		}
	}
	return d, d.compile()
}

// resolve returns v with its references replaced.
func (d *document) resolve(v any, root map[string]any) (_ any, err error) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			if v[i], err = d.resolve(v[i], root); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		ref, _ := v["$ref"].(string)
		d.Refs[ref] = true
		if ref != "" && !strings.HasPrefix(ref, "#/components/schemas/") {
			target := Member(root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			if target == nil {
				return nil, fmt.Errorf("%s does not exist", ref)
			}
			return d.resolve(target, root)
		}
		for key := range v {
			if v[key], err = d.resolve(v[key], root); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// Media returns all that has a schema, in no order.
func (d *document) Media() (all []*media) {
	add := func(m *media, place ...string) {
		m.Place = strings.Join(place, " ")
		all = append(all, m)
	}
	for pattern, op := range d.Operations {
		for _, p := range op.Parameters {
			add(&p.media, pattern, p.Name)
		}
		if op.RequestBody != nil {
			for kind, m := range op.RequestBody.Content {
				add(m, pattern, kind)
			}
		}
		for status, r := range op.Responses {
			for name, h := range r.Headers {
				add(&h.media, pattern, status, name)
			}
			for kind, m := range r.Content {
				add(m, pattern, status, kind)
			}
		}
	}
	return all
}

// compile compiles all schemas.
func (d *document) compile() error {
	for name, schema := range d.Components.Schemas {
		if err := tightenMembers(schema); err != nil {
			return fmt.Errorf("schema %s: %w", name, err)
		}
	}
	var schemas []any
	index := make(map[string]int) // into schemas, by text: most are used often
	all := append(d.Media(), d.anyError)
	for _, m := range all {
		if err := tighten(m.Schema); err != nil {
			return fmt.Errorf("%s: %w", m.Place, err)
		}
		text := fmt.Sprintf("%#v", m.Schema)
		if _, ok := index[text]; !ok {
			index[text] = len(schemas)
			schemas = append(schemas, m.Schema)
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	root := map[string]any{"components": map[string]any{"schemas": d.Components.Schemas}, "used": schemas}
	if err := compiler.AddResource("openapi.json", root); err != nil {
		return err
	}
	compiled := make([]*jsonschema.Schema, len(schemas))
	for i := range schemas {
		var err error
		if compiled[i], err = compiler.Compile(fmt.Sprint("openapi.json#/used/", i)); err != nil {
			return err
		}
	}
	for _, m := range all {
		m.Compiled = compiled[index[fmt.Sprintf("%#v", m.Schema)]]
	}
	return nil
}

// tighten makes a schema, where it is used, reject members that it does not
// describe. The document allows them, because answers may get new members, but
// then the document must describe them.
func tighten(schema any) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("a schema is missing, or is %v", schema)
	}
	s["unevaluatedProperties"] = false
	return tightenMembers(s)
}

// tightenMembers tightens the schemas of a schema's members. It also rejects
// keywords that the document has no use for: a validator ignores misspelt ones.
func tightenMembers(schema any) (err error) {
	s := schema.(map[string]any)
	for key, value := range s {
		switch key {
		case "$ref", "type", "description", "enum", "const", "default", "format", "pattern", "required", "unevaluatedProperties",
			"minimum", "maximum", "minLength", "maxLength", "maxItems":
		case "properties":
			for name, member := range value.(map[string]any) {
				if e := tighten(member); e != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
				}
			}
		case "additionalProperties":
			if _, ok := value.(bool); !ok { // true: what a processor determines
				err = errors.Join(err, tighten(value))
			}
		case "items":
			err = errors.Join(err, tighten(value))
		case "not":
			err = errors.Join(err, tightenMembers(value))
		case "allOf", "anyOf":
			for _, member := range value.([]any) {
				err = errors.Join(err, tightenMembers(member))
			}
		default:
			err = errors.Join(err, fmt.Errorf("unknown keyword %s", key))
		}
	}
	return err
}
