package project

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/config"
	"kennel/internal/dev/localhost"
)

// TestThisProjectIsValid checks the files at the root of this repository.
func TestThisProjectIsValid(t *testing.T) {
	here := must(os.Getwd()) // a caller may be in any folder below the root
	p := must(Open(here, localhost.CheckFunction))
	for _, name := range []string{"Health", "NextOrderId", "Status"} {
		if !slices.Contains(p.Functions, name) {
			t.Errorf("functions %q lack %s", p.Functions, name)
		}
	}
	var host struct{ FunctionTimeout string }
	if err := readJSON(filepath.Join(p.Root, "host.json"), &host); err != nil {
		t.Fatal(err)
	}
	// The handler must time out before the host does, which kills the handler.
	defaults, err := config.Load(map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
	if err != nil || host.FunctionTimeout != "00:05:00" || defaults.InvocationTimeout >= 5*time.Minute {
		t.Errorf("timeouts: %s in host.json, %s in the handler (%v); want 00:05:00 and less",
			host.FunctionTimeout, defaults.InvocationTimeout, err)
	}
	if _, err := readLocalSettings(filepath.Join(p.Root, "local.settings.json.sample")); err != nil {
		t.Errorf("the sample of local.settings.json: %v", err)
	}
}

const goodHost = `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"handler"}}}`

func TestOpen(t *testing.T) {
	check := func(folder string) error {
		if text, _ := os.ReadFile(filepath.Join(folder, "function.json")); string(text) != "" {
			return errors.New(string(text))
		}
		return nil
	}
	for _, tt := range []struct {
		name  string
		host  string
		files []string // below functions/
		text  string   // of the files; what check reports
		want  []string // in the error; none: no error
	}{
		{name: "good", host: goodHost, files: []string{"One/function.json"}},
		{name: "byte order mark", host: "\ufeff" + goodHost, files: []string{"One/function.json"}},
		{name: "outside", want: []string{"run this command inside the project"}},
		{name: "no functions folder", host: goodHost, want: []string{"does not exist", "needs at least one function"}},
		{name: "empty functions folder", host: goodHost, files: []string{"README"}, want: []string{"contains no function.json"}},
		{
			name:  "another executable",
			host:  strings.Replace(goodHost, `"handler"`, `"./handler"`, 1),
			files: []string{"One/function.json"},
			want:  []string{`defaultExecutablePath is "./handler"; set it to "handler"`},
		},
		{
			name: "everything at once", host: strings.Replace(goodHost, "2.0", "1.0", 1), text: "broken",
			files: []string{"function.json", "group/One/function.json", "Handler/function.json", "Same/function.json", "same/function.json"},
			want: []string{
				`version is "1.0"`,
				"functions/function.json: wrong depth",
				"functions/group/One/function.json: wrong depth; the host reads only functions/<Name>/function.json",
				`the name "Handler" is reserved`,
				`differs from the function "Same" only in case`,
				"functions/Same/function.json: broken",
			},
		},
	} {
		files := map[string]string{}
		if tt.host != "" {
			files["host.json"] = tt.host
		}
		for _, name := range tt.files {
			files["functions/"+name] = tt.text
		}
		_, err := Open(writeTree(t, files), check)
		expectError(t, tt.name, err, tt.want...)
	}
}

func TestLocalSettings(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string        // "" for none
		want LocalSettings // if there is no error
		err  string
	}{
		{name: "no file"},
		{
			name: "values", file: "\ufeff" + `{"IsEncrypted":false,"Values":{"A":"text","N":7,"F":1.50,"T":true,"Z":null}}`,
			want: LocalSettings{Values: map[string]string{"A": "text", "N": "7", "F": "1.50", "T": "true"}},
		},
		{
			name: "host", file: `{"IsEncrypted":false,"Host":{"LocalHttpPort":7075,"CORS":"*"}}`,
			want: LocalSettings{Values: map[string]string{}, Port: 7075, CORS: true},
		},
		{
			name: "host as text", file: `{"IsEncrypted":false,"Host":{"LocalHttpPort":"7075","CORS":""}}`,
			want: LocalSettings{Values: map[string]string{}, Port: 7075},
		},
		{name: "no port", file: `{"IsEncrypted":false,"Host":{"LocalHttpPort":"http"}}`, err: `Host.LocalHttpPort is "http"; use a number from 1 to 65535`},
		{name: "port too large", file: `{"IsEncrypted":false,"Host":{"LocalHttpPort":65536}}`, err: "Host.LocalHttpPort is 65536"},
		{name: "treated as encrypted", file: `{"Values":{"A":"1"}}`, err: `add "IsEncrypted": false`},
		{name: "encrypted", file: `{"IsEncrypted":true,"Values":{"A":"1"}}`, err: `add "IsEncrypted": false`},
		{name: "an object", file: `{"IsEncrypted":false,"Values":{"A":{"B":"1"}}}`, err: "A is an object or a list"},
		{name: "not JSON", file: `IsEncrypted=false`, err: "read local.settings.json"},
	} {
		files := map[string]string{}
		if tt.file != "" {
			files["local.settings.json"] = tt.file
		}
		got, err := (&Project{Root: writeTree(t, files)}).LocalSettings()
		expectError(t, tt.name, err, tt.err)
		if diff := cmp.Diff(tt.want, got); diff != "" && tt.err == "" {
			t.Errorf("%s: settings (-want +got):\n%s", tt.name, diff)
		}
	}
}

// expectError expects an error that contains all texts, or no error without a
// text.
func expectError(t *testing.T, name string, err error, texts ...string) {
	t.Helper()
	if (err == nil) != (strings.Join(texts, "") == "") {
		t.Errorf("%s: got error %v, want %q", name, err, texts)
	}
	for _, text := range texts {
		if err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got error %v, want %q", name, err, text)
		}
	}
}

// writeTree writes the files, named with slashes, into a new folder.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root, tree := t.TempDir(), fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	if err := os.CopyFS(root, tree); err != nil {
		t.Fatal(err)
	}
	return root
}

// must returns the result of a call that is not under test, and panics on an
// error.
func must[T any](result T, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}

func readFile(path string) string { return string(must(os.ReadFile(path))) }
