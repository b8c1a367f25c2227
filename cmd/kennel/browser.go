package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	devrun "kennel/internal/dev/run"
)

// open shows an address in the browser, or reports a warning if that fails. It
// returns when the command has ended, which may be as late as the browser.
func (s *screen) open(url string) {
	if err := openBrowser(runtime.GOOS, url); err != nil {
		s.report(devrun.Event{Event: "warning", Text: err.Error()})
	}
}

// openBrowser shows an address in the browser of a person at this machine. The
// browser does not end with this program.
func openBrowser(system, url string) error {
	words := []string{"xdg-open"}
	switch system {
	case "darwin":
		words = []string{"open"}
	case "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	var output bytes.Buffer
	cmd := exec.Command(words[0], append(words[1:], url)...)
	cmd.Stderr = &output
	inOwnGroup(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot open a browser; open %s in one: %s: %w", url, strings.Join(words, " "), errorWith(err, output.String()))
	}
	return nil
}

// errorWith adds the first line of a command's output to its error.
func errorWith(err error, output string) error {
	if line, _, _ := strings.Cut(strings.TrimSpace(output), "\n"); line != "" {
		return fmt.Errorf("%w: %s", err, line)
	}
	return err
}
