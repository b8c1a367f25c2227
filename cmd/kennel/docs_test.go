package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/cli.md")

// TestReference checks that docs/cli.md has the help page of every command:
//
//	go test ./cmd/kennel -run TestReference -update
func TestReference(t *testing.T) {
	var text strings.Builder
	text.WriteString(`# The command line

This page contains the help of every command, as ` + "`kennel help`" + ` prints it. A test writes and checks it
(` + "`go test ./cmd/kennel -run TestReference -update`" + `). Built in the repository, the program is ` + "`bin/kennel`" + `.
`)
	for _, cmd := range tree(newConsole(nil, nil, nil, io.Discard, io.Discard).rootCommand()) {
		if !cmd.Hidden {
			page := helpPage(cmd, func(title string) string { return title })
			fmt.Fprintf(&text, "\n## %s\n\n```text\n%s```\n", cmd.CommandPath(), page)
		}
	}
	path := filepath.Join("..", "..", "docs", "cli.md")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text.String(), string(got)); diff != "" {
		t.Errorf("docs/cli.md is outdated; run the test with -update (-want +got):\n%s", diff)
	}
}

// inText finds command lines in documents, and argument those parts of them.
var (
	inText   = regexp.MustCompile("`(?:bin/)?(kennel [^`\n|…]+)`")
	argument = regexp.MustCompile(`"[^"]*"|\S+`)
)

// TestExamplesExist checks that the commands and flags of all examples exist,
// in help pages and in documents.
func TestExamplesExist(t *testing.T) {
	examples := make(map[string][]string) // by where they are
	for _, cmd := range tree(newConsole(nil, nil, nil, io.Discard, io.Discard).rootCommand()) {
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "  ") // its explanation
			line, _, _ = strings.Cut(line, " && ")
			line, _, _ = strings.Cut(line, " | ")
			if strings.HasPrefix(line, "kennel ") {
				examples[cmd.CommandPath()] = append(examples[cmd.CommandPath()], line)
			}
		}
	}
	documents, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(documents, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range inText.FindAllStringSubmatch(string(text), -1) {
			examples[path] = append(examples[path], m[1])
		}
	}
	for where, lines := range examples {
		for _, line := range lines {
			root := newConsole(nil, nil, nil, io.Discard, io.Discard).rootCommand()
			cmd, rest, err := root.Find(argument.FindAllString(line, -1)[1:])
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil && cmd.HasSubCommands() {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if _, ok := errors.AsType[*pflag.ValueRequiredError](err); err != nil && !ok { // a sentence may name a flag alone
				t.Errorf("%s: %s: %v", where, line, err)
			}
		}
	}
	if len(examples) < 10 {
		t.Errorf("found examples only in %d places", len(examples))
	}
}
