//go:build unix

package run

import (
	"bufio"
	"io"
	"os"
	"testing"
	"time"
)

// TestTether checks that no process of a command is left, however the command
// ends.
func TestTether(t *testing.T) {
	// Each shell has a sleep in its group.
	const (
		obedient = `trap 'exit 0' INT; echo started; sleep 10000 & wait`
		stubborn = `trap '' INT; echo started; while :; do sleep 10000; done`
	)
	ask := func(hold *io.PipeWriter) { io.WriteString(hold, "stop\n") }
	closeInput := func(hold *io.PipeWriter) { hold.Close() }
	tests := []struct {
		name   string
		script string
		grace  time.Duration
		act    func(*io.PipeWriter)
		want   int
	}{
		{"asked to stop", obedient, time.Hour, ask, 0},
		{"ignores the interrupt", stubborn, time.Millisecond, ask, 0},
		{"ignores the interrupt, then input closed", stubborn, time.Hour, func(hold *io.PipeWriter) { ask(hold); closeInput(hold) }, 0},
		{"input closed", stubborn, time.Hour, closeInput, 0},
		{"ends on its own", `sleep 10000 & echo started; exit 7`, time.Hour, nil, 7},
		{"ends on its own without an error", `sleep 10000 & echo started`, time.Hour, nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stdin, hold := io.Pipe()
			defer hold.Close()
			output, stdout, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer output.Close()
			var code int
			done := make(chan error, 1)
			go func() {
				var err error
				code, err = Tether(t.Context(), []string{"sh", "-c", tt.script}, stdin, stdout, stdout, tt.grace)
				stdout.Close()
				done <- err
			}()
			lines := bufio.NewReader(output)
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if tt.act != nil {
				tt.act(hold)
			}
			if err := <-done; err != nil || code != tt.want {
				t.Errorf("got %d, %v, want %d", code, err, tt.want)
			}
			// The output ends when the last process that holds it has ended.
			output.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, lines); err != nil {
				t.Errorf("a process is still running: %v", err)
			}
		})
	}
}
