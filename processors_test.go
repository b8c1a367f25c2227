package kennel

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"kennel/internal/storetest"
)

// ownProcessorBatch is added to the test of the page: a batch for the processor,
// and an answer that names it.
const ownProcessorBatch = `
func TestShoutBatch(t *testing.T) {
	m := newMemoryBatches(t, memory.NewQueues(nil), nil)
	host := apiOf(t, m)
	b := m.call(t, host, "POST", "/api/batches?processor=shout", "{\"id\":\"1\",\"text\":\"hello\"}\n{\"id\":\"2\",\"text\":\"HELLO\"}\n")
	m.deliver(t)
	if got := m.call(t, host, "GET", "/api/batches/"+b.ID, ""); got.Done != 1 || got.Rejected != 1 {
		t.Errorf("%s", got.Body)
	}
	if got := m.call(t, host, "POST", "/api/batches?processor=shut", "{}"); !strings.Contains(got.failed.Message, "billing, shout, webhook") {
		t.Errorf("%s", got.Body)
	}
}
`

// documentedFile is a file in a page: its path in backquotes, and its text in
// the block after it.
var documentedFile = regexp.MustCompile("`([\\w/]+\\.go)`[^`]*(?:`go test[^`]*`[^`]*)?```go\n((?s:.*?))```")

// TestOwnProcessor puts what docs/processors.md shows where the page says, and
// runs its test.
func TestOwnProcessor(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "processors.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, m := range documentedFile.FindAllStringSubmatch(string(page), -1) {
		files[m[1]] = m[2]
	}
	const processor, test, list = "handler/shout.go", "handler/shout_test.go", "handler/processors.go"
	if len(files) != 3 || files[processor] == "" || files[test] == "" {
		t.Fatalf("the page has %d files", len(files))
	}
	source, err := os.ReadFile(filepath.FromSlash(list))
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(source), "map[string]work.Processor{\n")
	if line := files[list]; !found || strings.Count(line, "\n") != 1 {
		t.Fatalf("%s has a map of processors: %v; the page adds to it: %q", list, found, line)
	}
	files[list] = before + "map[string]work.Processor{\n" + files[list] + after
	files[test] = strings.NewReplacer("\t\"testing\"\n", "\t\"strings\"\n\t\"testing\"\n", "\t\"kennel/work\"\n", "\t\"kennel/internal/memory\"\n\t\"kennel/work\"\n").Replace(files[test]) + ownProcessorBatch

	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // includes the build
	defer cancel()
	args := []string{"vet", "-overlay=" + overlay(t, files), "./handler"}
	if storetest.Proving() {
		args = []string{"test", "-v", "-vet=off", "-count=1", args[1], "-run=^TestShout", args[2]}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || storetest.Proving() && (!strings.Contains(string(out), "--- PASS: TestShout (") || !strings.Contains(string(out), "--- PASS: TestShoutBatch (")) {
		t.Errorf("go %s: %v\n%s", args[0], err, out)
	}
}
