package app

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapFloor is how much garbage the heap may hold however little of it is in
// use. Go's own floor is 4 MiB, about what this program holds anyway, so that
// its collector would run all the time: a fifth of the cost of an order number.
// A larger heap grows as is Go's default, to twice what is in use, so the peaks
// of memory stay. An idle process does not reach the floor, because Go collects
// at least each two minutes.
const heapFloor = 12 << 20

// maxGrowth is the GOGC of the smallest heaps. Go's floor grows with it, to
// heapFloor.
const maxGrowth = 300

// raiseHeapFloor sets the target of the garbage collector now and after each
// collection, unless the environment sets one.
func raiseHeapFloor(env map[string]string) {
	if env["GOGC"] != "" || env["GOMEMLIMIT"] != "" {
		return
	}
	growth := maxGrowth
	debug.SetGCPercent(growth)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var collected func(*[16]byte)
	collected = func(mark *[16]byte) {
		metrics.Read(live)
		if next := growthOf(live[0].Value.Uint64()); next != growth {
			growth = next
			debug.SetGCPercent(next)
		}
		runtime.SetFinalizer(mark, collected)
	}
	runtime.SetFinalizer(new([16]byte), collected)
}

// growthOf returns the GOGC of a heap of which so many bytes are in use, in
// steps: each change stops the program for a moment.
func growthOf(live uint64) int {
	const step = 50
	return int(min(max(100*heapFloor/max(live, 1)/step*step, 100), maxGrowth))
}
