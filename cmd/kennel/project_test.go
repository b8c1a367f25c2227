package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/internal/config"
)

// TestThisProjectIsFit checks the files at the root of this repository.
func TestThisProjectIsFit(t *testing.T) {
	p, err := openProject(".") // from inside, as a caller may be anywhere below the root
	if err == nil {
		t.Fatalf("opened a project at a relative path: %+v", p)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	p, err = openProject(here)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Dir(filepath.Dir(here)); p.root != want {
		t.Errorf("root %q, want %q", p.root, want)
	}
	for _, name := range []string{"Health", "NextOrderId", "Status"} {
		if !slices.Contains(p.functions, name) {
			t.Errorf("functions %q lack %s", p.functions, name)
		}
	}
	var host struct{ FunctionTimeout string }
	if err := readJSON(filepath.Join(p.root, "host.json"), &host); err != nil {
		t.Fatal(err)
	}
	// The handler has to give up before the host does, which would kill it.
	defaults, err := config.Load(map[string]string{storageSetting: developmentStorage})
	if err != nil || host.FunctionTimeout != "00:05:00" || defaults.InvocationTimeout >= 5*time.Minute {
		t.Errorf("host.json gives a function %s, and the handler %s (%v); want 00:05:00 and less",
			host.FunctionTimeout, defaults.InvocationTimeout, err)
	}
	if _, err := readLocalSettings(filepath.Join(p.root, "local.settings.json.sample")); err != nil {
		t.Errorf("the sample of local.settings.json: %v", err)
	}
}

const goodHost = `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"handler"}}}`

const goodFunction = `{"bindings":[
	{"type":"httpTrigger","direction":"in","name":"req","authLevel":"function"},
	{"type":"http","direction":"out","name":"res"}]}`

func TestOpenProject(t *testing.T) {
	with := func(function string) map[string]string {
		return map[string]string{"host.json": goodHost, "functions/One/function.json": function}
	}
	tests := []struct {
		name  string
		files map[string]string
		want  []string // in the error; none: no error
	}{
		{
			name:  "good",
			files: with(goodFunction),
		},
		{
			name:  "byte order mark",
			files: map[string]string{"host.json": "\ufeff" + goodHost, "functions/One/function.json": "\ufeff" + goodFunction},
		},
		{
			name: "queue and timer, and a type only the host knows",
			files: map[string]string{
				"host.json":                 goodHost,
				"functions/A/function.json": `{"bindings":[{"type":"queueTrigger","direction":"in","name":"msg","queueName":"%Q%","connection":"AzureWebJobsStorage"}]}`,
				"functions/B/function.json": `{"bindings":[{"type":"timerTrigger","direction":"in","name":"timer","schedule":"0 * * * * *"}]}`,
				"functions/C/function.json": `{"bindings":[{"type":"newTrigger","direction":"in","name":"x"},{"type":"new","direction":"out","name":"$return"}]}`,
			},
		},
		{
			name:  "no functions folder",
			files: map[string]string{"host.json": goodHost},
			want:  []string{"there is no folder", "without functions does nothing"},
		},
		{
			name:  "empty functions folder",
			files: map[string]string{"host.json": goodHost, "functions/README": "none yet"},
			want:  []string{"holds no function.json"},
		},
		{
			name: "another executable",
			files: map[string]string{
				"host.json":                   strings.Replace(goodHost, `"handler"`, `"./handler"`, 1),
				"functions/One/function.json": goodFunction,
			},
			want: []string{`defaultExecutablePath is "./handler", but the package holds "handler"`},
		},
		{
			name:  "two problems in two files",
			files: map[string]string{"host.json": strings.Replace(goodHost, "2.0", "1.0", 1), "functions/function.json": goodFunction},
			want:  []string{`version is "1.0"`, "functions/function.json is at the wrong depth"},
		},
		{
			name:  "too deep",
			files: map[string]string{"host.json": goodHost, "functions/group/One/function.json": goodFunction},
			want:  []string{"functions/group/One/function.json is at the wrong depth: the host looks for functions/<Name>/function.json only"},
		},
		{
			name: "names",
			files: map[string]string{
				"host.json":                       goodHost,
				"functions/1st/function.json":     goodFunction,
				"functions/Handler/function.json": goodFunction,
				"functions/Same/function.json":    goodFunction,
				"functions/same/function.json":    goodFunction,
			},
			want: []string{`"1st" is no function name`, `the name "Handler" is taken`, `differs from the function "Same" in case only`},
		},
		{
			name:  "not JSON",
			files: with(`{"bindings":`),
			want:  []string{"functions/One/function.json: read function.json:"},
		},
		{
			name:  "no bindings",
			files: with(`{}`),
			want:  []string{"has 0 triggers: every function has exactly one"},
		},
		{
			name:  "a script",
			files: with(strings.Replace(goodFunction, "{", `{"scriptFile":"index.js",`, 1)),
			want:  []string{"scriptFile is set"},
		},
		{
			name: "bindings",
			files: with(`{"bindings":[
				{"type":"httpTrigger","direction":"out","name":"my-req","authLevel":"Function"},
				{"type":"queueTrigger","direction":"in","name":"msg"},
				{"type":"timerTrigger","direction":"in","name":"MSG"},
				{"direction":"in","name":"x"},
				{"type":"queue","direction":"","name":"$return"}]}`),
			want: []string{
				`binding 1: "my-req" is no binding name`,
				`binding 1: direction of a httpTrigger is "out": write in`,
				`binding 1: authLevel is "Function"`,
				"binding 2: queueName is missing",
				"binding 3: schedule is missing",
				`binding 3: name "MSG" is used twice`,
				"binding 4: type is missing",
				`binding 5: "$return" is no binding name`,
				`binding 5: direction of a queue is "": write in or out`,
				"has 3 triggers",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := writeTree(t, test.files)
			_, err := openProject(root)
			if len(test.want) == 0 && err != nil {
				t.Fatalf("got %v, want no error", err)
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v\nwant an error with %q", err, want)
				}
			}
		})
	}
}

func TestOpenProjectOutsideOfOne(t *testing.T) {
	if _, err := openProject(t.TempDir()); err == nil || !strings.Contains(err.Error(), "run this inside the project") {
		t.Errorf("got %v, want an error that says where to run it", err)
	}
}

// writeTree writes the files, named with slashes, into a new folder.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
