//go:build !linux && !darwin

package instances

import "time"

// processorTime returns 0: unknown.
func processorTime() time.Duration { return 0 }
