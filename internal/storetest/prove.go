package storetest

import (
	"os"
	"testing"
)

// Proving reports whether the tests run in `make prove`, which takes minutes
// and covers all cases. `make test` runs a sample of the same cases.
func Proving() bool { return os.Getenv("KENNEL_PROVE") != "" }

// Scale returns how many cases a test runs: sample, or all in `make prove`.
func Scale(sample, all int) int {
	if Proving() {
		return all
	}
	return sample
}

// OnlyInProve skips a slow test outside `make prove`.
func OnlyInProve(t testing.TB) {
	t.Helper()
	if !Proving() {
		t.Skip("runs in make prove")
	}
}
