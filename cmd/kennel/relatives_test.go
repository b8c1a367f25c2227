//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// relatives returns the commands of the processes that have a setting in the
// environment they were started with, by process id. A "kennel up" hands its
// environment on to everything that it starts. A process that has ended but was
// not waited for is gone. There are none where there is no /proc.
func relatives(setting string) map[int]string {
	found := make(map[int]string)
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte(setting+"\x00")) {
			continue // gone, or another user's
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && len(command) > 0 {
			found[pid] = strings.ReplaceAll(string(command), "\x00", " ")
		}
	}
	return found
}
