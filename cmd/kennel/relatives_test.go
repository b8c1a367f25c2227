//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A relative is a process that another one has started, as /proc knows it.
type relative struct {
	pid     int
	parent  int
	begin   string // when it started; tells it from a later process with its id
	command string
}

// readRelative reads /proc/PID. A process that has ended and that nobody has
// asked for its exit code yet counts as gone.
func readRelative(pid int) (relative, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return relative{}, false
	}
	// The name, in parentheses, may hold anything; what follows is numbers.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, parent, begin = 0, 1, 19
	if fields[state] == "Z" || fields[state] == "X" {
		return relative{}, false
	}
	command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return relative{}, false
	}
	r := relative{pid: pid, begin: fields[begin], command: string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))}
	r.parent, err = strconv.Atoi(fields[parent])
	return r, err == nil
}

// relatives are all processes there are; none where there is no /proc.
func relatives() []relative {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []relative
	for _, entry := range entries {
		if id, err := strconv.Atoi(entry.Name()); err == nil {
			if r, ok := readRelative(id); ok {
				all = append(all, r)
			}
		}
	}
	return all
}

// descendants finds what a process has started, and what that has started.
func descendants(pid int) []relative {
	children := make(map[int][]relative)
	for _, r := range relatives() {
		children[r.parent] = append(children[r.parent], r)
	}
	found := slices.Clone(children[pid])
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

func (r relative) lives() bool {
	now, ok := readRelative(r.pid)
	return ok && now.begin == r.begin
}

func (r relative) String() string { return fmt.Sprintf("%d %s", r.pid, r.command) }
