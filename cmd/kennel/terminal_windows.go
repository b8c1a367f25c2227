package main

import (
	"os"
	"syscall"
)

// isTerminalFile asks for the console behind a file.
func isTerminalFile(file *os.File) bool {
	var mode uint32
	return syscall.GetConsoleMode(syscall.Handle(file.Fd()), &mode) == nil
}
