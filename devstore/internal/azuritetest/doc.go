// Package azuritetest holds the tests and benchmarks that compare devstore with
// Azurite. Both receive the same random requests, and every difference is on a
// list with its reason; see differences_test.go.
package azuritetest
