//go:build unix

package storetest

import (
	"syscall"
	"time"
)

// ProcessorTime returns how much processor time this process has used. Unlike
// the time of the clock it hardly depends on other programs.
func ProcessorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
