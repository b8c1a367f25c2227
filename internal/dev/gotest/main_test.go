package main

import (
	"slices"
	"testing"
)

func TestCrashed(t *testing.T) {
	const (
		crash  = "SIGSEGV: segmentation violation\nPC=0x41c729 m=5 sigcode=1\n\ngoroutine 0 [idle]:\n"
		checks = "ThreadSanitizer: CHECK failed: tsan_rtl.cpp:375 \"((0)) != (0)\" (0x0, 0x0) (tid=1)\n"
		passed = "ok  \tkennel/ids\t83.537s\n?   \tkennel/internal/names\t[no test files]\n"
		gate   = "FAIL\tkennel/gate\t13.061s\n"
	)
	for name, test := range map[string]struct {
		output string
		want   []string
	}{
		"nothing":            {passed, nil},
		"a crash":            {crash + gate + passed + "FAIL\n", []string{"kennel/gate"}},
		"behind others":      {passed + crash + gate + "FAIL\n", []string{"kennel/gate"}},
		"two crashes":        {crash + gate + passed + checks + "FAIL\tkennel/work\t3s\nFAIL\n", []string{"kennel/gate", "kennel/work"}},
		"a failed test":      {"--- FAIL: TestWait (0.10s)\n    wait_test.go:3: no\nFAIL\n" + gate, nil},
		"a failed subtest":   {"    --- FAIL: TestWait/late (0.10s)\n" + crash + gate, nil},
		"another fails":      {crash + gate + "--- FAIL: TestNext (0.10s)\nFAIL\nFAIL\tkennel/ids\t1s\nFAIL\n", nil},
		"a race":             {"WARNING: DATA RACE\n" + crash + gate, nil},
		"a panic":            {"panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x1]\n" + gate, nil},
		"a deadlock":         {"fatal error: all goroutines are asleep - deadlock!\n" + gate, nil},
		"does not compile":   {"# kennel/gate\ngate/read.go:5: undefined: x\nFAIL\tkennel/gate [build failed]\nFAIL\n", nil},
		"one does not":       {crash + gate + "FAIL\tkennel/ids [build failed]\nFAIL\n", nil},
		"ended by its time":  {"panic: test timed out after 10m0s\n" + crash + gate, nil},
		"the words in a log": {"log: SIGSEGV: segmentation violation\n" + gate, nil},
	} {
		if got := crashed(test.output); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestFlags(t *testing.T) {
	args := []string{"-race", "-p", "3", "./ids", "./..."}
	if got := append(flags(args), "kennel/gate"); !slices.Equal(got, []string{"-race", "-p", "3", "kennel/gate"}) || args[3] != "./ids" {
		t.Errorf("%q of %q", got, args)
	}
}
