package localhost

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		{"two slashes", "api/status", "/api//status", nil},
		{"too short", "api/status", "/api", nil},
		{"too long", "api/status", "/api/status/x", nil},
		{"parameter", "a/{id}", "/a/x%20y", values{"id": "x y"}},
		{"parameter keeps its case", "a/{id}", "/a/XyZ", values{"id": "XyZ"}},
		{"parameter missing", "a/{id}", "/a", nil},
		{"parameter empty", "a/{id}/b", "/a//b", nil},
		{"escaped slash does not separate", "a/{id}", "/a/x%2Fy", values{"id": "x%2Fy"}},
		{"optional given", "a/{id?}", "/a/5", values{"id": "5"}},
		{"optional absent", "a/{id?}", "/a", values{"id": nil}},
		{"default given", "a/{id=5}", "/a/6", values{"id": "6"}},
		{"default taken", "a/{id=5}", "/a", values{"id": "5"}},
		{"default of a type", "a/{id:int=5}", "/a", values{"id": int64(5)}},
		{"two defaults", "a/{b=1}/{c=2}", "/a/x", values{"b": "x", "c": "2"}},
		{"catch-all", "a/{*rest}", "/a/b/c%20d/e", values{"rest": "b/c d/e"}},
		{"double-star catch-all", "a/{**rest}", "/a/b/c", values{"rest": "b/c"}},
		{"catch-all of nothing", "a/{*rest}", "/a", values{"rest": nil}},
		{"catch-all with rule", "a/{*rest:minlength(3)}", "/a/b", nil},
		{"whole path", "{*path}", "/", values{"path": nil}},
		{"mixed segment", "a-{x}.json", "/a-one.two.json", values{"x": "one.two"}},
		{"mixed segment without match", "a-{x}.json", "/a-.json", nil},
		{"mixed segment in another case", "A-{x}.JSON", "/a-q.json", values{"x": "q"}},
		{"two in a segment, the first is greedy", "{a}-{b}", "/x-y-z", values{"a": "x-y", "b": "z"}},
		{"rules in a segment", "{a:int}x{b:int}", "/3x4", values{"a": int64(3), "b": int64(4)}},
		{"optional ending", "{name}.{ext?}", "/f.txt", values{"name": "f", "ext": "txt"}},
		{"optional ending absent", "{name}.{ext?}", "/f", values{"name": "f", "ext": nil}},
		{"escaped braces", "a{{b}}", "/a%7Bb%7D", values{}},
		{"int", "{n:int}", "/-12", values{"n": int64(-12)}},
		{"int too large", "{n:int}", "/2147483648", nil},
		{"int of text", "{n:int}", "/1x", nil},
		{"long", "{n:long}", "/2147483648", values{"n": int64(2147483648)}},
		{"optional int given wrongly", "a/{n:int?}", "/a/x", nil},
		{"double", "{n:double}", "/1.5", values{"n": 1.5}},
		{"double of text", "{n:double}", "/inf", nil},
		{"bool", "{n:bool}", "/TRUE", values{"n": true}},
		{"bool of text", "{n:bool}", "/yes", nil},
		{"guid", "{n:guid}", "/7f3c0000-1111-2222-3333-444455556666", values{"n": "7f3c0000-1111-2222-3333-444455556666"}},
		{"guid too short", "{n:guid}", "/7f3c0000-1111-2222-3333", nil},
		{"datetime", "{n:datetime}", "/2026-01-02", values{"n": "2026-01-02"}},
		{"datetime of text", "{n:datetime}", "/tomorrow", nil},
		{"alpha", "{n:alpha}", "/aBc", values{"n": "aBc"}},
		{"alpha with digit", "{n:alpha}", "/a1", nil},
		{"length", "{n:length(3)}", "/äöü", values{"n": "äöü"}},
		{"length too long", "{n:length(3)}", "/abcd", nil},
		{"length between", "{n:length(2,3)}", "/abc", values{"n": "abc"}},
		{"length outside", "{n:length(2,3)}", "/a", nil},
		{"minlength", "{n:minlength(2)}", "/a", nil},
		{"maxlength", "{n:maxlength(2)}", "/abc", nil},
		{"min", "{n:min(18)}", "/17", nil},
		{"min reached", "{n:min(18)}", "/18", values{"n": "18"}},
		{"max", "{n:max(5)}", "/6", nil},
		{"range", "{n:range(2,4)}", "/4", values{"n": "4"}},
		{"range outside", "{n:range(2,4)}", "/5", nil},
		{"several rules", "{n:int:min(2):max(4)}", "/3", values{"n": int64(3)}},
		{"one of several rules fails", "{n:int:min(2):max(4)}", "/5", nil},
		{"regex with a slash, a colon and braces", `{n:regex(^[a-z]{{2}}:\d+$)}`, "/ab:12", values{"n": "ab:12"}},
		{"regex without match", `{n:regex(^[a-z]{{2}}:\d+$)}`, "/abc:12", nil},
		{"required", "{n:required}", "/x", values{"n": "x"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := parseRoute(test.template)
			if err != nil {
				t.Fatal(err)
			}
			path, err := splitPath(test.path)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := r.match(path)
			if ok != (test.want != nil) {
				t.Fatalf("match %q with %q: got %v, want %v", test.path, test.template, ok, test.want)
			}
			if diff := cmp.Diff(got, test.want); ok && diff != "" {
				t.Errorf("values of %q in %q (got -, want +):\n%s", test.path, test.template, diff)
			}
		})
	}
}

