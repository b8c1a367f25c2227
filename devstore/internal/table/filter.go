package table

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"kennel/devstore/internal/rest"
)

// A filter decides which entities a query returns. A lookup returns a property
// of the entity.
//
// A comparison with a property that the entity does not have, or has with
// another type, is false, whatever its operator. "not" turns it into true.
type filter interface {
	match(lookup func(name string) (value, bool)) bool
}

type both struct{ left, right filter }

func (f both) match(lookup func(string) (value, bool)) bool {
	return f.left.match(lookup) && f.right.match(lookup)
}

type either struct{ left, right filter }

func (f either) match(lookup func(string) (value, bool)) bool {
	return f.left.match(lookup) || f.right.match(lookup)
}

type negation struct{ filter filter }

func (f negation) match(lookup func(string) (value, bool)) bool { return !f.filter.match(lookup) }

type comparison struct {
	name     string
	operator string
	literal  value
}

func (f comparison) match(lookup func(string) (value, bool)) bool {
	found, ok := lookup(f.name)
	if !ok {
		return false
	}
	literal := f.literal.promote(found.kind)
	if literal.kind != found.kind {
		return false
	}
	order, ok := found.compare(literal)
	if !ok {
		return f.operator == "ne"
	}
	switch f.operator {
	case "eq":
		return order == 0
	case "ne":
		return order != 0
	case "gt":
		return order > 0
	case "ge":
		return order >= 0
	case "lt":
		return order < 0
	default:
		return order <= 0
	}
}

// maxFilterDepth bounds the nesting, so that no filter exhausts the stack.
const maxFilterDepth = 200

// parseFilter parses a filter. It returns nil for an empty one.
func parseFilter(text string) (filter, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	p := &parser{text: text}
	p.next()
	f := p.alternatives(0)
	if p.err == nil && p.token.kind != endToken {
		p.fail(errQuery)
	}
	if p.err != nil {
		return nil, p.err
	}
	return f, nil
}

type tokenKind byte

const (
	endToken tokenKind = iota
	nameToken
	literalToken
	signToken // a parenthesis or a comma
)

type token struct {
	kind  tokenKind
	text  string // of a name or sign
	value value  // of a literal
}

// A parser reads a filter from left to right. It keeps the first error, after
// which every token is the end.
type parser struct {
	text  string // what is not read yet
	token token
	err   error
}

func (p *parser) fail(err *rest.Error) {
	if p.err == nil {
		p.err = err
	}
	p.text, p.token = "", token{}
}

func (p *parser) isName(text string) bool {
	return p.token.kind == nameToken && p.token.text == text
}

func (p *parser) isSign(text string) bool {
	return p.token.kind == signToken && p.token.text == text
}

func (p *parser) alternatives(depth int) filter {
	f := p.conjunction(depth)
	for p.isName("or") {
		p.next()
		f = either{f, p.conjunction(depth)}
	}
	return f
}

func (p *parser) conjunction(depth int) filter {
	f := p.term(depth)
	for p.isName("and") {
		p.next()
		f = both{f, p.term(depth)}
	}
	return f
}

func (p *parser) term(depth int) filter {
	switch {
	case depth > maxFilterDepth:
		p.fail(errQuery)
		return nil
	case p.isName("not"):
		p.next()
		return negation{p.term(depth + 1)}
	case p.isSign("("):
		p.next()
		f := p.alternatives(depth + 1)
		if !p.isSign(")") {
			p.fail(errQuery)
		}
		p.next()
		return f
	default:
		return p.comparison()
	}
}

