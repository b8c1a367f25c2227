package main

import "testing"

// TestDescribeFiles: a check names what differs, and a run what was done with it.
func TestDescribeFiles(t *testing.T) {
	files := []changedFile{{"functions/A/function.json", "missing"}, {"infra/app.json", "different"}, {"functions/B/function.json", "undeclared"}}
	for check, want := range map[bool]string{
		true:  "missing    functions/A/function.json\ndifferent  infra/app.json\nundeclared functions/B/function.json\n",
		false: "added      functions/A/function.json\nchanged    infra/app.json\nremoved    functions/B/function.json\n",
	} {
		if got := describeFiles(files, check); got != want {
			t.Errorf("check %t: %q, want %q", check, got, want)
		}
	}
}
