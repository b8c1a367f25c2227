package project

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestPartition(t *testing.T) {
	const source = `{"bindings":[{"type":"queueTrigger","name":"message","queueName":"%s"}]}`
	root := writeTree(t, map[string]string{
		"host.json": goodHost, "built": "handler",
		"functions/ProcessWork/function.json":        fmt.Sprintf(source, "work-0"),
		"functions/ProcessWorkExpress/function.json": fmt.Sprintf(source, "work-express"),
	})
	for _, n := range []int{4, 12, 2, 1} { // the copies of the last time are removed
		p := &Project{Root: root, Functions: []string{"ProcessWork", "ProcessWorkExpress"}}
		if err := p.Partition(n); err != nil {
			t.Fatal(err)
		}
		dist := must(p.Stage(t.Context(), Target{}, &StageOptions{Prebuilt: filepath.Join(root, "built")}))
		want := map[string]string{"ProcessWork": "work-0", "ProcessWorkExpress": "work-express"}
		for i := 1; i < n; i++ {
			want[fmt.Sprint("ProcessWork", i)] = fmt.Sprint("work-", i)
		}
		staged := must(filepath.Glob(filepath.Join(dist, "*", "function.json")))
		if len(staged) != len(want) || len(p.Functions) != len(want) {
			t.Errorf("%d partitions: staged %q and listed %q, want %d functions", n, staged, p.Functions, len(want))
		}
		for name, queue := range want {
			if got := readFile(filepath.Join(dist, name, "function.json")); got != fmt.Sprintf(source, queue) {
				t.Errorf("%d partitions: %s is %s, want queue %s", n, name, got, queue)
			}
		}
		if made := must(p.Pack(dist, filepath.Join(dist, "kennel.zip"))); len(made.Files) != len(want)+2 {
			t.Errorf("%d partitions: packed %q", n, made.Files)
		}
	}

	p := &Project{Root: root, Functions: []string{"ProcessWork", "ProcessWork3"}}
	expectError(t, "a function with the name of a copy", p.Partition(4), "functions/ProcessWork3 is in the way")
	if err := os.WriteFile(filepath.Join(root, "functions", "ProcessWork", "function.json"), []byte(fmt.Sprintf(source, "work")), 0o644); err != nil {
		t.Fatal(err)
	}
	p = &Project{Root: root, Functions: []string{"ProcessWork"}}
	expectError(t, "another queue", p.Partition(4), `must contain "work-0" once`)
	p = &Project{Root: root, Functions: []string{"Status"}}
	expectError(t, "no such function", p.Partition(4), "")
}

// TestPrefix: the queues of staged functions have the prefix, and nothing else of
// them is changed; a queue of another connection and a setting have none.
func TestPrefix(t *testing.T) {
	const own = `{"bindings": [{"type":"queueTrigger", "queueName" : "%s", "connection":"AzureWebJobsStorage","extra":1}]}`
	root := writeTree(t, map[string]string{
		"host.json": goodHost, "built": "handler",
		"functions/ProcessWork/function.json":  fmt.Sprintf(own, "work-0"),
		"functions/Queue-emails/function.json": fmt.Sprintf(own, "emails"),
		"functions/Setting/function.json":      fmt.Sprintf(own, "%QUEUE%"),
		"functions/Other/function.json":        `{"bindings":[{"type":"queueTrigger","queueName":"other","connection":"OtherStorage"}]}`,
	})
	p := &Project{Root: root, Functions: []string{"Other", "ProcessWork", "Queue-emails", "Setting"}, Prefix: "test2"}
	if err := p.Partition(2); err != nil {
		t.Fatal(err)
	}
	dist := must(p.Stage(t.Context(), Target{}, &StageOptions{Prebuilt: filepath.Join(root, "built")}))
	for name, want := range map[string]string{
		"ProcessWork": fmt.Sprintf(own, "test2-work-0"), "ProcessWork1": fmt.Sprintf(own, "test2-work-1"), "Queue-emails": fmt.Sprintf(own, "test2-emails"),
		"Setting": fmt.Sprintf(own, "%QUEUE%"), "Other": readFile(filepath.Join(root, "functions", "Other", "function.json")),
	} {
		if got := readFile(filepath.Join(dist, name, "function.json")); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
