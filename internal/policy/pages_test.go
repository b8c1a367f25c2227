package policy

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"kennel/internal/storetest"
	"kennel/internal/version"
)

// pageProgram is a program in a page.
var pageProgram = regexp.MustCompile("```go\n(package main\n(?s:.*?))```")

// TestProgramsOfPages: the programs that pages show compile.
func TestProgramsOfPages(t *testing.T) {
	files := make(map[string]string)
	for name, text := range repository(t) {
		if len(name) > 3 && name[len(name)-3:] == ".md" {
			for _, m := range pageProgram.FindAllStringSubmatch(text, -1) {
				files["examples/page"+string(rune('a'+len(files)))+"/main.go"] = strings.Replace(m[1], "\t\"kennel\"\n", "\t\""+version.Module+"\"\n", 1) // if the module has another name
			}
		}
	}
	if len(files) == 0 {
		t.Fatal("no page has a program")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // includes the compilation of the module
	defer cancel()
	args := append([]string{"build"}, storetest.BuildFlags()...)
	args = append(args, "-overlay="+overlay(t, files), "./internal/attempt") // several packages are compiled and not linked
	for name := range files {
		args = append(args, "./"+name[:len(name)-len("/main.go")])
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
