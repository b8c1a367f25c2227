//go:build !unix

package storetest

import "time"

// ProcessorTime returns the time of the clock, since this system has no other.
func ProcessorTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
