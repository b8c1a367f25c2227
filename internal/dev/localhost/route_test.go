package localhost

import (
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"kennel/internal/customhandler"
)

func TestRouteMatch(t *testing.T) {
	type values = map[string]any
	tests := []struct {
		name, template, path string
		want                 values // nil: no match
	}{
		{"literal", "api/status", "/api/status", values{}},
		{"literal in another case", "api/Status", "/API/sTATUS", values{}},
		{"slash at the end", "api/status", "/api/status/", values{}},
		{"too long", "api/status", "/api/status/x", nil},
		{"parameter", "a/{id}", "/a/x%20y", values{"id": "x y"}},
		{"parameter keeps its case", "a/{id}", "/a/XyZ", values{"id": "XyZ"}},
		{"parameter missing", "a/{id}", "/a", nil},
		{"parameter empty", "a/{id}/b", "/a//b", nil},
		{"escaped slash does not separate", "a/{id}", "/a/x%2Fy", values{"id": "x%2Fy"}},
		{"optional given", "a/{id?}", "/a/5", values{"id": "5"}},
		{"optional absent", "a/{id?}", "/a", values{"id": nil}},
		{"catch-all", "a/{*rest}", "/a/b/c%20d/e", values{"rest": "b/c d/e"}},
		{"catch-all of nothing", "a/{*rest}", "/a", values{"rest": nil}},
		{"catch-all of a slash", "a/{*rest}", "/a/", values{"rest": nil}},
		{"catch-all with a slash at the end", "a/{*rest}", "/a/b/", values{"rest": "b/"}},
		{"catch-all with empty segments", "a/{*rest}", "/a/b//c//", values{"rest": "b//c//"}},
		{"catch-all that begins with an empty segment", "a/{*rest}", "/a//b", nil},
		{"two slashes at the end", "api/status", "/api/status//", nil},
		{"escaped prefix", "api/{*rest}", "/%61pi/b", values{"rest": "b"}},
		{"dot segments", "api/{*rest}", "/api/b/%2e%2E/./c", values{"rest": "c"}},
		{"dot segments out of the route", "api/{*rest}", "/api/../b", nil},
		{"characters of an address", "a/{*rest}", "/a/b%3Fc%23d%5C..%5Ce%20", values{"rest": `b?c#d\..\e `}},
		{"escaped escapes", "a/{*rest}", "/a/%2525b/%252e%252e", values{"rest": "%25b/%2e%2e"}},
		{"escapes that are not UTF-8", "a/{*rest}", "/a/%ff%c3%C3%BC%C0%AF%ED%A0%80", values{"rest": "%ff%c3ü%C0%AF%ED%A0%80"}},
		{"whole path", "{*path}", "/", values{"path": nil}},
	}
	for _, tt := range tests {
		got, ok := must(parseRoute(tt.template)).match(splitPath(must(customhandler.RoutedPath(httptest.NewRequest("GET", tt.path, nil)))))
		if ok != (tt.want != nil) {
			t.Errorf("%s: match %q with %q: got %v, want %v", tt.name, tt.path, tt.template, ok, tt.want)
		} else if ok {
			same(t, tt.name, got, tt.want)
		}
	}
}

func TestRouteProblems(t *testing.T) {
	const unsupported = "this local host does not support "
	for template, want := range map[string]string{
		"/a":              "must not start with /",
		"~/a":             "must not start with /",
		"a//b":            "an empty segment",
		"a/{}":            "is not a parameter name",
		"{**rest}":        "is not a parameter name",
		"{a}/{A}":         "occurs twice",
		"{*rest}/a":       "must be the last segment",
		"{id?}/a":         "must be the last segment",
		"a/{id":           unsupported + `"{id"`,
		"a/id}":           unsupported + `"id}"`,
		"{id=5}":          unsupported + `"{id=5}"`,
		"a-{x}.json":      unsupported + `"a-{x}.json"`,
		"{a}{b}":          unsupported + `"{a}{b}"`,
		"a{{b}}":          unsupported + `"a{{b}}"`,
		"a/{id:int?}":     unsupported + `the constraint "int?" of {id}`,
		"{id:length(2)}":  unsupported + `the constraint "length(2)" of {id}`,
		"{*rest:alpha}/a": unsupported + `the constraint "alpha" of {*rest}`,
	} {
		_, err := parseRoute(template)
		expectError(t, template, err, want)
		if _, ok := errors.AsType[unsupportedError](err); ok != strings.HasPrefix(want, unsupported) {
			t.Errorf("parse %q: unsupported: got %v", template, ok)
		}
	}
}

// TestRoutePrecedence checks that more specific routes come first in any order
// of the functions.
func TestRoutePrecedence(t *testing.T) {
	want := []string{
		"orders",
		"orders/latest",
		"orders/latest/{n}",
		"orders/{id}",
		"orders/{id}/lines",
		"orders/{*rest}",
		"{*all}",
	}
	var routes []route
	for _, template := range slices.Backward(want) {
		routes = append(routes, must(parseRoute(template)))
	}
	slices.SortStableFunc(routes, route.compare)
	var got []string
	for _, r := range routes {
		got = append(got, r.template)
	}
	same(t, "order", got, want)
}
