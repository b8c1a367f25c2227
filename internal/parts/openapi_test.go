package parts

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/edge"
)

// headersOf are the headers that routes read, besides conditions.
var headersOf = map[string][]string{"POST /api/messages/{entity}": {api.BrokerProperties, api.MessageProperties}}

// TestRoutesAreDescribed compares docs/openapi.yaml with the routes, in both
// directions.
func TestRoutesAreDescribed(t *testing.T) {
	d := apptest.Described(t)
	left := maps.Clone(d.Operations)
	for _, rt := range routes(t) {
		op := d.Operations[rt.Pattern]
		if op == nil {
			t.Errorf("%s is not described", rt.Pattern)
			continue
		}
		delete(left, rt.Pattern)
		var parameters, want []string
		for _, p := range op.Parameters {
			parameters = append(parameters, p.In+" "+p.Name)
		}
		for _, match := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(rt.Pattern, -1) {
			want = append(want, "path "+match[1])
		}
		for _, name := range rt.Query {
			want = append(want, "query "+name)
		}
		for _, name := range slices.Concat(rt.Conditions, headersOf[rt.Pattern]) {
			want = append(want, "header "+name)
		}
		slices.Sort(parameters)
		slices.Sort(want)
		if diff := cmp.Diff(want, parameters); diff != "" {
			t.Errorf("%s: parameters of the route (-) and of the description (+):\n%s", rt.Pattern, diff)
		}
		if (op.RequestBody != nil) != rt.Body {
			t.Errorf("%s: a body is described: %t, want %t", rt.Pattern, op.RequestBody != nil, rt.Body)
		}
		function, err := os.ReadFile("../../functions/" + rt.Function + "/function.json")
		if err != nil {
			t.Fatal(err)
		}
		needsKey := !strings.Contains(string(function), `"authLevel": "anonymous"`)
		if (op.Security == nil) != needsKey || (op.Responses["401"] != nil) != needsKey {
			t.Errorf("%s: security %v, answer 401 %v; want a key: %t", rt.Pattern, op.Security, op.Responses["401"], needsKey)
		}
	}
	for pattern := range left {
		t.Errorf("%s is described, and is no route", pattern)
	}
}

// Codes that no operation describes.
var (
	// toHost answer the Functions host.
	toHost = []string{"bad_envelope", "unknown_function", "binary_answer", "too_many_headers"}

	// elsewhere answer requests to no operation, or through the console, or no
	// caller receives them.
	elsewhere = []string{"not_found", "method_not_allowed", "gone", "stopped", "sign_in_required", "role_required", "cross_site", "foreign_caller"}
)

// TestCodesAreDescribed compares the error codes of the source, of
// docs/openapi.yaml and of docs/api.md.
func TestCodesAreDescribed(t *testing.T) {
	d := apptest.Described(t)
	source := slices.DeleteFunc(sourceCodes(t), func(code string) bool { return slices.Contains(toHost, code) })
	var schema []string
	for _, code := range apptest.Member(d.Components.Schemas["ErrorCode"], "enum").([]any) {
		schema = append(schema, code.(string))
	}
	slices.Sort(schema)
	if diff := cmp.Diff(source, schema); diff != "" {
		t.Errorf("codes of the source (-) and of the schema ErrorCode (+):\n%s", diff)
	}
	statuses := documentedStatuses(t)
	if diff := cmp.Diff(source, slices.Sorted(maps.Keys(statuses))); diff != "" {
		t.Errorf("codes of the source (-) and of docs/api.md (+):\n%s", diff)
	}
	used := make(map[string]string)
	for _, op := range d.Operations {
		for status, answer := range op.Responses {
			for _, code := range answer.Codes() {
				if other := used[code]; other != "" && other != status {
					t.Errorf("code %s has status %s and %s", code, status, other)
				}
				used[code] = status
			}
		}
	}
	for _, code := range elsewhere {
		used[code] = statuses[code]
	}
	if diff := cmp.Diff(statuses, used); diff != "" {
		t.Errorf("statuses of codes in docs/api.md (-) and in the operations (+):\n%s", diff)
	}
}

