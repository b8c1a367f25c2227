package localhost

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	timerBinding = `{"type":"timerTrigger","direction":"in","name":"t","schedule":"0 0 0 1 1 *"}`
	httpBinding  = `{"type":"httpTrigger","direction":"in","name":"req"}`
	httpOutput   = `{"type":"http","direction":"out","name":"res"}`
)

func TestDiscover(t *testing.T) {
	root := write(t, files{
		"Good/function.json":           `{"bindings":[` + timerBinding + `],"whatever":1}`,
		"broken/function.json":         `{"bindings":`,
		"good/function.json":           `{"bindings":[` + timerBinding + `]}`, // differs by case only
		"Excluded/function.json":       `{"excluded":true,"bindings":[` + timerBinding + `]}`,
		"no-function/readme.txt":       ``,
		"functions/Deep/function.json": `{"bindings":[` + timerBinding + `]}`,
		"function.json":                `{}`,
		".git/x/function.json":         `{}`,
		"node_modules/a/function.json": `{}`,
	})
	functions, err := discover(root, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{} // name → can run
	for _, f := range functions {
		got[f.name] = f.problem == nil
	}
	want := map[string]bool{"Good": true, "broken": false, "good": false}
	if _, err := os.Stat(filepath.Join(root, "GOOD")); err == nil {
		delete(want, "good") // this file system does not tell them apart either
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("functions (got -, want +):\n%s", diff)
	}
	if diff := cmp.Diff(invisible(root), []string{"function.json", "functions/Deep/function.json"}); diff != "" {
		t.Errorf("files the host does not see (got -, want +):\n%s", diff)
	}
	if only, err := discover(root, []string{"BROKEN"}, nil); err != nil || len(only) != 1 {
		t.Errorf("allow-list: got %d functions, %v; want one", len(only), err)
	}
}

func TestFunctionProblems(t *testing.T) {
	tests := []struct{ name, folder, file, want string }{
		{"none", "F", `{"bindings":[` + timerBinding + `]}`, ""},
		{"name starts with a digit", "1F", `{"bindings":[` + timerBinding + `]}`, "is no function name"},
		{"name with a dot", "F.x", `{"bindings":[` + timerBinding + `]}`, "is no function name"},
		{"reserved name", "Host", `{"bindings":[` + timerBinding + `]}`, "is no function name"},
		{"no bindings", "F", `{}`, "bindings must be a list"},
		{"no trigger", "F", `{"bindings":[` + httpOutput + `]}`, "exactly one trigger, not 0"},
		{"two triggers", "F", `{"bindings":[` + timerBinding + `,` + httpBinding + `]}`, "exactly one trigger, not 2"},
		{"no type", "F", `{"bindings":[` + timerBinding + `,{"direction":"out","name":"b"}]}`, "bindings[1]: type is missing"},
		{"binding name with a hyphen", "F", `{"bindings":[{"type":"httpTrigger","name":"my-req"}]}`, `"my-req" is no binding name`},
		{"binding name twice", "F", `{"bindings":[` + httpBinding + `,{"type":"http","direction":"out","name":"REQ"}]}`, `a second binding is named "REQ"`},
		{"return value as input", "F", `{"bindings":[{"type":"httpTrigger","name":"$return"}]}`, "is no binding name"},
		{"trigger as output", "F", `{"bindings":[{"type":"httpTrigger","direction":"out","name":"req"}]}`, "cannot have the direction"},
		{"output as input", "F", `{"bindings":[` + httpBinding + `,{"type":"http","name":"res"}]}`, "cannot have the direction"},
		{"direction", "F", `{"bindings":[{"type":"httpTrigger","direction":"inout","name":"req"}]}`, "direction"},
		{"auth level", "F", `{"bindings":[{"type":"httpTrigger","authLevel":"user","name":"req"}]}`, "authLevel"},
		{"methods of the wrong type", "F", `{"bindings":[{"type":"httpTrigger","methods":[1],"name":"req"}]}`, "bindings[0].methods must be a list of texts"},
		{"bad route", "F", `{"bindings":[{"type":"httpTrigger","route":"a//b","name":"req"}]}`, "an empty segment"},
		{"bad schedule", "F", `{"bindings":[{"type":"timerTrigger","schedule":"* * *","name":"t"}]}`, "has 3 fields"},
		{"schedule from a setting", "F", `{"bindings":[{"type":"timerTrigger","schedule":"%PLAN%","name":"t"}]}`, ""},
		{"schedule from no setting", "F", `{"bindings":[{"type":"timerTrigger","schedule":"%GONE%","name":"t"}]}`, "the setting GONE, which is not set"},
		{"queue from a setting", "F", `{"bindings":[{"type":"queueTrigger","queueName":"%QUEUE%","name":"m"}]}`, ""},
		{"queue with capitals", "F", `{"bindings":[{"type":"queueTrigger","queueName":"Jobs","name":"m"}]}`, `queueName "Jobs" must be`},
		{"queue with two hyphens", "F", `{"bindings":[{"type":"queueTrigger","queueName":"a--b","name":"m"}]}`, "queueName"},
		{"queue name too short", "F", `{"bindings":[{"type":"queueTrigger","queueName":"ab","name":"m"}]}`, "queueName"},
		{"script", "F", `{"scriptFile":"run.csx","bindings":[` + timerBinding + `]}`, "scriptFile is set"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := write(t, files{tt.folder + "/function.json": tt.file})
			functions, err := discover(root, nil, settings{"PLAN": "0 0 0 * * *", "QUEUE": "a-b"})
			if err != nil || len(functions) != 1 {
				t.Fatalf("got %d functions, %v; want one", len(functions), err)
			}
			for _, problem := range []error{functions[0].problem, CheckFunction(filepath.Join(root, tt.folder))} {
				if strings.Contains(tt.file, "%GONE%") && problem == nil {
					continue // CheckFunction knows no settings
				}
				if tt.want == "" && problem != nil || tt.want != "" && (problem == nil || !strings.Contains(problem.Error(), tt.want)) {
					t.Errorf("got problem %v, want one with %q", problem, tt.want)
				}
			}
		})
	}
}

