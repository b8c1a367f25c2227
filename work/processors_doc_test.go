package work_test

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedProcessor keeps the processor of docs/processors.md equal to the
// one that is compiled here.
func TestDocumentedProcessor(t *testing.T) {
	source, err := os.ReadFile("example_processor_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/processors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "// Shout is")
	code, _, found := strings.Cut("// Shout is"+code, "// A third processor")
	if !found || !strings.Contains(string(page), "```go\n"+strings.TrimSpace(code)+"\n```") {
		t.Errorf("docs/processors.md does not contain:\n%s", code)
	}
}
