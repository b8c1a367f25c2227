// Package main is the handler with one file more: this one, which only the
// tests build in. It dies at the step of a channel's life or deletion that the
// environment names, as by kill -9.
package main

import (
	"os"
	"syscall"
)

func killAt(step string) {
	if step != os.Getenv("FAILPOINT") {
		return
	}
	syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}
