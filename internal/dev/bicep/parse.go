package bicep

import (
	"fmt"
	"runtime"
	"strconv"
)

// A file is a parsed file: its declarations by name.
type file struct {
	declared map[string]*declaration
	order    []string
}

// declaration is a param, var, resource, module or output.
type declaration struct {
	kind       string
	name       string
	form       string // of a resource its type, of a module its file, of others their type
	existing   bool
	value      any // expression; nil: none
	decorators map[string][]any
}

// Expressions.
type (
	name    string
	literal struct{ value any }
	text    []any // strings and expressions
	member  struct {
		of   any
		name string
		safe bool
	}
	index struct{ of, at any }
	call  struct {
		name string
		args []any
	}
	unary struct {
		op string
		x  any
	}
	binary struct {
		op   string
		x, y any
	}
	lambda struct {
		param string
		body  any
	}
	choice struct{ condition, yes, no any }
	list   []any
	object []property
	loop   struct {
		item, index string
		in, body    any
	}
	only struct{ condition, body any } // if (condition) body
)

type property struct{ key, value any }

type parser struct {
	tokens []token
}

// failure is the panic of a parser.
type failure struct{ error }

func (p *parser) fail(format string, args ...any) {
	panic(failure{fmt.Errorf("line %d: %s", p.tokens[0].line, fmt.Sprintf(format, args...))})
}

// catch returns the failure of a parser or an evaluation as an error. A type
// assertion in it fails for a value of a wrong type.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.error
	case *runtime.TypeAssertionError:
		*err = fmt.Errorf("a value has a wrong type: %w", r)
	default:
		panic(r)
	}
}

