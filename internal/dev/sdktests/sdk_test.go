package sdktests

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"kennel/internal/dev/azurite"
	"kennel/internal/storetest"
)

// For work on devstore: go test -run LiveTests ./internal/dev/sdktests -args -side devstore -only TestQueueGetSASURL -keep DIR
var (
	only    = flag.String("only", "", "run the functions whose suite/package and name match this, and judge nothing")
	keep    = flag.String("keep", "", "keep the compiled tests, their output and a list of all outcomes in this folder")
	oneSide = flag.String("side", "", "run against this side alone, devstore or azurite, and judge nothing")
	update  = flag.Bool("update", false, "write testdata/tests.txt")
	measure = flag.Bool("azurite", false, "run against Azurite too, and write what passes there to testdata/azurite.txt")
)

func TestLiveTestsOfTheSDK(t *testing.T) {
	if *only == "" && *oneSide == "" && !*update && !*measure {
		storetest.OnlyInProve(t)
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("Go does not read SSL_CERT_FILE on this system")
	}
	dir := t.TempDir()
	if *keep != "" {
		dir = filepath.Join(*keep, "build")
		must(t, os.MkdirAll(dir, 0o755))
	}
	list, err := build(t.Context(), dir)
	must(t, err)
	pattern := regexp.MustCompile(*only)
	failures := read(t, "failures.txt")
	list = slices.DeleteFunc(list, func(f function) bool {
		leaf := test{f.suite, f.pkg, f.name}
		return !pattern.MatchString(leaf.String()) || strings.HasPrefix(failures[leaf], "not run: ")
	})

	authority, certificate, key := certificates(t, dir)
	maximum := len(list) + 100
	sides := map[string]func() http.Handler{
		"azurite":  func() http.Handler { return startAzurite(t, certificate, key, accounts(maximum)) },
		"devstore": func() http.Handler { return startDevstore(t, accounts(maximum)) },
	}
	chunk := 10
	if *update {
		chunk = 1 // or the calls of one test would count for all
	}
	outcomes := make(map[string]map[test]string) // by side
	var mu sync.Mutex
	var running sync.WaitGroup
	for side, start := range sides {
		if *oneSide != "" && *oneSide != side {
			continue
		}
		// Azurite has one version, so its outcomes are kept: it takes minutes.
		if side == "azurite" && *oneSide == "" && !*update && !*measure {
			continue
		}
		p, address := startProxy(t, certificate, key, start())
		b := &bench{proxy: p, address: address, authority: authority, home: t.TempDir(), chunk: chunk, processes: 12, maximum: maximum}
		running.Go(func() {
			results := b.runAll(t.Context(), list)
			if *keep != "" {
				if err := write(*keep, side, list, results); err != nil {
					t.Error(err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes[side] = leaves(list, results)
		})
	}
	running.Wait()
	if *update {
		must(t, writeList(t, outcomes))
		return
	}
	if *only != "" || *oneSide != "" {
		for side, found := range outcomes {
			for _, leaf := range slices.SortedFunc(maps.Keys(found), compareTests) {
				t.Logf("%s: %s %s", side, found[leaf], leaf)
			}
		}
		return
	}
	if *measure {
		must(t, writePassed(outcomes["azurite"]))
	} else {
		outcomes["azurite"] = make(map[test]string)
		for leaf := range read(t, "azurite.txt") {
			outcomes["azurite"][leaf] = "PASS"
		}
	}
	judge(t, outcomes["devstore"], outcomes["azurite"])
}

// test is a live test without sub-tests.
type test struct{ suite, pkg, name string }

func (t test) String() string { return t.suite + "/" + t.pkg + " " + t.name }

func compareTests(a, b test) int { return strings.Compare(a.String(), b.String()) }

// leaves returns the outcomes of the live tests that did not skip themselves.
func leaves(list []function, results []result) map[test]string {
	found := make(map[test]string)
	for i, f := range list {
		for name, outcome := range results[i].outcomes {
			if results[i].live && outcome != "SKIP" {
				found[test{f.suite, f.pkg, name}] = outcome
			}
		}
	}
	return found
}

// judge compares what passed with the lists in testdata and with the bars.
func judge(t *testing.T, devstore, other map[test]string) {
	versions, err := os.ReadFile(filepath.Join("testdata", "tests.txt"))
	must(t, err)
	for _, suite := range suites {
		if line := versionLine(t, suite.module); !strings.Contains(string(versions), line) {
			t.Fatalf("testdata/tests.txt is of other versions than %s: run this test with -args -update, and look at each new test", line)
		}
	}
	if kept, err := os.ReadFile(filepath.Join("testdata", "azurite.txt")); err != nil || !strings.Contains(string(kept), "on Azurite "+azurite.Version+",") {
		t.Fatalf("testdata/azurite.txt is not of Azurite %s: run this test with -args -azurite (%v)", azurite.Version, err)
	}
	listed := read(t, "tests.txt")
	categories := read(t, "excluded.txt") // of functions
	failures := read(t, "failures.txt")   // reasons
	category := func(leaf test) string {
		for f, c := range categories {
			if rest, ok := strings.CutPrefix(leaf.String(), f.String()); ok && (rest == "" || rest[0] == '/' || rest[0] == '#') {
				return c
			}
		}
		return ""
	}
	for leaf := range listed {
		if devstore[leaf] == "" && other[leaf] == "" && !strings.HasPrefix(failures[leaf], "not run: ") {
			t.Errorf("testdata/tests.txt lists %s, which does not run", leaf)
		}
	}
	for leaf := range failures {
		if _, ok := listed[leaf]; !ok || category(leaf) != "" || devstore[leaf] == "PASS" {
			t.Errorf("testdata/failures.txt has a reason for %s, which passes, does not count or does not exist: remove the line", leaf)
		}
	}
	for _, suite := range suites {
		var counted, passed, theirsCounted, total, passedOfTotal, otherOfTotal int
		for leaf := range listed {
			if leaf.suite != suite.name {
				continue
			}
			ours, theirs := devstore[leaf] == "PASS", other[leaf] == "PASS"
			total++
			passedOfTotal += number(ours)
			otherOfTotal += number(theirs)
			if category(leaf) != "" {
				continue
			}
			counted++
			passed += number(ours)
			theirsCounted += number(theirs)
			if _, ok := failures[leaf]; !ours && !ok {
				t.Errorf("%s fails on devstore: correct devstore, or give the reason in testdata/failures.txt", leaf)
			}
		}
		t.Logf("figure: live tests of %s that pass on devstore, of %d (all: %d of %d, Azurite %d) | %d | ≥ 90 %%, > %d on Azurite",
			suite.name, counted, passedOfTotal, total, otherOfTotal, passed, theirsCounted)
		if passed <= theirsCounted {
			t.Errorf("%s: %d tests pass on devstore and %d on Azurite, want more", suite.name, passed, theirsCounted)
		}
		if passed*10 < counted*9 {
			t.Errorf("%s: %d of %d tests pass on devstore, want 90 %%", suite.name, passed, counted)
		}
	}
}

// writeList writes the live tests that a side ran.
func writeList(t *testing.T, outcomes map[string]map[test]string) error {
	all := make(map[test]string)
	for _, found := range outcomes {
		maps.Copy(all, found)
	}
	text := "# The live tests of the SDK, which call storage and do not skip themselves.\n# Written by the test in this folder with -args -update, from\n"
	for _, suite := range suites {
		text += versionLine(t, suite.module) + "\n"
	}
	for _, leaf := range slices.SortedFunc(maps.Keys(all), compareTests) {
		text += leaf.String() + "\n"
	}
	return os.WriteFile(filepath.Join("testdata", "tests.txt"), []byte(text), 0o644)
}

// writePassed writes the tests that pass on Azurite.
func writePassed(outcomes map[test]string) error {
	text := "# The live tests of the SDK that pass on Azurite " + azurite.Version + ", in one run with devstore.\n" +
		"# Measured again by the test in this folder with -args -azurite.\n"
	for _, leaf := range slices.SortedFunc(maps.Keys(outcomes), compareTests) {
		if outcomes[leaf] == "PASS" {
			text += leaf.String() + "\n"
		}
	}
	return os.WriteFile(filepath.Join("testdata", "azurite.txt"), []byte(text), 0o644)
}

// versionLine names the version of a module that go.mod requires.
func versionLine(t *testing.T, module string) string {
	version, err := output(t.Context(), ".", "go", "list", "-m", "-f", "{{.Path}} {{.Version}}", module)
	must(t, err)
	return "# " + version
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// read reads a list of tests: suite/package, name and after " | " a text.
func read(t *testing.T, name string) map[test]string {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	must(t, err)
	defer file.Close()
	list := make(map[test]string)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			where, text, _ := strings.Cut(line, " | ")
			pkg, name, ok := strings.Cut(where, " ")
			suite, pkg, ok2 := strings.Cut(pkg, "/")
			if !ok || !ok2 {
				t.Fatalf("testdata: not a test: %q", line)
			}
			list[test{suite, pkg, name}] = text
		}
	}
	must(t, lines.Err())
	return list
}

// write keeps the output of every function and a list of all outcomes.
func write(dir, side string, list []function, results []result) error {
	var lines []string
	for i, f := range list {
		r := results[i]
		file := filepath.Join(dir, side, f.suite, f.pkg, strings.ReplaceAll(f.name, "/", ".")+".txt")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(r.output), 0o644); err != nil {
			return err
		}
		for name, outcome := range r.outcomes {
			lines = append(lines, fmt.Sprintf("%s %s live=%v", test{f.suite, f.pkg, name}, outcome, r.live))
		}
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(dir, side+".txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}