func TestRouteProblems(t *testing.T) {
	for template, want := range map[string]string{
		"{a}\xff":           "not UTF-8",
		"/a":                "must not start with /",
		"~/a":               "must not start with /",
		"a//b":              "an empty segment",
		"a/{":               "a { without its }",
		"a/{id":             "a { without its }",
		"a/id}":             "a } without its {",
		"a/{}":              "is no parameter name",
		"a/b?":              "a ? outside a parameter",
		"{a}{b}":            "without a text between",
		"{a}/{A}":           "occurs twice",
		"{*rest}/a":         "must be the last segment",
		"{id?}/a":           "must be the last segment",
		"x{*rest}":          "segment of its own",
		"x-{id?}":           "must be last, after a dot",
		"{id:integer}":      `"integer" is no constraint`,
		"{id:int(5)}":       "is no constraint",
		"{id:min}":          "is no constraint",
		"{id:min(x)}":       `"x" is no number`,
		"{id:min(5}":        "lacks its )",
		"{id:regex(([)}":    "constraint",
		"{id:range(1,2,3)}": "is no constraint",
	} {
		if _, err := parseRoute(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse %q: got error %v, want one with %q", template, err, want)
		}
	}
}

// More exact routes come first, whatever order the functions have.
func TestRoutePrecedence(t *testing.T) {
	want := []string{
		"orders",
		"orders/latest",
		"orders/latest/{n}",
		"orders/{id:int}",
		"orders/a-{x}/{y}",
		"orders/{id}",
		"orders/{id}/lines",
		"orders/{*rest:minlength(9)}",
		"orders/{*rest}",
		"{*all}",
	}
	var routes []route
	for _, template := range slices.Backward(want) {
		r, err := parseRoute(template)
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, r)
	}
	slices.SortStableFunc(routes, route.compare)
	var got []string
	for _, r := range routes {
		got = append(got, r.template)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("order (got -, want +):\n%s", diff)
	}
}

func FuzzRoute(f *testing.F) {
	for _, seed := range [][2]string{{"a/{id:int?}", "/a/5"}, {"{a}-{b}.{c?}", "/x-y"}, {"{n:regex(^a{{1,2}}$)=aa}", "/"}, {"{*x:length(1,2)}", "/%2f/%"}, {"{{}}", "/{}"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, template, escaped string) {
		r, err := parseRoute(template)
		if err != nil {
			return
		}
		path, err := splitPath(escaped)
		if err != nil {
			return
		}
		r.match(path)
		if r.compare(r) != 0 {
			t.Errorf("route %q does not equal itself", template)
		}
	})
}
