//go:build unix

package run

import (
	"os/exec"
	"syscall"
)

// inOwnGroup makes cmd start a process group of its own: the keys of the
// terminal do not reach it, and it can be signalled as a whole.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// interruptGroup asks cmd and what it started to end, as Ctrl+C does.
func interruptGroup(cmd *exec.Cmd) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // fails only where nothing is left to interrupt
}

// killGroup ends cmd and what it started.
func killGroup(cmd *exec.Cmd) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails only where nothing is left to kill
}
