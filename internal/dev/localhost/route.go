package localhost

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A route is a parsed route template: literals, which are not case-sensitive,
// {parameters}, and as the last segment {optional?} or {*rest}. All other
// features of ASP.NET templates are unsupported.
type route struct {
	template string
	segments []segment
}

// A segment is the part between two slashes: a literal or a parameter.
type segment struct {
	literal  string
	param    string // "" for a literal
	optional bool   // {id?}: absent gives nil
	catchAll bool   // {*rest}: the rest of the path, nil if there is none
}

// unsupportedError reports a feature of the real host that this host does not
// support.
type unsupportedError string

func (e unsupportedError) Error() string { return string(e) }

// parseRoute reads a template. A leading ~ or / is not allowed, as in the host.
func parseRoute(template string) (route, error) {
	r := route{template: template}
	if template == "" {
		return r, nil
	}
	bad := func(format string, args ...any) (route, error) {
		return route{}, fmt.Errorf("route %q: "+format, append([]any{template}, args...)...)
	}
	if strings.HasPrefix(template, "/") || strings.HasPrefix(template, "~") {
		return bad("it must not start with / or ~")
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(template, "/"), "/") {
		s, err := parseSegment(text)
		if err != nil {
			return bad("%w", err)
		}
		if n := len(r.segments); n > 0 && (r.segments[n-1].optional || r.segments[n-1].catchAll) {
			return bad("{%s} must be the last segment", r.segments[n-1].param)
		}
		if s.param != "" && slices.ContainsFunc(r.segments, func(o segment) bool { return strings.EqualFold(o.param, s.param) }) {
			return bad("the parameter %q occurs twice", s.param)
		}
		r.segments = append(r.segments, s)
	}
	return r, nil
}

// parseSegment reads a literal or {[*]name[?]}.
func parseSegment(text string) (segment, error) {
	if text == "" {
		return segment{}, fmt.Errorf("an empty segment")
	}
	if !strings.ContainsAny(text, "{}?") {
		return segment{literal: text}, nil
	}
	inner, opened := strings.CutPrefix(text, "{")
	inner, closed := strings.CutSuffix(inner, "}")
	if name, constraint, found := strings.Cut(inner, ":"); found {
		return segment{}, unsupportedError(fmt.Sprintf("this local host does not support the constraint %q of {%s}", constraint, name))
	}
	if !opened || !closed || strings.ContainsAny(inner, "{}=") {
		return segment{}, unsupportedError(fmt.Sprintf("this local host does not support %q, only text, {name}, {name?} and {*name}", text))
	}
	var s segment
	inner, s.catchAll = strings.CutPrefix(inner, "*")
	inner, s.optional = strings.CutSuffix(inner, "?")
	if s.param = inner; inner == "" || strings.ContainsAny(inner, "*?") {
		return segment{}, fmt.Errorf("%q is not a parameter name", inner)
	}
	return s, nil
}

// splitPath splits an escaped URL path into its segments. As in the real host's
// server, an escaped slash stays escaped and does not separate. One slash at
// the end is ignored.
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

// match compares a split path with the template. values contains the text of
// each parameter, or nil if it is absent.
func (r route) match(path []string) (values map[string]any, ok bool) {
	values = map[string]any{}
	for i, s := range r.segments {
		switch {
		case i >= len(path):
			if !s.optional && !s.catchAll {
				return nil, false
			}
			values[s.param] = nil
		case s.catchAll:
			values[s.param] = strings.Join(path[i:], "/")
			return values, true
		case path[i] == "" || s.param == "" && !strings.EqualFold(s.literal, path[i]):
			return nil, false
		case s.param != "":
			values[s.param] = path[i]
		}
	}
	return values, len(path) <= len(r.segments)
}

// compare orders routes by precedence, segment by segment: literal, parameter,
// catch-all. A route that ends earlier comes first.
func (r route) compare(other route) int {
	return slices.CompareFunc(r.segments, other.segments, func(a, b segment) int { return a.rank() - b.rank() })
}

func (s segment) rank() int {
	switch {
	case s.catchAll:
		return 3
	case s.param != "":
		return 2
	}
	return 1
}