// flipped has the operators for a literal that stands at the left.
var flipped = map[string]string{"eq": "eq", "ne": "ne", "gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}

func (p *parser) comparison() filter {
	left := p.operand()
	operator := p.token.text
	if p.token.kind != nameToken || flipped[operator] == "" {
		switch operator {
		case "add", "sub", "mul", "div", "mod":
			p.fail(errFeature)
		}
		if left.kind != nameToken {
			p.fail(errQuery)
		}
		return comparison{left.text, "eq", boolValue(true)}
	}
	p.next()
	right := p.operand()
	switch {
	case left.kind == nameToken && right.kind == literalToken:
		return comparison{left.text, operator, right.value}
	case left.kind == literalToken && right.kind == nameToken:
		return comparison{right.text, flipped[operator], left.value}
	default:
		p.fail(errQuery)
		return nil
	}
}

func (p *parser) operand() token {
	t := p.token
	if t.kind != nameToken && t.kind != literalToken {
		p.fail(errQuery)
		return token{}
	}
	p.next()
	if t.kind == nameToken && p.isSign("(") {
		p.fail(errFeature)
	}
	return t
}

// next reads one token.
func (p *parser) next() {
	p.text = strings.TrimLeft(p.text, " \t\r\n")
	if p.text == "" {
		p.token = token{}
		return
	}
	switch c := p.text[0]; {
	case strings.IndexByte("(),", c) >= 0:
		p.token = token{kind: signToken, text: p.text[:1]}
		p.text = p.text[1:]
	case c == '\'':
		if text, ok := p.quoted(); ok {
			p.literal(textValue(text), true)
		}
	case c == '-' || c >= '0' && c <= '9':
		p.number()
	default:
		p.word()
	}
}

func (p *parser) literal(v value, ok bool) {
	if !ok {
		p.fail(errQuery)
		return
	}
	p.token = token{kind: literalToken, value: v}
}

// quoted reads a text in quotes, in which quotes are doubled.
func (p *parser) quoted() (string, bool) {
	text, rest, ok := cutQuoted(p.text)
	if !ok {
		p.fail(errQuery)
		return "", false
	}
	p.text = rest
	return text, true
}

// cutQuoted splits a text in quotes from what follows it.
func cutQuoted(s string) (text, rest string, ok bool) {
	if s == "" || s[0] != '\'' {
		return "", "", false
	}
	doubled := false
	for i := 1; i < len(s); i++ {
		if s[i] != '\'' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '\'' {
			doubled = true
			i++
			continue
		}
		text = s[1:i]
		if doubled {
			text = strings.ReplaceAll(text, "''", "'")
		}
		return text, s[i+1:], true
	}
	return "", "", false
}

// word reads a name, a literal with a prefix, or a constant.
func (p *parser) word() {
	n := 0
	for n < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[n:])
		if r != '_' && !unicode.IsLetter(r) && !unicode.In(r, unicode.Nd, unicode.Nl, unicode.Mn, unicode.Mc, unicode.Pc, unicode.Cf) {
			break
		}
		n += size
	}
	if n == 0 {
		p.fail(errQuery)
		return
	}
	word := p.text[:n]
	p.text = p.text[n:]
	if strings.HasPrefix(p.text, "'") {
		if text, ok := p.quoted(); ok {
			p.literal(parseTyped(word, text))
		}
		return
	}
	switch word {
	case "true", "false":
		p.literal(boolValue(word == "true"), true)
	case "NaN":
		p.literal(doubleValue(math.NaN()), true)
	case "INF", "Infinity":
		p.literal(doubleValue(math.Inf(1)), true)
	case "null":
		p.fail(errInput)
	default:
		p.token = token{kind: nameToken, text: word}
	}
}

// parseTyped parses a literal with its type before the quotes.
func parseTyped(prefix, text string) (value, bool) {
	switch prefix {
	case "datetime", "datetimeoffset":
		t, ok := parseTicks(text)
		return value{kind: kindDateTime, bits: t}, ok
	case "guid":
		b, ok := parseGUID(text)
		return value{kind: kindGUID, text: b}, ok
	case "X", "x", "binary":
		b, err := hex.DecodeString(text)
		if err != nil {
			b, err = base64.StdEncoding.DecodeString(text)
		}
		return value{kind: kindBinary, text: string(b)}, err == nil
	default:
		return value{}, false
	}
}

// number reads a number. Only a suffix makes it a long one.
func (p *parser) number() {
	if rest, ok := strings.CutPrefix(p.text, "-INF"); ok {
		p.text = rest
		p.literal(doubleValue(math.Inf(-1)), true)
		return
	}
	n := 1
	for n < len(p.text) && (strings.IndexByte(".+-", p.text[n]) >= 0 || isAlphanumeric(p.text[n])) {
		n++
	}
	p.literal(parseNumber(p.text[:n]))
	if p.err == nil {
		p.text = p.text[n:]
	}
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func parseNumber(s string) (value, bool) {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return value{kind: kindInt32, bits: n}, true
	}
	last := s[len(s)-1] | 0x20
	switch {
	case strings.ContainsAny(s, "xXpP_iInN"): // what only Go takes for a number
		return value{}, false
	case last == 'l':
		n, err := strconv.ParseInt(s[:len(s)-1], 10, 64)
		return value{kind: kindInt64, bits: n}, err == nil
	case last == 'd' || last == 'f' || last == 'm':
		s = s[:len(s)-1]
	case !strings.ContainsAny(s, ".eE"):
		return value{}, false // larger than 32 bits
	}
	f, err := strconv.ParseFloat(s, 64)
	return doubleValue(f), err == nil
}
