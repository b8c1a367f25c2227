package main

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// isTerminalFile reports whether the file is a console.
func isTerminalFile(file *os.File) bool {
	var mode uint32
	return syscall.GetConsoleMode(syscall.Handle(file.Fd()), &mode) == nil
}

// columnsOf returns the width of a console, or 0 if it is unknown.
func columnsOf(terminal *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(terminal.Fd()), &info); err != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}

// isClosed is false: writing to a closed standard output fails here.
func isClosed(any) bool { return false }

// inOwnGroup makes cmd start a process group of its own, which Ctrl+C in the
// terminal does not reach.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