// sourceCodes returns the error codes that the source names.
func sourceCodes(t *testing.T) []string {
	t.Helper()
	codes := make(map[string]bool)
	const inSource = `(?:http\.Status\w+,\s+|Code: +|BadRequest\(|\b[cC]ode\w+ += )"(\w*[a-z])"`
	for _, source := range []struct{ folder, code, prefix string }{
		{"../api", inSource, ""},
		{"../edge", inSource, ""},
		{"../customhandler", `(?:http\.Status\w+,\s+)"(\w*[a-z])"`, ""},
		{"../../channels", `(?:InputError\{|checkText\()"(\w+)"`, "bad_"}, // see edge.WriteFailure
	} {
		files, err := filepath.Glob(filepath.Join(source.folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, match := range regexp.MustCompile(source.code).FindAllSubmatch(text, -1) {
				codes[source.prefix+string(match[1])] = true
			}
		}
	}
	for _, name := range edge.Conditions {
		codes["bad_"+strings.ReplaceAll(strings.ToLower(name), "-", "_")] = true
	}
	return slices.Sorted(maps.Keys(codes))
}

// documentedStatuses returns the table of docs/api.md: the status of each code.
func documentedStatuses(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Error codes\n")
	statuses := make(map[string]string)
	for _, row := range regexp.MustCompile(`(?m)^\| (\d{3}) \| ([^|]*) \|`).FindAllStringSubmatch(table, -1) {
		for _, code := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[2], -1) {
			statuses[code[1]] = row[1]
		}
	}
	return statuses
}

// TestOperations checks what a generator of clients needs.
func TestOperations(t *testing.T) {
	d := apptest.Described(t)
	ids, tags := make(map[string]bool), make(map[string]bool)
	for pattern, op := range d.Operations {
		if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" || len(op.Tags) != 1 {
			t.Errorf("%s has operationId %q, summary %q, tags %q; want a new id, a summary and one tag", pattern, op.OperationID, op.Summary, op.Tags)
			continue
		}
		ids[op.OperationID], tags[op.Tags[0]] = true, true
	}
	for _, tag := range d.Tags {
		if !tags[tag.Name] || tag.Description == "" {
			t.Errorf("the tag %s is unused or has no description", tag.Name)
		}
		delete(tags, tag.Name)
	}
	if len(tags) > 0 {
		t.Errorf("tags without a description: %v", tags)
	}
	c := d.Components
	for kind, components := range map[string]map[string]any{"schemas": c.Schemas, "parameters": c.Parameters,
		"headers": c.Headers, "examples": c.Examples, "requestBodies": c.RequestBodies} {
		for name := range components {
			if !d.Refs["#/components/"+kind+"/"+name] {
				t.Errorf("components/%s/%s is unused", kind, name)
			}
		}
	}
	for name := range c.Responses {
		if !d.Refs["#/components/responses/"+name] {
			t.Errorf("components/responses/%s is unused", name)
		}
	}
}

// TestExamples checks that all that has a schema has an example that fits it,
// and that those of errors are what the app sends.
func TestExamples(t *testing.T) {
	messages := make(map[string]bool)
	for _, m := range apptest.Described(t).Media() {
		values := m.Values()
		if len(values) == 0 {
			t.Errorf("%s has no example", m.Place)
		}
		for _, value := range values {
			if err := m.Compiled.Validate(value); err != nil {
				t.Errorf("example of %s: %v", m.Place, err)
			}
			if message, ok := apptest.Member(value, "error", "message").(string); ok {
				messages[message] = true
			}
		}
	}
	if !messages[edge.Rejected] {
		t.Errorf("no example has the message %s", edge.Rejected)
	}
	for _, failures := range [][]api.Failure{api.SequenceFailures, api.GateFailures, api.ChannelFailures, api.ChannelDeleteFailures, api.DeletionFailures, api.BlogPostFailures, api.BlogFailures, api.BatchSubmitFailures, api.BatchFailures, api.LetterMoveFailures, api.TimerFailures, api.TimerRunFailures, api.ScaleFailures, api.ScaleRulesFailures} {
		for _, f := range failures {
			if f.Message != "" && !messages[f.Message] {
				t.Errorf("no example of %s has the message %s", f.Code, f.Message)
			}
		}
	}
}
