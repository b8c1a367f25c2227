package policy

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// TestMain runs the tests in the root of the module: their paths begin there,
// as those in their messages do.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// inRoot reports to the go command where the paths begin. It keeps the result
// of a test until a file changes that the test has opened, and does not notice
// a change of folder before the first test. So each test that reads files of
// the repository calls inRoot before, most through texts.
var inRoot = sync.OnceValue(func() error { return os.Chdir(".") })
