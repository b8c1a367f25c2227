package localhost

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A route is a parsed ASP.NET route template, such as "orders/{id:int}/{*rest}". Literals match without
// regard to case. Expressions in regex(…) are Go's, so they cannot look ahead.
type route struct {
	template string
	segments []segment
}

// A segment is what stands between two slashes: one literal, one parameter, or literals and parameters
// mixed ("a-{x}.json"), which match by pattern.
type segment struct {
	literal string
	params  []parameter // one for a plain parameter, any number with a pattern
	pattern *regexp.Regexp
	shorter *regexp.Regexp // the same without its optional last parameter and the dot before it
}

// A parameter takes the place of a part of the path.
type parameter struct {
	name        string
	constraints []constraint
	optional    bool   // {id?}: absent gives nil
	fallback    string // {id=5}
	hasFallback bool
	catchAll    bool // {*rest}
}

// omissible reports whether the path may end before this segment.
func (s segment) omissible() bool {
	return s.pattern == nil && len(s.params) == 1 &&
		(s.params[0].optional || s.params[0].hasFallback || s.params[0].catchAll)
}

// parseRoute reads a template. A leading ~ or / is not allowed, as in the host.
func parseRoute(template string) (route, error) {
	r := route{template: template}
	if template == "" {
		return r, nil
	}
	bad := func(format string, args ...any) (route, error) {
		return route{}, fmt.Errorf("route %q: "+format, append([]any{template}, args...)...)
	}
	if !utf8.ValidString(template) {
		return bad("it is not UTF-8")
	}
	if strings.HasPrefix(template, "/") || strings.HasPrefix(template, "~") {
		return bad("it must not start with / or ~")
	}
	texts := splitOutside(strings.TrimSuffix(template, "/"), '/')
	seen := map[string]bool{}
	for i, text := range texts {
		s, err := parseSegment(text)
		if err != nil {
			return bad("%w", err)
		}
		for _, p := range s.params {
			if seen[strings.ToLower(p.name)] {
				return bad("the parameter %q occurs twice", p.name)
			}
			seen[strings.ToLower(p.name)] = true
			if p.catchAll && i < len(texts)-1 {
				return bad("{*%s} must be the last segment", p.name)
			}
			if p.optional && i < len(texts)-1 {
				return bad("{%s?} must be the last segment", p.name)
			}
		}
		r.segments = append(r.segments, s)
	}
	return r, nil
}

// parseSegment splits a segment into literals and {parameters}.
func parseSegment(text string) (segment, error) {
	if text == "" {
		return segment{}, errors.New("an empty segment")
	}
	type part struct {
		literal string
		param   *parameter
	}
	var parts []part
	for rest := text; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "}}"):
			parts = append(parts, part{literal: rest[:1]})
			rest = rest[2:]
		case rest[0] == '{':
			end := closing(rest)
			if end < 0 {
				return segment{}, errors.New("a { without its }")
			}
			p, err := parseParameter(rest[1:end])
			if err != nil {
				return segment{}, err
			}
			if len(parts) > 0 && parts[len(parts)-1].param != nil {
				return segment{}, fmt.Errorf("two parameters without a text between them before {%s}", p.name)
			}
			parts = append(parts, part{param: &p})
			rest = rest[end+1:]
		case rest[0] == '}':
			return segment{}, errors.New("a } without its {")
		case rest[0] == '?':
			return segment{}, errors.New("a ? outside a parameter")
		default:
			end := cmp.Or(strings.IndexAny(rest, "{}?")+1, len(rest)+1) - 1
			parts = append(parts, part{literal: rest[:end]})
			rest = rest[end:]
		}
	}

	if len(parts) == 1 && parts[0].param != nil {
		return segment{params: []parameter{*parts[0].param}}, nil
	}
	s := segment{}
	expression := func(parts []part) *regexp.Regexp {
		pattern := "(?is)^"
		for _, part := range parts {
			if part.param != nil {
				pattern += "(.+)"
			} else {
				pattern += regexp.QuoteMeta(part.literal)
			}
		}
		return regexp.MustCompile(pattern + "$")
	}
	for i, part := range parts {
		s.literal += part.literal
		if part.param == nil {
			continue
		}
		s.params = append(s.params, *part.param)
		switch p := part.param; {
		case p.catchAll:
			return segment{}, fmt.Errorf("{*%s} must be a segment of its own", p.name)
		case p.optional && (i != len(parts)-1 || parts[i-1].literal != "."):
			return segment{}, fmt.Errorf("{%s?} in a mixed segment must be last, after a dot", p.name)
		case p.optional:
			s.shorter = expression(parts[:i-1])
		}
	}
	if len(s.params) > 0 {
		s.literal = ""
		s.pattern = expression(parts)
	}
	return s, nil
}

