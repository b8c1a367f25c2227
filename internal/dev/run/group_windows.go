package run

import (
	"os/exec"
	"strconv"
	"syscall"
)

// inOwnGroup makes cmd start a process group of its own, which Ctrl+C does not
// reach.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// interruptGroup kills right away: there is no way to ask that everything
// with a console would hear.
func interruptGroup(cmd *exec.Cmd) { killGroup(cmd) }

// killGroup ends cmd and what it started.
func killGroup(cmd *exec.Cmd) {
	// Fails where nothing is left to kill.
	exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
}
