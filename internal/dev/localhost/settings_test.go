package localhost

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoadSettings(t *testing.T) {
	env := map[string]string{"Kept": "environment", "path": "/bin"}
	tests := []struct {
		name, file string
		want       map[string]string // beside env
		warning    string
		problem    string
	}{
		{name: "texts, numbers, booleans and nulls",
			file: `{"IsEncrypted":false,"Values":{"A":"text","N":7,"F":1.50,"T":true,"Z":null}}`,
			want: map[string]string{"A": "text", "N": "7", "F": "1.50", "T": "true"}},
		{name: "the environment wins",
			file: `{"IsEncrypted":false,"Values":{"Kept":"file","PATH":"file","New":"file"}}`,
			want: map[string]string{"New": "file", "PATH": "file"}},
		{name: "one object loses all values",
			file:    `{"IsEncrypted":false,"Values":{"A":"text","Deep":{"x":1}},"ConnectionStrings":{"Db":"text"}}`,
			want:    map[string]string{"ConnectionStrings:Db": "text"},
			warning: "Values.Deep is an object"},
		{name: "so does a list",
			file: `{"IsEncrypted":false,"Values":{"L":[1],"A":"text"}}`, warning: "Values.L"},
		{name: "connection strings",
			file: `{"IsEncrypted":false,"ConnectionStrings":{"Db":{"ConnectionString":"text","ProviderName":"p"}}}`,
			want: map[string]string{"ConnectionStrings:Db": "text"}},
		{name: "byte order mark", file: "\ufeff" + `{"IsEncrypted":false,"Values":{"A":"b"}}`, want: map[string]string{"A": "b"}},
		{name: "encryption not mentioned", file: `{"Values":{"A":"text"}}`, problem: `"IsEncrypted": false is missing`},
		{name: "encrypted", file: `{"IsEncrypted":true,"Values":{"A":"x"}}`, problem: `"IsEncrypted": false is missing`},
		{name: "no JSON", file: `IsEncrypted=false`, problem: "read local.settings.json"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, warnings, err := loadSettings(write(t, files{"local.settings.json": test.file}), env)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("got error %v, want one with %q", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(warnings, "\n"); !strings.Contains(all, test.warning) || (test.warning == "") != (all == "") {
				t.Errorf("got warnings %q, want %q", all, test.warning)
			}
			want := maps.Clone(env)
			maps.Copy(want, test.want)
			if diff := cmp.Diff(map[string]string(got), want); diff != "" {
				t.Errorf("settings (got -, want +):\n%s", diff)
			}
		})
	}
	if got, _, err := loadSettings(t.TempDir(), env); err != nil || len(got) != len(env) {
		t.Errorf("without a file: got %v, %v; want the environment", got, err)
	}
}

func TestExpand(t *testing.T) {
	env := settings{"Name": "x", "EMPTY": ""}
	for text, want := range map[string]string{
		"a%NAME%b%name%": "axbx",
		"%EMPTY%":        "",
		"100%":           "100%",
		"%%":             "%%",
	} {
		if got, err := env.resolve(text); err != nil || got != want {
			t.Errorf("resolve %q: got %q, %v; want %q", text, got, err, want)
		}
	}
	if got, missing := env.expand("<%GONE%>"); got != "<>" || len(missing) != 1 {
		t.Errorf("expand an unset name: got %q, %v; want nothing in its place", got, missing)
	}
	if _, err := env.resolve("%GONE%"); err == nil || !strings.Contains(err.Error(), "GONE") {
		t.Errorf("resolve an unset name: got %v, want an error with the name", err)
	}
}