// What only the real host has stops the start of this one, but CheckFunction
// accepts it.
func TestUnsupported(t *testing.T) {
	for bindings, want := range map[string]string{
		`{"type":"httpTrigger","name":"req","route":"orders/{id:int}"}`:                   `function 'F': bindings[0]: route "orders/{id:int}": this local host does not support the constraint "int" of {id}`,
		`{"type":"serviceBusTrigger","name":"m"}`:                                         `function 'F': bindings[0]: this local host does not support the binding type "serviceBusTrigger"`,
		timerBinding + `,{"type":"queue","direction":"out","name":"q","queueName":"q-q"}`: `function 'F': bindings[1]: this local host does not support the binding type "queue"`,
		httpBinding + `,{"type":"http","direction":"out","name":"$return"}`:               `function 'F': bindings[1]: this local host does not support the binding name $return`,
	} {
		root := write(t, files{"host.json": handlerHostJSON, "F/function.json": `{"bindings":[` + bindings + `]}`})
		if _, err := New(root, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New with %s: got %v, want an error with %q", bindings, err, want)
		}
		if err := CheckFunction(filepath.Join(root, "F")); err != nil {
			t.Errorf("CheckFunction with %s: %v", bindings, err)
		}
	}
}

// Only settings switch a function off: "disabled" in its file does not.
func TestDisabled(t *testing.T) {
	for setting, want := range map[string]bool{
		"AzureWebJobs.F.Disabled=True":   true,
		"AzureWebJobs__F__Disabled=true": true,
		"AzureWebJobs.F.Disabled=false":  false,
		"AzureWebJobs.G.Disabled=true":   false,
	} {
		name, value, _ := strings.Cut(setting, "=")
		root := write(t, files{"F/function.json": `{"disabled":true,"bindings":[` + timerBinding + `]}`})
		functions, err := discover(root, nil, settings{name: value})
		if err != nil || len(functions) != 1 || functions[0].problem != nil {
			t.Fatalf("got %v, %v; want one sound function", functions, err)
		}
		if got := functions[0].disabled; got != want {
			t.Errorf("disabled by %s: got %v, want %v", setting, got, want)
		}
	}
}

func TestForwards(t *testing.T) {
	queue := `{"type":"queue","direction":"out","name":"q"}`
	for bindings, want := range map[string]bool{
		httpBinding + "," + httpOutput:               true,
		httpOutput + "," + httpBinding:               true,
		httpBinding:                                  false,
		httpBinding + "," + queue:                    false,
		httpBinding + "," + httpOutput + "," + queue: false,
		timerBinding:                                 false,
	} {
		root := write(t, files{"F/function.json": `{"bindings":[` + bindings + `]}`})
		functions, err := discover(root, nil, nil)
		if err != nil || functions[0].problem != nil {
			t.Fatalf("%s: %v, %v", bindings, err, functions[0].problem)
		}
		if got := functions[0].forwards(); got != want {
			t.Errorf("forwards with %s: got %v, want %v", bindings, got, want)
		}
	}
}
