//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// isTerminalFile treats every character device as a terminal, except the null
// device, which is the usual standard input of a program without a terminal.
func isTerminalFile(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && !isNull(info)
}

// columnsOf returns the width of a terminal, or 0 if it is unknown.
func columnsOf(terminal *os.File) int {
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

func isNull(info os.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}

// isClosed reports whether a standard output was closed by the caller. The Go
// runtime then opens the null device in its place, for reading and writing,
// while a shell opens it for writing only.
func isClosed(stdout any) bool {
	file, ok := stdout.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || !isNull(info) {
		return false
	}
	_, err = file.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// inOwnGroup makes cmd start a process group of its own, which Ctrl+C in the
// terminal does not reach.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
