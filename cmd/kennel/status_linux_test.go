package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal returns a new terminal, and the end at which its screen is read.
func openTerminal(t *testing.T) (terminal, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system has no pseudo terminals: ", err)
	}
	t.Cleanup(func() { screen.Close() })
	var unlocked, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, screen
}

// TestWatchOnTerminal: on a terminal a watch replaces the screen.
func TestWatchOnTerminal(t *testing.T) {
	for env, clears := range map[string]bool{"xterm": true, "dumb": false} {
		terminal, screen := openTerminal(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int)
		args := []string{"kennel", "status", "--watch", "--url", serving(t, statusIs("blobs_failing"))}
		go func() {
			ended <- run(ctx, args, map[string]string{"TERM": env}, strings.NewReader(""), terminal, &bytes.Buffer{})
		}()
		line, err := bufio.NewReader(screen).ReadString('\n')
		cancel()
		if code := <-ended; err != nil || code != exitDone || strings.HasPrefix(line, clearScreen) != clears || !strings.Contains(line, "degraded") {
			t.Errorf("TERM=%s: code %d, %q, %v", env, code, line, err)
		}
	}
}
