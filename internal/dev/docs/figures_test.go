package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/version"
)

// The page keeps its text and what was not measured. Rows are recognized by
// their names without details, and new ones find their place.
func TestFigures(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "MODULE", version.Module)), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	page := file("page.md", "# Benchmarks\n\nBy hand.\n\n"+begin+format([]figure{
		{"gate", "reads (7 runs)", "33", "≤ 40"},
		{"gate", "kept", "1 of 2 (a detail)", "none"},
		{"ids", "rate", "99 %", "≥ 92 %"},
	}, "yesterday")+end+"\nA footnote.\n")
	prove := file("prove.txt", `=== RUN   TestReads
    reads_test.go:7: figure: reads (9 runs) | 34 | ≤ 41
    reads_test.go:8: figure: reads at the worst | 50 | none
--- PASS: TestReads (0.00s)
PASS
ok  	MODULE/gate	0.771s
?   	MODULE/queue	[no test files]
    infra_test.go:5: figure: mistakes found | 98 % | at least 90 %
PASS
ok  	MODULE	0.1s
    a_test.go:1: figure: size | 11 MB | ≤ 25 MB
FAIL	MODULE/handler	0.1s
`)
	bench := file("bench.txt", `pkg: MODULE/ids
BenchmarkFigures-2   	       1	 431978473 ns/op
--- BENCH: BenchmarkFigures-2
    figures_test.go:63: figure: rate | 98 % of a bare (atomic) add | ≥ 92 %
PASS
ok  	MODULE/ids	0.443s
`)
	for range 2 { // the second time changes nothing
		if err := writeFigures(page, []string{prove, bench}, "today"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		want := "# Benchmarks\n\nBy hand.\n\n" + begin + format([]figure{
			{".", "mistakes found", "98 %", "at least 90 %"},
			{"gate", "reads (9 runs)", "34", "≤ 41"},
			{"gate", "reads at the worst", "50", "none"},
			{"gate", "kept", "1 of 2 (a detail)", "none"},
			{"handler", "size", "11 MB", "≤ 25 MB"},
			{"ids", "rate", "98 % of a bare (atomic) add", "≥ 92 %"},
		}, "today") + end + "\nA footnote.\n"
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("page (-want +got):\n%s", diff)
		}
	}
	if err := writeFigures(file("other.md", "# Other\n"), []string{prove}, "today"); err == nil || !strings.Contains(err.Error(), "add them") {
		t.Errorf("a page without markers: %v", err)
	}
}

// TestPage checks that `make bench` can write the page of this repository.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeFigures(page, nil, "today"); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if before, after := strings.Count(string(text), "\n| "), strings.Count(string(again), "\n| "); before != after || before < 20 {
		t.Errorf("%d rows became %d", before, after)
	}
}
