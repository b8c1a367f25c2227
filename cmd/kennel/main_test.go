package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// call runs kennel in this process.
func call(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"kennel"}, args...), env, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestEveryCommandHasAWholeHelpPage(t *testing.T) {
	for _, cmd := range commands() {
		if cmd.summary == "" || cmd.about == "" || cmd.example == "" || cmd.exits == "" {
			t.Errorf("command %s: summary %q, about %q, example %q, exits %q: none may be empty",
				cmd.name, cmd.summary, cmd.about, cmd.example, cmd.exits)
		}
		code, stdout, stderr := call(t, nil, "help", cmd.name)
		if code != exitDone || stderr != "" {
			t.Errorf("help %s: code %d, stderr %q", cmd.name, code, stderr)
		}
		if _, byFlag, _ := call(t, nil, cmd.name, "--help"); byFlag != stdout {
			t.Errorf("%s --help differs from help %s: %s", cmd.name, cmd.name, cmp.Diff(stdout, byFlag))
		}
	}
}

func TestNearest(t *testing.T) {
	tests := []struct{ name, want string }{
		{"nxt", "next"},
		{"pack", "package"},
		{"tethr", ""}, // hidden
	}
	for _, tt := range tests {
		if got := nearest(tt.name); got != tt.want {
			t.Errorf("nearest(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// JSON would alter texts that are not UTF-8.
func TestTextsAreUTF8(t *testing.T) {
	code, _, stderr := call(t, nil, "gate", "close", "hounds", "--by", "J\xfcrgen")
	if code != exitUsage || !strings.Contains(stderr, "--by says is not UTF-8") {
		t.Errorf("code %d, stderr %q, want %d and the flag", code, stderr, exitUsage)
	}
}

func TestProgramName(t *testing.T) {
	for first, want := range map[string]string{
		"bin/kennel":                      "bin/kennel",
		"kennel":                          "kennel",
		"/tmp/go-build12/b001/exe/kennel": "go run ./cmd/kennel",
	} {
		if got := programName([]string{first, "up"}); got != want {
			t.Errorf("%s: got %q, want %q", first, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[31mb\r\nc\td\u009be ü":            "a\ufffd[31mb\ufffd\nc\td\ufffde ü",
		"swen\u202e?lla eteled\u2066":            `swen\u202e?lla eteled\u2066`,
		"ne\u200bws\ufeff\u00ad\u2028\U000e0041": `ne\u200bws\ufeff\u00ad\u2028\U000e0041`,
		"日本語 👍 'a' \\ e\u0301":                   "日本語 👍 'a' \\ e\u0301",
		"\xff":                                   "\ufffd",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// The null device is no terminal, though it is a device as terminals are.
func TestIsTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, stream := range []any{null, r, w, new(bytes.Buffer), nil} {
		if isTerminal(stream) {
			t.Errorf("%v counts as a terminal", stream)
		}
	}
}

func TestVersionOf(t *testing.T) {
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"},
			{Key: "vcs.modified", Value: "true"},
		},
	}
	if got := versionOf(info); got.Version != "v1.2.3" || got.Commit != "abc+changes" {
		t.Errorf("got %+v, want version v1.2.3, commit abc+changes", got)
	}
	if got := versionOf(nil); got.Version != "(devel)" || got.Commit != "" {
		t.Errorf("without build info: got %+v, want version (devel), no commit", got)
	}
}

func TestPackage(t *testing.T) {
	root, out := t.TempDir(), filepath.Join("dist", "kennel.zip")
	handler := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...) // of a Linux program for x64
	handler[16], handler[18], handler[20], handler[52] = 2, 62, 1, 64
	for name, text := range map[string]string{
		"host.json":                   `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"handler"}}}`,
		"functions/One/function.json": `{"bindings":[{"type":"timerTrigger","name":"tick","schedule":"0 0 0 * * *"}]}`,
		"built":                       string(handler),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755), os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	code, stdout, stderr := call(t, nil, "package", "--handler", "built")
	want := "  -rw-r--r--  One/function.json\n  -rwxr-xr-x  handler\n  -rw-r--r--  host.json\n"
	if code != exitDone || !strings.HasPrefix(stdout, out+"  0.0 MB  sha256 ") || stderr != want {
		t.Errorf("code %d, stdout %q, stderr %q, want %d, %q and %q", code, stdout, stderr, exitDone, out, want)
	}
	if _, stdout, _ = call(t, nil, "package", "--handler", "built", "--json"); !strings.Contains(stdout, `kennel.zip","size":`) {
		t.Errorf("with --json: %q", stdout)
	}
	code, _, stderr = call(t, nil, "package", "--handler", "host.json")
	if code != exitFailed || !strings.Contains(stderr, "the handler is no Linux program") {
		t.Errorf("with another file: code %d, stderr %q, want %d and why", code, stderr, exitFailed)
	}
}
