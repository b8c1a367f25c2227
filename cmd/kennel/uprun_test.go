//go:build unix

package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	devrun "kennel/internal/dev/run"
)

// patience bounds every wait of a script: long enough to install Azurite once.
const patience = 3 * time.Minute

// upRun is the "kennel up" of one script.
type upRun struct {
	cmd    *exec.Cmd
	mark   string         // an environment variable of it and all that it starts
	done   chan struct{}  // closed when it has ended and its output was read
	family map[int]string // the processes it had started before a signal or a strike

	mu      sync.Mutex
	output  strings.Builder // of both its streams; guarded by mu
	changed chan struct{}   // closed and replaced with each write; guarded by mu
}

func upOf(ts *testscript.TestScript) *upRun { return &stateOf(ts).up }

// Write collects output.
func (u *upRun) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.changed)
	u.changed = make(chan struct{})
	return u.output.Write(p)
}

// text returns the complete lines of the output, and a channel that is closed
// when there is more.
func (u *upRun) text() (string, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := u.output.String()
	return text[:strings.LastIndex(text, "\n")+1], u.changed
}

// await returns the first line that matches.
func (u *upRun) await(ts *testscript.TestScript, pattern *regexp.Regexp) (found string) {
	u.until(ts, fmt.Sprintf("a line like %q", pattern), func(text string) bool {
		for line := range strings.SplitSeq(text, "\n") {
			if pattern.MatchString(line) {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

// awaitMany waits until the output has a text n times.
func (u *upRun) awaitMany(ts *testscript.TestScript, part string, n int) {
	u.until(ts, fmt.Sprintf("%q %d times", part, n), func(text string) bool { return strings.Count(text, part) >= n })
}

// until waits until the output is as wanted.
func (u *upRun) until(ts *testscript.TestScript, wanted string, is func(text string) bool) {
	deadline := time.After(patience)
	for ended := false; ; {
		text, changed := u.text()
		if is(text) {
			return
		}
		if ended {
			ts.Fatalf("kennel up ended without %s; it wrote\n%s", wanted, text)
		}
		select {
		case <-changed:
		case <-u.done:
			ended = true // look at its last lines first
		case <-deadline:
			ts.Fatalf("the output lacks %s; kennel up wrote\n%s", wanted, text)
		}
	}
}

func scriptUp(ts *testscript.TestScript, _ bool, args []string) {
	u := startUp(ts, append([]string{"--json"}, args...))
	var ready devrun.Event
	ts.Check(json.Unmarshal([]byte(u.await(ts, regexp.MustCompile(`"event":"ready"`))), &ready))
	if ready.Connection != "" {
		ts.Setenv("STORAGE", ready.Connection)
	}
	ts.Setenv("PRIMARY", ready.ServiceBus)
	ts.Setenv("FAULTS", ready.ServiceBusFaults)
	setAddress(ts, ready.URL)
}

func scriptLaunch(ts *testscript.TestScript, _ bool, args []string) { startUp(ts, args) }

func scriptServe(ts *testscript.TestScript, _ bool, args []string) {
	line := startKennel(ts, args).await(ts, regexp.MustCompile(`"event":"ready"|^  Ctrl\+C stops it`))
	if !strings.HasPrefix(line, "{") {
		return
	}
	var ready struct{ Connection, ServiceBus, Faults string }
	ts.Check(json.Unmarshal([]byte(line), &ready))
	ts.Setenv("STORAGE", ready.Connection)
	ts.Setenv("PRIMARY", ready.ServiceBus)
	setAddress(ts, strings.TrimSuffix(ready.Faults, "/faults"))
}

func scriptScreen(ts *testscript.TestScript, _ bool, args []string) {
	startUp(ts, args).await(ts, regexp.MustCompile(`^  Ctrl\+C stops everything`))
	first, _, _ := strings.Cut(ts.ReadFile(".kennel/url"), "\n")
	setAddress(ts, first)
}

func setAddress(ts *testscript.TestScript, address string) {
	parsed, err := url.Parse(address)
	ts.Check(err)
	ts.Setenv("URL", address)
	ts.Setenv("PORT", parsed.Port())
}

// startUp starts kennel up.
func startUp(ts *testscript.TestScript, args []string) *upRun {
	return startKennel(ts, append([]string{"up"}, args...))
}

// startKennel starts kennel. It is killed at the end of the script.
func startKennel(ts *testscript.TestScript, args []string) *upRun {
	u := upOf(ts)
	kennel, err := exec.LookPath("kennel")
	ts.Check(err)
	u.cmd = exec.Command(kennel, args...)
	u.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "XDG_CACHE_HOME", "TMPDIR", "GORACE", "AzureWebJobsStorage", "ServiceBus", "CORETOOLS", "KENNEL_WEBHOOK_ALLOW"} {
		if value := ts.Getenv(name); value != "" {
			u.cmd.Env = append(u.cmd.Env, name+"="+value)
		}
	}
	u.mark = "KENNELS_TEST_RUN=" + rand.Text()
	u.cmd.Env = append(u.cmd.Env, u.mark)
	u.cmd.Stdout, u.cmd.Stderr = u, u
	u.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that a signal reaches the whole group
	u.done, u.changed = make(chan struct{}), make(chan struct{})
	u.output.Reset()
	u.family = make(map[int]string)
	ts.Check(u.cmd.Start())
	go func() {
		u.cmd.Wait() // scriptEnd checks the exit code
		close(u.done)
	}()
	cmd, done := u.cmd, u.done
	ts.Defer(func() {
		cmd.Process.Kill() // fails if the script has ended it
		<-done
	})

	return u
}

func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	u := upOf(ts)
	if !neg {
		u.await(ts, pattern)
	} else if text, _ := u.text(); pattern.MatchString(text) {
		ts.Fatalf("kennel up wrote %q, in\n%s", pattern, text)
	}
}

func scriptSignal(ts *testscript.TestScript, _ bool, args []string) {
	u := upOf(ts)
	u.remember()
	pid := u.cmd.Process.Pid
	switch args[0] {
	case "INT": // as a terminal does
		ts.Check(syscall.Kill(-pid, syscall.SIGINT))
	case "TERM":
		ts.Check(syscall.Kill(pid, syscall.SIGTERM))
	case "KILL":
		ts.Check(syscall.Kill(pid, syscall.SIGKILL))
	case "none":
	default:
		ts.Fatalf("%s is not INT, TERM, KILL or none", args[0])
	}
}

// scriptStrike kills the handler of kennel up, or the process that has the first
// argument in its command unless it has ended, with SIGKILL or SIGTERM.
func scriptStrike(ts *testscript.TestScript, _ bool, args []string) {
	with := syscall.SIGKILL
	if len(args) == 2 && args[1] == "TERM" {
		with = syscall.SIGTERM
	}
	for pid, command := range upOf(ts).remember() {
		path, rest, _ := strings.Cut(command, " ")
		words := append(strings.Fields(rest), filepath.Base(path))
		if len(args) == 0 && filepath.Base(path) == "handler" || len(args) > 0 && slices.Contains(words, args[0]) {
			ts.Check(syscall.Kill(pid, with))
			return
		}
	}
	if len(args) == 0 {
		ts.Fatalf("kennel up runs no handler")
	}
}

func scriptEnd(ts *testscript.TestScript, _ bool, args []string) {
	scriptSignal(ts, false, args[:1])
	u := upOf(ts)
	select {
	case <-u.done:
	case <-time.After(patience):
	}
	text, _ := u.text()
	if u.cmd.ProcessState == nil {
		ts.Fatalf("kennel up does not end; it wrote\n%s", text)
	}
	if got := u.cmd.ProcessState.ExitCode(); got != number(ts, args[1]) {
		ts.Fatalf("kennel up ended with code %d, want %s; it wrote\n%s", got, args[1], text)
	}
}

func scriptGone(ts *testscript.TestScript, _ bool, args []string) {
	u := upOf(ts)
	family := fmt.Sprint(u.family)
	for _, name := range args {
		if !strings.Contains(family, name) {
			ts.Fatalf("kennel up had not started %q: %s", name, family)
		}
	}
	eventually(ts, "kennel up has left processes behind", func() bool { return len(relatives(u.mark)) == 0 })
}

// remember adds the processes that run now to the family of u, which a later
// signal may find already ended, and returns them.
func (u *upRun) remember() map[int]string {
	found := relatives(u.mark)
	maps.Copy(u.family, found)
	return found
}

// relatives returns the commands of the processes that have a variable in their
// initial environment, by process id. A "kennel up" passes its environment to
// everything that it starts. A zombie does not count. Without /proc the result
// is empty.
func relatives(setting string) map[int]string {
	found := make(map[int]string)
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte(setting+"\x00")) {
			continue // ended, or another user's
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && len(command) > 0 {
			found[pid] = strings.ReplaceAll(string(command), "\x00", " ")
		}
	}
	return found
}
