//go:build !race

package gate

const (
	RaceDetector       = false
	DefaultSimulations = 20_000
	Races              = 1000
)
