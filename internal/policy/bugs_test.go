package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/internal/storetest"
)

// plantedBug is one file of testdata/bugs: a diff that adds a bug to the
// source, and the tests of which at least one must then fail. A test that
// passes with the bug that it should detect proves nothing.
type plantedBug struct {
	name    string
	title   string
	promise promise
	pkg     string   // for the go command, such as ./ids
	tests   []string // Test or Test/subtest
	args    []string // for the test binary
	hunks   []hunk
}

// promise is what the bug breaks: words of a document or of a package's doc.go.
type promise struct{ file, words string }

// hunk is one changed place of a diff.
type hunk struct {
	file     string // from the root of the module
	old, new string // whole lines
}

// TestPlantedBugsApply checks that each diff applies to the source, names
// existing tests and a promise that we make, so that `make test` detects
// outdated diffs. Each promise has one bug, and enough promises have one.
func TestPlantedBugsApply(t *testing.T) {
	bugs, breaks := plantedBugs(t), make(map[promise]string)
	if len(bugs) < 50 {
		t.Errorf("%d planted bugs, want 50", len(bugs))
	}
	for _, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			if _, err := bug.apply(); err != nil {
				t.Error(err)
			}
			if err := bug.promise.stands(); err != nil {
				t.Error(err)
			}
			if other := breaks[bug.promise]; other != "" {
				t.Errorf("%s breaks the same promise; keep one of them", other)
			}
			breaks[bug.promise] = bug.name
			paths, err := filepath.Glob(filepath.Join(bug.pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			var tests strings.Builder
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				tests.Write(text)
			}
			for _, test := range bug.tests {
				if name, _, _ := strings.Cut(test, "/"); !strings.Contains(tests.String(), "\nfunc "+name+"(") {
					t.Errorf("package %s has no %s", bug.pkg, name)
				}
			}
		})
	}
}

// stands reports whether the words of the promise are in its file, wrapped in
// whatever way.
func (p promise) stands() error {
	all, err := texts()
	if err != nil {
		return err
	}
	words := strings.ReplaceAll(regexp.QuoteMeta(p.words), " ", `(?:\s|//)+`)
	if !regexp.MustCompile(words).MatchString(all[p.file]) {
		return fmt.Errorf("%s does not promise %q", p.file, p.words)
	}
	return nil
}

// TestPlantedBugs builds each package with its bug and requires that a test
// fails. Two run at a time.
func TestPlantedBugs(t *testing.T) {
	storetest.OnlyInProve(t)
	slots := make(chan struct{}, 2)
	for _, bug := range plantedBugs(t) {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			by, took, err := bug.caught(t)
			if err != nil {
				t.Fatalf("%s: %v", bug.title, err)
			}
			t.Logf("%.1f s of processor time: %s: caught by %s", took.Seconds(), bug.title, by)
		})
	}
}

