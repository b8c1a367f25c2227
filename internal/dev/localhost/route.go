package localhost

import (
	"fmt"
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

// splitPath splits a decoded path into its segments. An empty one follows a
// slash at the end.
func splitPath(path string) []string {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// withoutSlash returns a split path without the slash at its end.
func withoutSlash(path []string) []string {
	if n := len(path); n > 0 && path[n-1] == "" {
		return path[:n-1]
	}
	return path
}

// match compares a split path with the template, and ignores one slash at the
// end, which only belongs to the value of a catch-all that is not empty. values
// contains the text of each parameter, or nil if it is absent.
func (r route) match(path []string) (values map[string]any, ok bool) {
	values = map[string]any{}
	given := withoutSlash(path)
	for i, s := range r.segments {
		switch {
		case i >= len(given):
			if !s.optional && !s.catchAll {
				return nil, false
			}
			values[s.param] = nil
		case given[i] == "" || s.param == "" && !strings.EqualFold(s.literal, given[i]):
			return nil, false
		case s.catchAll:
			values[s.param] = strings.Join(path[i:], "/")
			return values, true
		case s.param != "":
			values[s.param] = given[i]
		}
	}
	return values, len(given) <= len(r.segments)
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
