package metrics

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// runtimeFamily is a metric of the Go runtime with the name and the meaning that
// programs in Go usually give it.
type runtimeFamily struct {
	name, help string
	kind       kind
	sources    []string // of package runtime/metrics; the value is their sum
}

var ofRuntime = []runtimeFamily{
	{
		name: "go_gc_gogc_percent", kind: gauge, sources: []string{"/gc/gogc:percent"},
		help: "Heap size target percentage configured by the user, otherwise 100. This value is set by the GOGC environment variable, and the runtime/debug.SetGCPercent function. Sourced from /gc/gogc:percent.",
	},
	{
		name: "go_gc_gomemlimit_bytes", kind: gauge, sources: []string{"/gc/gomemlimit:bytes"},
		help: "Go runtime memory limit configured by the user, otherwise math.MaxInt64. This value is set by the GOMEMLIMIT environment variable, and the runtime/debug.SetMemoryLimit function. Sourced from /gc/gomemlimit:bytes.",
	},
	{
		name: "go_memstats_alloc_bytes", kind: gauge, sources: []string{"/memory/classes/heap/objects:bytes"},
		help: "Number of bytes allocated in heap and currently in use. Equals to /memory/classes/heap/objects:bytes.",
	},
	{
		name: "go_memstats_alloc_bytes_total", kind: counter, sources: []string{"/gc/heap/allocs:bytes"},
		help: "Total number of bytes allocated in heap until now, even if released already. Equals to /gc/heap/allocs:bytes.",
	},
	{
		name: "go_memstats_buck_hash_sys_bytes", kind: gauge, sources: []string{"/memory/classes/profiling/buckets:bytes"},
		help: "Number of bytes used by the profiling bucket hash table. Equals to /memory/classes/profiling/buckets:bytes.",
	},
	{
		name: "go_memstats_frees_total", kind: counter, sources: []string{"/gc/heap/frees:objects", "/gc/heap/tiny/allocs:objects"},
		help: "Total number of heap objects frees. Equals to /gc/heap/frees:objects + /gc/heap/tiny/allocs:objects.",
	},
	{
		name: "go_memstats_gc_sys_bytes", kind: gauge, sources: []string{"/memory/classes/metadata/other:bytes"},
		help: "Number of bytes used for garbage collection system metadata. Equals to /memory/classes/metadata/other:bytes.",
	},
	{
		name: "go_memstats_heap_alloc_bytes", kind: gauge, sources: []string{"/memory/classes/heap/objects:bytes"},
		help: "Number of heap bytes allocated and currently in use, same as go_memstats_alloc_bytes. Equals to /memory/classes/heap/objects:bytes.",
	},
	{
		name: "go_memstats_heap_idle_bytes", kind: gauge, sources: []string{"/memory/classes/heap/released:bytes", "/memory/classes/heap/free:bytes"},
		help: "Number of heap bytes waiting to be used. Equals to /memory/classes/heap/released:bytes + /memory/classes/heap/free:bytes.",
	},
	{
		name: "go_memstats_heap_inuse_bytes", kind: gauge, sources: []string{"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes"},
		help: "Number of heap bytes that are in use. Equals to /memory/classes/heap/objects:bytes + /memory/classes/heap/unused:bytes",
	},
	{
		name: "go_memstats_heap_objects", kind: gauge, sources: []string{"/gc/heap/objects:objects"},
		help: "Number of currently allocated objects. Equals to /gc/heap/objects:objects.",
	},
	{
		name: "go_memstats_heap_released_bytes", kind: gauge, sources: []string{"/memory/classes/heap/released:bytes"},
		help: "Number of heap bytes released to OS. Equals to /memory/classes/heap/released:bytes.",
	},
	{
		name: "go_memstats_heap_sys_bytes", kind: gauge, sources: []string{"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes", "/memory/classes/heap/released:bytes", "/memory/classes/heap/free:bytes"},
		help: "Number of heap bytes obtained from system. Equals to /memory/classes/heap/objects:bytes + /memory/classes/heap/unused:bytes + /memory/classes/heap/released:bytes + /memory/classes/heap/free:bytes.",
	},
	{
		name: "go_memstats_mallocs_total", kind: counter, sources: []string{"/gc/heap/allocs:objects", "/gc/heap/tiny/allocs:objects"},
		help: "Total number of heap objects allocated, both live and gc-ed. Semantically a counter version for go_memstats_heap_objects gauge. Equals to /gc/heap/allocs:objects + /gc/heap/tiny/allocs:objects.",
	},
	{
		name: "go_memstats_mcache_inuse_bytes", kind: gauge, sources: []string{"/memory/classes/metadata/mcache/inuse:bytes"},
		help: "Number of bytes in use by mcache structures. Equals to /memory/classes/metadata/mcache/inuse:bytes.",
	},
	{
		name: "go_memstats_mcache_sys_bytes", kind: gauge, sources: []string{"/memory/classes/metadata/mcache/inuse:bytes", "/memory/classes/metadata/mcache/free:bytes"},
		help: "Number of bytes used for mcache structures obtained from system. Equals to /memory/classes/metadata/mcache/inuse:bytes + /memory/classes/metadata/mcache/free:bytes.",
	},
	{
		name: "go_memstats_mspan_inuse_bytes", kind: gauge, sources: []string{"/memory/classes/metadata/mspan/inuse:bytes"},
		help: "Number of bytes in use by mspan structures. Equals to /memory/classes/metadata/mspan/inuse:bytes.",
	},
	{
		name: "go_memstats_mspan_sys_bytes", kind: gauge, sources: []string{"/memory/classes/metadata/mspan/inuse:bytes", "/memory/classes/metadata/mspan/free:bytes"},
		help: "Number of bytes used for mspan structures obtained from system. Equals to /memory/classes/metadata/mspan/inuse:bytes + /memory/classes/metadata/mspan/free:bytes.",
	},
	{
		name: "go_memstats_next_gc_bytes", kind: gauge, sources: []string{"/gc/heap/goal:bytes"},
		help: "Number of heap bytes when next garbage collection will take place. Equals to /gc/heap/goal:bytes.",
	},
	{
		name: "go_memstats_other_sys_bytes", kind: gauge, sources: []string{"/memory/classes/other:bytes"},
		help: "Number of bytes used for other system allocations. Equals to /memory/classes/other:bytes.",
	},
	{
		name: "go_memstats_stack_inuse_bytes", kind: gauge, sources: []string{"/memory/classes/heap/stacks:bytes"},
		help: "Number of bytes obtained from system for stack allocator in non-CGO environments. Equals to /memory/classes/heap/stacks:bytes.",
	},
	{
		name: "go_memstats_stack_sys_bytes", kind: gauge, sources: []string{"/memory/classes/heap/stacks:bytes", "/memory/classes/os-stacks:bytes"},
		help: "Number of bytes obtained from system for stack allocator. Equals to /memory/classes/heap/stacks:bytes + /memory/classes/os-stacks:bytes.",
	},
	{
		name: "go_memstats_sys_bytes", kind: gauge, sources: []string{"/memory/classes/total:bytes"},
		help: "Number of bytes obtained from system. Equals to /memory/classes/total:byte.",
	},
	{
		name: "go_sched_gomaxprocs_threads", kind: gauge, sources: []string{"/sched/gomaxprocs:threads"},
		help: "The current runtime.GOMAXPROCS setting, or the number of operating system threads that can execute user-level Go code simultaneously. Sourced from /sched/gomaxprocs:threads.",
	},
}

