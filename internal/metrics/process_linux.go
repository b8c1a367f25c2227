package metrics

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// ticksPerSecond is the unit of times in /proc, on every architecture that Go
// has.
const ticksPerSecond = 100

// processBlocks returns metrics of this process that the system knows. A metric
// that cannot be read is left out.
func processBlocks() (all []block) {
	add := func(name, help string, kind kind, value float64) { all = append(all, one(name, help, kind, value)) }
	if stat := processStat(); stat != nil {
		add("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", counter, (stat[userTime]+stat[systemTime])/ticksPerSecond)
		add("process_virtual_memory_bytes", "Virtual memory size in bytes.", gauge, stat[virtualBytes])
		add("process_resident_memory_bytes", "Resident memory size in bytes.", gauge, stat[residentPages]*float64(os.Getpagesize()))
		if booted, ok := bootTime(); ok {
			add("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", gauge, booted+stat[startTicks]/ticksPerSecond)
		}
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		add("process_open_fds", "Number of open file descriptors.", gauge, float64(len(files)-1)) // without the folder, which is open itself
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		add("process_max_fds", "Maximum number of open file descriptors.", gauge, float64(limit.Cur))
	}
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) == nil {
		add("process_virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes.", gauge, float64(limit.Cur))
	}
	if octets, ok := networkOctets(); ok {
		add("process_network_receive_bytes_total", "Number of bytes received by the process over the network.", counter, octets["InOctets"])
		add("process_network_transmit_bytes_total", "Number of bytes sent by the process over the network.", counter, octets["OutOctets"])
	}
	return all
}

// Indices of processStat. proc(5) counts from 1 and has two fields more.
const (
	userTime      = 14 - 3
	systemTime    = 15 - 3
	startTicks    = 22 - 3
	virtualBytes  = 23 - 3
	residentPages = 24 - 3
)

// processStat returns the fields of /proc/self/stat after the name of the
// program, which may contain spaces; nil: they cannot be read.
func processStat() []float64 {
	text, _ := os.ReadFile("/proc/self/stat")
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= residentPages {
		return nil
	}
	values := make([]float64, len(fields))
	for i, field := range fields {
		values[i], _ = strconv.ParseFloat(string(field), 64) // the state is a letter
	}
	return values
}

// bootTime returns when the system started, in seconds since 1970.
func bootTime() (float64, bool) {
	text, _ := os.ReadFile("/proc/stat")
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) == 2 && string(fields[0]) == "btime" {
			value, err := strconv.ParseFloat(string(fields[1]), 64)
			return value, err == nil
		}
	}
	return 0, false
}

// networkOctets returns counts of the network namespace by their names.
func networkOctets() (map[string]float64, bool) {
	text, _ := os.ReadFile("/proc/self/net/netstat")
	var names [][]byte // the first of two lines
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || string(fields[0]) != "IpExt:" {
			continue
		}
		if names == nil {
			names = slices.Clone(fields)
			continue
		}
		octets := make(map[string]float64)
		for i := 1; i < min(len(names), len(fields)); i++ {
			octets[string(names[i])], _ = strconv.ParseFloat(string(fields[i]), 64)
		}
		return octets, true
	}
	return nil, false
}
