//go:build !race

package ids_test

const defaultSimulations = 20_000