// runtimeBlocks returns metrics of the Go runtime.
func runtimeBlocks() []block {
	var samples []metrics.Sample
	for _, g := range ofRuntime {
		for _, source := range g.sources {
			samples = append(samples, metrics.Sample{Name: source})
		}
	}
	metrics.Read(samples)
	var all []block
	for _, g := range ofRuntime {
		value := 0.0
		for range g.sources {
			if samples[0].Value.Kind() == metrics.KindUint64 { // which another version of Go may not have
				value += float64(samples[0].Value.Uint64())
			}
			samples = samples[1:]
		}
		all = append(all, block{g.name, g.help, g.kind, []sample{{value: value}}})
	}
	threads, _ := runtime.ThreadCreateProfile(nil)
	gc := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&gc)
	return append(all,
		block{"go_gc_duration_seconds", "A summary of the wall-time pause (stop-the-world) duration in garbage collection cycles.", summary, pauses(gc)},
		one("go_goroutines", "Number of goroutines that currently exist.", gauge, float64(runtime.NumGoroutine())),
		block{"go_info", "Information about the Go environment.", gauge, []sample{{labels: []label{{"version", runtime.Version()}}, value: 1}}},
		one("go_memstats_last_gc_time_seconds", "Number of seconds since 1970 of last garbage collection.", gauge, float64(gc.LastGC.UnixNano())/1e9),
		one("go_threads", "Number of OS threads created.", gauge, float64(threads)),
	)
}

// pauses returns the lines of the summary of all pauses.
func pauses(gc debug.GCStats) (all []sample) {
	for i, pause := range gc.PauseQuantiles {
		quantile := float64(i) / float64(len(gc.PauseQuantiles)-1)
		all = append(all, sample{labels: []label{{"quantile", decimal(quantile)}}, value: pause.Seconds()})
	}
	return append(all, sample{suffix: "_sum", value: gc.PauseTotal.Seconds()}, sample{suffix: "_count", value: float64(gc.NumGC)})
}

// one returns a family of one series without labels.
func one(name, help string, kind kind, value float64) block {
	return block{name, help, kind, []sample{{value: value}}}
}
