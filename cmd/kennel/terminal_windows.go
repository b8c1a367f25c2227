package main

import (
	"os"
	"os/exec"
	"syscall"
)

// isTerminalFile reports whether the file is a console.
func isTerminalFile(file *os.File) bool {
	var mode uint32
	return syscall.GetConsoleMode(syscall.Handle(file.Fd()), &mode) == nil
}

// isClosed is false: writing to a closed standard output fails here.
func isClosed(any) bool { return false }

// inOwnGroup makes cmd start a process group of its own, which Ctrl+C in the
// terminal does not reach.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
