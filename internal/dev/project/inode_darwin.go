package project

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// inodeTime is when the file, its name or its times were changed. Programs
// cannot set it.
func inodeTime(info fs.FileInfo) time.Time {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(stat.Ctimespec.Unix())
}

// identity tells a file from another one with its name, size and time.
func identity(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(stat.Ino, inodeTime(info).UnixNano())
}
