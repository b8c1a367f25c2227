//go:build unix

package main

import "os"

// isTerminalFile treats every character device as a terminal, except the null
// device, which is the usual standard input of a program without a terminal.
func isTerminalFile(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
