package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestOpenBrowser: the command of each system gets the address, and a failure
// names the address, so that the person can open it.
func TestOpenBrowser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands of this test are shell scripts")
	}
	const url = "http://127.0.0.1:7071/api/console"
	for system, want := range map[string]string{
		"linux":   "xdg-open " + url,
		"freebsd": "xdg-open " + url,
		"darwin":  "open " + url,
		"windows": "rundll32 url.dll,FileProtocolHandler " + url,
	} {
		folder := t.TempDir()
		name, _, _ := strings.Cut(want, " ")
		put := func(script string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", folder)
		err := openBrowser(system, url)
		if err == nil || !strings.Contains(err.Error(), "open "+url) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s without its command: %v, want an error with the address and the command", system, err)
		}
		put(`echo "${0##*/} $*" >"${0%/*}/called"`)
		if err := openBrowser(system, url); err != nil {
			t.Errorf("%s: %v", system, err)
		}
		if called, err := os.ReadFile(filepath.Join(folder, "called")); string(called) != want+"\n" {
			t.Errorf("%s ran %q, %v, want %q", system, called, err, want)
		}
		put("echo no method available >&2; exit 3")
		if err := openBrowser(system, url); err == nil || !strings.HasSuffix(err.Error(), "exit status 3: no method available") {
			t.Errorf("%s, whose command fails: %v, want its message", system, err)
		}
	}
}
