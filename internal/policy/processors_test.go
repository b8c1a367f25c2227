package policy

import (
	"context"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"kennel/internal/storetest"
	"kennel/internal/version"
)

// ownProcessorKnown is added to the test of the page: the app has the processor.
const ownProcessorKnown = `
func TestShoutIsKnown(t *testing.T) {
	processors, err := newProcessors(config.Config{})
	if _, ok := processors["shout"].(shout); !ok || err != nil {
		t.Errorf("processors %v, %v", processors, err)
	}
}
`

// ownProcessorBatch is a batch for the processor, beside the tests of others.
const ownProcessorBatch = `package parts

import (
	"testing"

	"MODULE/internal/memory"
)

func TestShoutBatch(t *testing.T) {
	m := newMemoryBatches(t, memory.NewQueues(nil), nil)
	m.processors["shout"] = shout{}
	host := apiOf(t, m)
	b := m.call(t, host, "POST", "/api/batches?processor=shout", "{\"id\":\"1\",\"text\":\"hello\"}\n{\"id\":\"2\",\"text\":\"HELLO\"}\n")
	m.deliver(t)
	if got := m.call(t, host, "GET", "/api/batches/"+b.ID, ""); got.Done != 1 || got.Rejected != 1 {
		t.Errorf("%s", got.Body)
	}
}
`

// documentedFile is a file in a page: its path in backquotes, and its text in
// the block after it.
var documentedFile = regexp.MustCompile("`([\\w/]+\\.go)`[^`]*(?:`go test[^`]*`[^`]*)?```go\n((?s:.*?))```")

// ownImport is the import that the page's test has of the module.
var ownImport = regexp.MustCompile(`(?m)^\t"(.*)/work"\n`)

// TestOwnProcessor puts what docs/processors.md shows where the page says. It
// parses that, and in make prove it runs the test of the page: a build without
// the race detector would be a second one of all dependencies in make test.
func TestOwnProcessor(t *testing.T) {
	all := repository(t)
	files := make(map[string]string)
	for _, m := range documentedFile.FindAllStringSubmatch(all["docs/processors.md"], -1) {
		files[m[1]] = m[2]
	}
	const processor, test, list = "handler/shout.go", "handler/shout_test.go", "handler/processors.go"
	if len(files) != 3 || files[processor] == "" || files[test] == "" {
		t.Fatalf("the page has %d files", len(files))
	}
	before, after, found := strings.Cut(all[list], "map[string]work.Processor{\n")
	if line := files[list]; !found || strings.Count(line, "\n") != 1 {
		t.Fatalf("%s has a map of processors: %v; the page adds to it: %q", list, found, line)
	}
	files[list] = before + "map[string]work.Processor{\n" + files[list] + after
	files[test] = ownImport.ReplaceAllString(files[test], "\t\"$1/internal/config\"\n$0") + ownProcessorKnown
	files["internal/parts/shout_test.go"] = strings.Replace(files[processor], "package main\n", "package parts\n", 1)
	files["internal/parts/shoutbatch_test.go"] = strings.ReplaceAll(ownProcessorBatch, "MODULE", version.Module)

	for name, text := range files {
		if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.AllErrors); err != nil {
			t.Error(err)
		}
	}
	if !storetest.Proving() {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // includes the build
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-v", "-vet=off", "-count=1", "-overlay="+overlay(t, files), "-run=^TestShout", "./handler", "./internal/parts")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	for _, name := range []string{"TestShout", "TestShoutIsKnown", "TestShoutBatch"} {
		if err != nil || !strings.Contains(string(out), "--- PASS: "+name+" (") {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
}
