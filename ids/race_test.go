//go:build race

package ids_test

// The race detector makes everything ten times slower. `make test` runs the
// full number of simulations without it.
const defaultSimulations = 2000
