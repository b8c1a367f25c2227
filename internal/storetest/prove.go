package storetest

import (
	"os"
	"testing"
)

// Proving reports whether `make prove` runs the tests. It takes minutes and
// covers everything; `make test` runs a sample of the same tests.
func Proving() bool { return os.Getenv("KENNEL_PROVE") != "" }

// Scale returns how many cases a test runs: a sample, or all in `make prove`.
func Scale(sample, all int) int {
	if Proving() {
		return all
	}
	return sample
}

// OnlyInProve leaves a test that takes long to `make prove`.
func OnlyInProve(t testing.TB) {
	t.Helper()
	if !Proving() {
		t.Skip("runs in make prove")
	}
}