// parseParameter reads what stands between braces: [*|**]name[:constraint…][=default|?].
func parseParameter(text string) (parameter, error) {
	var p parameter
	for range 2 {
		if rest, found := strings.CutPrefix(text, "*"); found {
			text, p.catchAll = rest, true
		}
	}
	if rest, found := strings.CutSuffix(text, "?"); found && !strings.Contains(text, "=") {
		text, p.optional = rest, true
	}
	items := splitOutside(text, ':')
	last := len(items) - 1
	if pieces := splitOutside(items[last], '='); len(pieces) > 1 {
		items[last], p.fallback, p.hasFallback = pieces[0], strings.Join(pieces[1:], "="), true
	}
	p.name = items[0]
	if p.name == "" || strings.ContainsAny(p.name, "/{}?*=") {
		return p, fmt.Errorf("%q is no parameter name", p.name)
	}
	for _, item := range items[1:] {
		c, err := parseConstraint(item)
		if err != nil {
			return p, fmt.Errorf("parameter {%s}: %w", p.name, err)
		}
		p.constraints = append(p.constraints, c)
	}
	return p, nil
}

// closing finds the } that ends the parameter at the start of text; doubled braces inside are escapes.
func closing(text string) int {
	for i := 1; i < len(text); i++ {
		if text[i] != '{' && text[i] != '}' {
			continue
		}
		if i+1 < len(text) && text[i+1] == text[i] {
			i++
			continue
		}
		if text[i] == '}' {
			return i
		}
		return -1
	}
	return -1
}

// splitOutside splits at a separator, but not inside parentheses or braces, so that regex(…) may hold it.
func splitOutside(text string, separator byte) []string {
	var pieces []string
	depth, start := 0, 0
	for i := range len(text) {
		switch {
		case text[i] == '(' || text[i] == '{':
			depth++
		case text[i] == ')' || text[i] == '}':
			depth--
		case text[i] == separator && depth == 0:
			pieces = append(pieces, text[start:i])
			start = i + 1
		}
	}
	return append(pieces, text[start:])
}

// splitPath turns an escaped URL path into its segments. An escaped slash stays escaped and so does not
// separate, as in the real host's server; one slash at the end is ignored.
func splitPath(escaped string) ([]string, error) {
	trimmed := strings.TrimSuffix(strings.TrimPrefix(escaped, "/"), "/")
	if trimmed == "" {
		return nil, nil
	}
	segments := strings.Split(trimmed, "/")
	for i, text := range segments {
		keepSlash := strings.NewReplacer("%2F", "%252F", "%2f", "%252f")
		plain, err := url.PathUnescape(keepSlash.Replace(text))
		if err != nil {
			return nil, err
		}
		segments[i] = plain
	}
	return segments, nil
}

// match compares a path, already split, with the template. The values hold each parameter: nil for an
// optional one that is absent, a number or a boolean where a constraint says so, else a string.
func (r route) match(path []string) (values map[string]any, ok bool) {
	values = map[string]any{}
	for i, s := range r.segments {
		if i >= len(path) {
			if !s.omissible() {
				return nil, false
			}
			p := s.params[0]
			switch {
			case p.hasFallback:
				if !p.take(p.fallback, values) {
					return nil, false
				}
			default:
				values[p.name] = nil
			}
			continue
		}
		if len(s.params) > 0 && s.params[0].catchAll {
			return values, s.params[0].take(strings.Join(path[i:], "/"), values)
		}
		if path[i] == "" || !s.match(path[i], values) {
			return nil, false
		}
	}
	return values, len(path) <= len(r.segments)
}

func (s segment) match(text string, values map[string]any) bool {
	switch {
	case len(s.params) == 0:
		return strings.EqualFold(s.literal, text)
	case s.pattern == nil:
		return s.params[0].take(text, values)
	}
	found := s.pattern.FindStringSubmatch(text)
	if found == nil && s.shorter != nil {
		found = s.shorter.FindStringSubmatch(text)
		values[s.params[len(s.params)-1].name] = nil
	}
	if found == nil {
		return false
	}
	for i, part := range found[1:] {
		if !s.params[i].take(part, values) {
			return false
		}
	}
	return true
}

// take checks a parameter's text and keeps its value.
func (p parameter) take(text string, values map[string]any) bool {
	var value any = text
	for _, c := range p.constraints {
		converted, ok := c.check(text)
		if !ok {
			return false
		}
		if converted != nil {
			value = converted
		}
	}
	values[p.name] = value
	return true
}

// compare orders routes by how exactly they match, segment by segment: literal, mixed or constrained, plain
// parameter, constrained catch-all, catch-all. A route that ends earlier comes first.
func (r route) compare(other route) int {
	return slices.CompareFunc(r.segments, other.segments, func(a, b segment) int {
		return a.rank() - b.rank()
	})
}

func (s segment) rank() int {
	switch {
	case len(s.params) == 0:
		return 1
	case s.pattern != nil:
		return 2
	}
	rank := 3
	if s.params[0].catchAll {
		rank = 5
	}
	if len(s.params[0].constraints) > 0 {
		rank--
	}
	return rank
}
