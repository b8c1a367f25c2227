package localhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		"good/function.json":           `{"bindings":[` + timerBinding + `]}`, // differs only in case
		"Excluded/function.json":       `{"excluded":true,"bindings":[` + timerBinding + `]}`,
		"no-function/readme.txt":       ``,
		"functions/Deep/function.json": `{"bindings":[` + timerBinding + `]}`,
		"function.json":                `{}`,
		".git/x/function.json":         `{}`,
		"node_modules/a/function.json": `{}`,
	})
	functions := must(discover(root, nil, nil))
	got := map[string]bool{} // name → can run
	for _, f := range functions {
		got[f.name] = f.problem == nil
	}
	want := map[string]bool{"Good": true, "broken": false, "good": false}
	if _, err := os.Stat(filepath.Join(root, "GOOD")); err == nil {
		delete(want, "good") // this file system ignores case
	}
	same(t, "functions", got, want)
	same(t, "files that the host ignores", invisible(root), []string{"function.json", "functions/Deep/function.json"})
	if only, err := discover(root, []string{"BROKEN"}, nil); err != nil || len(only) != 1 {
		t.Errorf("allow-list: got %d functions, %v; want one", len(only), err)
	}
}

func TestFunctionProblems(t *testing.T) {
	tests := []struct{ name, folder, file, want string }{
		{"none", "F", `{"bindings":[` + timerBinding + `]}`, ""},
		{"name starts with a digit", "1F", `{"bindings":[` + timerBinding + `]}`, "is not a function name"},
		{"name with a dot", "F.x", `{"bindings":[` + timerBinding + `]}`, "is not a function name"},
		{"reserved name", "Host", `{"bindings":[` + timerBinding + `]}`, "is not a function name"},
		{"no bindings", "F", `{}`, "bindings must be a list"},
		{"no trigger", "F", `{"bindings":[` + httpOutput + `]}`, "exactly one trigger, not 0"},
		{"two triggers", "F", `{"bindings":[` + timerBinding + `,` + httpBinding + `]}`, "exactly one trigger, not 2"},
		{"no type", "F", `{"bindings":[` + timerBinding + `,{"direction":"out","name":"b"}]}`, "bindings[1]: type is missing"},
		{"binding name with a hyphen", "F", `{"bindings":[{"type":"httpTrigger","name":"my-req"}]}`, `"my-req" is not a binding name`},
		{"binding name twice", "F", `{"bindings":[` + httpBinding + `,{"type":"http","direction":"out","name":"REQ"}]}`, `a second binding is named "REQ"`},
		{"return value as input", "F", `{"bindings":[{"type":"httpTrigger","name":"$return"}]}`, "is not a binding name"},
		{"trigger as output", "F", `{"bindings":[{"type":"httpTrigger","direction":"out","name":"req"}]}`, "cannot have the direction"},
		{"output as input", "F", `{"bindings":[` + httpBinding + `,{"type":"http","name":"res"}]}`, "cannot have the direction"},
		{"direction", "F", `{"bindings":[{"type":"httpTrigger","direction":"inout","name":"req"}]}`, "direction"},
		{"auth level", "F", `{"bindings":[{"type":"httpTrigger","authLevel":"user","name":"req"}]}`, "authLevel"},
		{"methods of the wrong type", "F", `{"bindings":[{"type":"httpTrigger","methods":[1],"name":"req"}]}`, "bindings[0].methods must be a list of strings"},
		{"bad route", "F", `{"bindings":[{"type":"httpTrigger","route":"a//b","name":"req"}]}`, "an empty segment"},
		{"bad schedule", "F", `{"bindings":[{"type":"timerTrigger","schedule":"* * *","name":"t"}]}`, "has 3 fields"},
		{"schedule from a setting", "F", `{"bindings":[{"type":"timerTrigger","schedule":"%PLAN%","name":"t"}]}`, ""},
		{"schedule from no setting", "F", `{"bindings":[{"type":"timerTrigger","schedule":"%GONE%","name":"t"}]}`, "the setting GONE, which is not set"},
		{"queue from a setting", "F", `{"bindings":[{"type":"queueTrigger","queueName":"%QUEUE%","name":"m"}]}`, ""},
		{"queue with capitals", "F", `{"bindings":[{"type":"queueTrigger","queueName":"Jobs","name":"m"}]}`, `queueName "Jobs" must be`},
		{"queue with two hyphens", "F", `{"bindings":[{"type":"queueTrigger","queueName":"a--b","name":"m"}]}`, "queueName"},
		{"queue name too short", "F", `{"bindings":[{"type":"queueTrigger","queueName":"ab","name":"m"}]}`, "queueName"},
		{"queue as input", "F", `{"bindings":[` + timerBinding + `,{"type":"queue","queueName":"jobs","name":"q"}]}`, "cannot have the direction"},
		{"retry policy", "F", `{"retry":{"maxRetryCount":-1,"minimumInterval":"00:00:01","maximumInterval":"00:00:01"},"bindings":[` + timerBinding + `]}`, ""},
		{"retry policy without a count", "F", `{"retry":{"strategy":"fixedDelay","delayInterval":"00:00:01"},"bindings":[` + timerBinding + `]}`, "retry.maxRetryCount must be set"},
		{"retry policy without a delay", "F", `{"retry":{"strategy":"FixedDelay","maxRetryCount":1},"bindings":[` + timerBinding + `]}`, "retry.delayInterval must be set"},
		{"retry policy without a maximum", "F", `{"retry":{"maxRetryCount":1,"minimumInterval":"00:00:01"},"bindings":[` + timerBinding + `]}`, "retry.maximumInterval must be set"},
		{"retry policy whose delay shrinks", "F", `{"retry":{"maxRetryCount":1,"minimumInterval":"00:00:02","maximumInterval":"00:00:01"},"bindings":[` + timerBinding + `]}`, "retry.minimumInterval must be at most"},
		{"retry policy with a negative count", "F", `{"retry":{"maxRetryCount":-2,"minimumInterval":"0:0","maximumInterval":"0:0"},"bindings":[` + timerBinding + `]}`, "retry.maxRetryCount must be a whole number"},
		{"retry strategy", "F", `{"retry":{"strategy":"linear","maxRetryCount":1},"bindings":[` + timerBinding + `]}`, "retry.strategy must be"},
		{"script", "F", `{"scriptFile":"run.csx","bindings":[` + timerBinding + `]}`, "scriptFile is set"},
	}
	for _, tt := range tests {
		root := write(t, files{tt.folder + "/function.json": tt.file})
		expectError(t, tt.name, only(root, settings{"PLAN": "0 0 0 * * *", "QUEUE": "a-b"}).problem, tt.want)
		if !strings.Contains(tt.file, "%GONE%") { // CheckFunction has no settings
			expectError(t, tt.name+", CheckFunction", CheckFunction(filepath.Join(root, tt.folder)), tt.want)
		}
	}
}

// TestDisabled checks that only settings disable a function, and not "disabled"
// in its file.
func TestDisabled(t *testing.T) {
	for setting, want := range map[string]bool{
		"AzureWebJobs.F.Disabled=True":   true,
		"AzureWebJobs__F__Disabled=true": true,
		"AzureWebJobs.F.Disabled=false":  false,
		"AzureWebJobs.G.Disabled=true":   false,
	} {
		name, value, _ := strings.Cut(setting, "=")
		root := write(t, files{"F/function.json": `{"disabled":true,"bindings":[` + timerBinding + `]}`})
		f := only(root, settings{name: value})
		if f.problem != nil || f.disabled != want {
			t.Errorf("%s: got disabled %v, problem %v, want %v and none", setting, f.disabled, f.problem, want)
		}
	}
}

// only returns the function of an app that has one.
func only(root string, env settings) *function {
	functions := must(discover(root, nil, env))
	if len(functions) != 1 {
		panic(fmt.Sprintf("got %d functions, want one", len(functions)))
	}
	return functions[0]
}
