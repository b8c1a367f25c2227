package run

import (
	"os/exec"
	"strconv"
	"syscall"
)

// inOwnGroup makes cmd start its own process group, which Ctrl+C does not
// reach.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// interruptGroup kills immediately: Windows has no interrupt that reaches every
// process of a group.
func interruptGroup(cmd *exec.Cmd) { killGroup(cmd) }

// killGroup kills cmd and all that it started.
func killGroup(cmd *exec.Cmd) {
	// Fails if nothing is left to kill.
	exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
}
