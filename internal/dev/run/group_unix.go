//go:build unix

package run

import (
	"os/exec"
	"syscall"
)

// inOwnGroup makes cmd start its own process group: Ctrl+C in the terminal does
// not reach it, and one signal reaches all its processes.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// interruptGroup interrupts cmd and all that it started, as Ctrl+C does.
func interruptGroup(cmd *exec.Cmd) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // fails only if nothing is left to interrupt
}

// killGroup kills cmd and all that it started.
func killGroup(cmd *exec.Cmd) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails only if nothing is left to kill
}
