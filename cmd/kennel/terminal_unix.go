//go:build unix

package main

import "os"

// isTerminalFile takes all character devices for terminals but the null
// device, which is what programs without a terminal most often are given.
func isTerminalFile(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
