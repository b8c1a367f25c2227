//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tethered starts a shell script on a tether, waits for its first line, and
// returns that line, the tether's end of input and what the tether returns.
func tethered(t *testing.T, script string, patience time.Duration) (first string, hold *io.PipeWriter, result <-chan error) {
	t.Helper()
	stdin, hold := io.Pipe()
	output, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		con := newConsole(nil, nil, stdin, stdout, stdout)
		done <- tether(t.Context(), con, []string{"sh", "-c", script}, patience)
		stdout.Close()
	}()
	t.Cleanup(func() { hold.Close(); output.Close() })
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), hold, done
}

func TestTether(t *testing.T) {
	// Each shell has a sleep in its group, which does not care for Ctrl+C.
	const (
		obedient = `trap 'exit 0' INT; echo $$; sleep 10000 & wait`
		stubborn = `trap '' INT; echo $$; while :; do sleep 10000; done`
	)
	ask := func(hold *io.PipeWriter) { io.WriteString(hold, "stop\n") }
	letGo := func(hold *io.PipeWriter) { hold.Close() }
	wait := func(*io.PipeWriter) {}
	tests := []struct {
		name     string
		script   string
		patience time.Duration
		act      func(*io.PipeWriter)
		want     error
	}{
		{"asked to stop", obedient, time.Hour, ask, nil},
		{"asked in vain", stubborn, time.Millisecond, ask, nil},
		{"asked in vain, then let go", stubborn, time.Hour, func(hold *io.PipeWriter) { ask(hold); letGo(hold) }, nil},
		{"let go", stubborn, time.Hour, letGo, nil},
		{"ends by itself", `sleep 10000 & echo $$; exit 7`, time.Hour, wait, exitCode(7)},
		{"ends by itself, in peace", `sleep 10000 & echo $$`, time.Hour, wait, exitCode(1)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			first, hold, result := tethered(t, test.script, test.patience)
			test.act(hold)
			if err := <-result; !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			pid, err := strconv.Atoi(first)
			if err != nil {
				t.Fatal(err)
			}
			awaitEmptyGroup(t, pid)
		})
	}
}

// awaitEmptyGroup waits until nothing is left of what the process has started.
func awaitEmptyGroup(t *testing.T, pid int) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	inGroup := func(r relative) bool { return r.group == pid }
	for slices.ContainsFunc(relatives(), inGroup) {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("group %d is still there", pid)
		}
	}
}