func parseExpression(source string) (x any, err error) {
	defer catch(&err)
	tokens, err := scan(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	x = p.expression()
	if p.text() != "" {
		p.fail("%q after an expression", p.text())
	}
	return x, nil
}

func parse(source string) (f *file, err error) {
	defer catch(&err)
	tokens, err := scan(source)
	if err != nil {
		return nil, err
	}
	f = &file{declared: make(map[string]*declaration)}
	p := &parser{tokens: tokens}
	for p.lines(); p.text() != ""; p.lines() {
		f.add(p)
		if t := p.text(); t != "\n" && t != "" {
			p.fail("%q after a declaration", t)
		}
	}
	return f, nil
}

func (p *parser) text() string { return p.tokens[0].text }

func (p *parser) next() token {
	t := p.tokens[0]
	if len(p.tokens) > 1 {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) lines() {
	for p.text() == "\n" {
		p.next()
	}
}

func (p *parser) is(text string) bool { return p.tokens[0].kind != '\'' && p.text() == text }

func (p *parser) accept(text string) bool {
	if p.is(text) {
		p.next()
		return true
	}
	return false
}

// follows accepts an operator that may stand on the next line.
func (p *parser) follows(text string) bool {
	if p.is("\n") && len(p.tokens) > 1 && p.tokens[1].kind == 'o' && p.tokens[1].text == text {
		p.next()
	}
	return p.accept(text)
}

func (p *parser) want(text string) {
	if !p.accept(text) {
		p.fail("%q, want %q", p.text(), text)
	}
}

func (p *parser) name() string {
	if p.tokens[0].kind != 'n' {
		p.fail("%q, want a name", p.text())
	}
	return p.next().text
}

// plain reads a string without an expression in it.
func (p *parser) plain() string {
	t := p.next()
	if t.kind != '\'' || len(t.parts) != 1 {
		p.fail("%q, want a string", t.text)
	}
	return t.parts[0].(string)
}

// add parses a declaration with its decorators.
func (f *file) add(p *parser) {
	d := &declaration{decorators: make(map[string][]any)}
	for p.accept("@") {
		decorator := p.name()
		p.want("(")
		d.decorators[decorator] = append([]any{}, p.items(")")...)
		p.lines()
	}
	switch d.kind = p.name(); d.kind {
	case "targetScope":
		d.name = d.kind
		p.want("=")
		d.value = literal{p.plain()}
	case "using":
		d.name, d.value = d.kind, literal{p.plain()}
	case "param", "var", "output":
		d.name = p.name()
		if !p.is("=") {
			d.form = p.name()
		}
		if p.accept("=") {
			d.value = p.expression()
		}
	case "resource", "module":
		d.name, d.form = p.name(), p.plain()
		d.existing = p.accept("existing")
		p.want("=")
		d.value = p.guarded()
	default:
		p.fail("%q begins no declaration", d.kind)
	}
	key := d.name
	if d.kind == "output" {
		key = "output " + d.name
	}
	if f.declared[key] != nil {
		p.fail("%s is declared twice", d.name)
	}
	f.declared[key] = d
	f.order = append(f.order, key)
}

// guarded parses the body of a resource, which may have a condition.
func (p *parser) guarded() any {
	if !p.accept("if") {
		return p.expression()
	}
	p.want("(")
	condition := p.expression()
	p.want(")")
	return only{condition, p.expression()}
}

// items parses expressions up to a bracket.
func (p *parser) items(end string) (items []any) {
	for p.lines(); !p.accept(end); p.lines() {
		items = append(items, p.expression())
		if !p.is(end) && !p.is("\n") {
			p.want(",")
		}
	}
	return items
}

// precedence of binary operators, the weakest first.
var precedence = []string{"??", "&&", "=="}

func (p *parser) expression() any {
	x := p.binary(0)
	if !p.follows("?") {
		return x
	}
	p.lines()
	yes := p.expression()
	if !p.follows(":") {
		p.fail("%q, want : of a choice", p.text())
	}
	p.lines()
	return choice{x, yes, p.expression()}
}

func (p *parser) binary(level int) any {
	if level == len(precedence) {
		return p.unary()
	}
	x := p.binary(level + 1)
	for p.accept(precedence[level]) {
		p.lines()
		x = binary{precedence[level], x, p.binary(level + 1)}
	}
	return x
}

func (p *parser) unary() any {
	for _, op := range []string{"!", "-"} {
		if p.accept(op) {
			return unary{op, p.unary()}
		}
	}
	x := p.primary()
	for {
		switch {
		case p.accept("."):
			x = member{of: x, name: p.name()}
		case p.accept(".?"):
			x = member{of: x, name: p.name(), safe: true}
		case p.accept("["):
			at := p.expression()
			p.want("]")
			x = index{x, at}
		case p.is("!"):
			p.next() // not null: has no effect
		default:
			return x
		}
	}
}

func (p *parser) primary() any {
	t := p.next()
	switch {
	case t.kind == '\'':
		return text(t.parts)
	case t.kind == '0':
		n, err := strconv.Atoi(t.text)
		if err != nil {
			p.fail("%v", err)
		}
		return literal{n}
	case t.kind == 'n' && p.accept("=>"):
		return lambda{t.text, p.expression()}
	case t.kind == 'n' && p.accept("("):
		return call{t.text, p.items(")")}
	case t.kind == 'n':
		switch t.text {
		case "true", "false":
			return literal{t.text == "true"}
		case "null":
			return literal{nil}
		}
		return name(t.text)
	case t.text == "(":
		p.lines()
		x := p.expression()
		p.lines()
		p.want(")")
		return x
	case t.text == "{":
		return p.object()
	case t.text == "[":
		p.lines()
		if p.is("for") {
			return p.loop()
		}
		return list(p.items("]"))
	}
	panic(failure{fmt.Errorf("line %d: %q begins no expression", t.line, t.text)})
}

func (p *parser) object() any {
	o := object{}
	for p.lines(); !p.accept("}"); p.lines() {
		var key any
		if p.tokens[0].kind == '\'' {
			key = text(p.next().parts)
		} else {
			key = literal{p.name()}
		}
		p.want(":")
		p.lines()
		o = append(o, property{key, p.expression()})
		if !p.is("}") && !p.is("\n") {
			p.want(",")
		}
	}
	return o
}

func (p *parser) loop() any {
	p.want("for")
	var l loop
	if p.accept("(") {
		l.item = p.name()
		p.want(",")
		l.index = p.name()
		p.want(")")
	} else {
		l.item = p.name()
	}
	p.want("in")
	l.in = p.expression()
	p.want(":")
	p.lines()
	l.body = p.guarded()
	p.lines()
	p.want("]")
	return l
}
