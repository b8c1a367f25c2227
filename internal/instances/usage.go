package instances

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"
)

// residentBytes returns the resident bytes of this process. Where the system
// has no /proc, it returns the memory that the Go runtime has obtained from the
// system.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if fields := bytes.Fields(text); err == nil && len(fields) > 1 {
		if pages, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
			return pages * int64(os.Getpagesize())
		}
	}
	total := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(total)
	if total[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(total[0].Value.Uint64())
}