// caught runs the tests on the source with the bug and returns the test that
// failed. The tests run as in `make test`: the sample must detect the bug. Some
// samples are random and detect it nearly always, so they run up to three times.
func (b *plantedBug) caught(t *testing.T) (by string, took time.Duration, err error) {
	changed, err := b.apply()
	if err != nil {
		return "", 0, err
	}
	const limit = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit) // includes the build
	defer cancel()
	args := []string{"test", "-v", "-count=3", "-vet=off", "-failfast", "-ldflags=-s -w", "-timeout=" + limit.String(),
		"-overlay=" + overlay(t, changed), "-run=^" + strings.Join(b.tests, "$|^") + "$", b.pkg}
	cmd := exec.CommandContext(ctx, "go", append(args, b.args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KENNEL_PROVE=") })
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	by, err = verdict(out, err)
	return by, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

var failed = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// verdict parses the output of go test. It returns the test that failed, or an
// error if the output does not prove that the bug was detected.
func verdict(out []byte, err error) (by string, _ error) {
	has := func(text string) bool { return bytes.Contains(out, []byte(text)) }
	switch {
	case err == nil && has("no tests to run"):
		return "", errors.New("the test does not exist")
	case err == nil && has("--- SKIP") && !has("--- PASS"):
		return "", errors.New("the test was skipped")
	case err == nil:
		return "", errors.New("the tests passed with the bug")
	case has("[build failed]") || has("[setup failed]"):
		return "", fmt.Errorf("the source with the bug does not build:\n%.4000s", out)
	case has("panic: test timed out") || errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("the tests hung instead of failing:\n%.4000s", out)
	}
	if m := failed.FindSubmatch(out); m != nil {
		return string(m[1]), nil
	}
	if has("panic: ") || has("fatal error: ") {
		return "a crash", nil
	}
	return "", fmt.Errorf("the tests did not run: %w\n%.4000s", err, out)
}

// overlay writes the changed files and the overlay file that makes the go
// command read them instead of the originals.
func overlay(t *testing.T, changed map[string]string) (path string) {
	t.Helper()
	dir, replace := t.TempDir(), make(map[string]string)
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for file, text := range changed {
		replace[file] = write(strings.ReplaceAll(file, "/", "-"), []byte(text))
	}
	description, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	return write("overlay.json", description)
}

// apply returns the text of each file that the diff changes. The old lines of a
// hunk must occur in the file exactly once. Their line number does not matter,
// so that changes elsewhere in the file do not affect the diff.
func (b *plantedBug) apply() (map[string]string, error) {
	changed := make(map[string]string)
	for _, h := range b.hunks {
		text, ok := changed[h.file]
		if !ok {
			source, err := os.ReadFile(h.file)
			if err != nil {
				return nil, err
			}
			text = string(source)
		}
		if n := strings.Count("\n"+text, "\n"+h.old); n != 1 {
			return nil, fmt.Errorf("%s contains these lines %d times instead of once; update the diff:\n%s", h.file, n, h.old)
		}
		changed[h.file] = strings.Replace("\n"+text, "\n"+h.old, "\n"+h.new, 1)[1:]
	}
	return changed, nil
}

// plantedBugs reads testdata/bugs.
func plantedBugs(t *testing.T) []plantedBug {
	t.Helper()
	if err := inRoot(); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("internal/policy/testdata/bugs/*.diff")
	if err != nil || len(paths) == 0 {
		t.Fatalf("internal/policy/testdata/bugs contains no diff: %v", err)
	}
	var bugs []plantedBug
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bug, err := parseBug(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		bug.name = strings.TrimSuffix(filepath.Base(path), ".diff")
		bugs = append(bugs, bug)
	}
	return bugs
}

func parseBug(text string) (plantedBug, error) {
	var b plantedBug
	header, diff, _ := strings.Cut(text, "\n\n")
	for line := range strings.Lines(header) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "bug":
			b.title = value
		case "promise":
			file, words, found := strings.Cut(strings.TrimSuffix(value, `"`), `: "`)
			if !found || !strings.HasSuffix(value, `"`) {
				return b, fmt.Errorf(`the promise %s is not of the form FILE: "WORDS"`, value)
			}
			b.promise = promise{file, words}
		case "package":
			b.pkg = value
		case "test":
			b.tests = strings.Split(value, "|")
		case "args":
			b.args = strings.Fields(value)
		default:
			return b, fmt.Errorf("the header line %q is not one of bug, promise, package, test, args", line)
		}
	}
	if b.title == "" || b.promise.words == "" || b.pkg == "" || len(b.tests) == 0 {
		return b, errors.New("the header must contain bug, promise, package and test")
	}
	b.hunks = parseDiff(diff)
	if len(b.hunks) == 0 {
		return b, errors.New("no diff follows the header and an empty line")
	}
	return b, nil
}

// parseDiff parses a unified diff in the form of git.
func parseDiff(diff string) (hunks []hunk) {
	file := ""
	for line := range strings.Lines(strings.TrimRight(diff, "\n") + "\n") {
		switch name, isFile := strings.CutPrefix(line, "+++ b/"); {
		case isFile:
			file = strings.TrimSpace(name)
		case strings.HasPrefix(line, "@@ "):
			hunks = append(hunks, hunk{file: file})
		case len(hunks) == 0 || strings.HasPrefix(line, "--- a/"):
		default:
			if line == "\n" {
				line = " \n" // some editors remove the space
			}
			h := &hunks[len(hunks)-1]
			if line[0] != '+' {
				h.old += line[1:]
			}
			if line[0] != '-' {
				h.new += line[1:]
			}
		}
	}
	return hunks
}
