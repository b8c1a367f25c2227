package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// call runs kennel in this process.
func call(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"kennel"}, args...), env, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

const maxHelpLine = 92

func TestEveryCommandHasAWholeHelpPage(t *testing.T) {
	for _, cmd := range tree(newConsole(nil, nil, nil, io.Discard, io.Discard).rootCommand()) {
		exits := cmd.Annotations["exits"]
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" || exits == "" || cmd.Args == nil {
			t.Errorf("%s: summary %q, about %q, example %q, exits %q: none may be empty, and its arguments must be checked",
				cmd.CommandPath(), cmd.Short, cmd.Long, cmd.Example, exits)
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		code, stdout, stderr := call(t, nil, append([]string{"help"}, path...)...)
		if code != exitDone || stderr != "" {
			t.Errorf("help %s: code %d, stderr %q", path, code, stderr)
		}
		if _, byFlag, _ := call(t, nil, append(path, "--help")...); byFlag != stdout {
			t.Errorf("%s --help differs from help %[1]s: %s", path, cmp.Diff(stdout, byFlag))
		}
		for line := range strings.Lines(stdout) {
			if utf8.RuneCountInString(line) > maxHelpLine+1 {
				t.Errorf("%s: a line of its help is longer than %d characters: %s", cmd.CommandPath(), maxHelpLine, line)
			}
			if strings.Count(line, "(default") > 1 {
				t.Errorf("%s: a default is repeated: %s", cmd.CommandPath(), line)
			}
		}
	}
}

// tree returns cmd and all commands below it.
func tree(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		all = append(all, tree(c)...)
	}
	return all
}

// JSON alters texts that are not UTF-8.
func TestTextsAreUTF8(t *testing.T) {
	code, _, stderr := call(t, nil, "gate", "close", "hounds", "--by", "J\xfcrgen")
	if code != exitUsage || !strings.Contains(stderr, "the value of --by is not valid UTF-8") {
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
		"ne\u034fws\u3164\ufe0f\U000e0100":       `ne\u034fws\u3164\ufe0f\U000e0100`,
		"日本語 👍 'a' \\ e\u0301":                   "日本語 👍 'a' \\ e\u0301",
		"\xff":                                   "\ufffd",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// The null device is a character device, as terminals are, but not a terminal.
func TestIsTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	r, w, err2 := os.Pipe()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	defer r.Close()
	defer w.Close()
	for _, stream := range []any{null, r, w, new(bytes.Buffer), nil} {
		if isTerminal(stream) {
			t.Errorf("%v is treated as a terminal", stream)
		}
	}
}

// same expects equal values.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// expectError expects an error that contains text, or no error if text is
// empty.
func expectError(t *testing.T, what string, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got error %v, want %q", what, err, text)
	}
}
