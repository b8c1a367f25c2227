//go:build race

package gate

// The race detector makes everything ten times slower. `make test` runs the
// full numbers without it.
const (
	RaceDetector       = true
	DefaultSimulations = 1000
	Races              = 100
)
