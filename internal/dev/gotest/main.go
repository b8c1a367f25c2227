// Gotest runs go test with its arguments, and a second time for packages whose
// test binary Go itself has crashed.
//
// With the race detector, Go 1.26 can crash in testing/synctest: goroutines of
// a bubble whose timers are due at once run them side by side, with one race
// context, which is not made for that. It happens about once in twenty runs of
// all tests, in any package. A test that fails, a panic and a race that was
// found are no such crash: they are not repeated.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

func main() {
	args := os.Args[1:]
	again, err := run(args)
	if err == nil {
		return
	}
	if len(again) > 0 {
		fmt.Printf("Go crashed in %s, without a failed test: once more\n", strings.Join(again, ", "))
		_, err = run(append(flags(args), again...))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "go test:", err)
		os.Exit(1)
	}
}

// run returns the packages to test once more, if that can mend err.
func run(args []string) (again []string, err error) {
	var output bytes.Buffer
	cmd := exec.Command("go", append([]string{"test"}, args...)...)
	cmd.Stdout = io.MultiWriter(os.Stdout, &output)
	cmd.Stderr = cmd.Stdout
	err = cmd.Run()
	if err != nil {
		again = crashed(output.String())
	}
	return again, err
}

// flags returns args without the packages, which follow the flags.
func flags(args []string) []string {
	for i, arg := range args {
		if strings.HasPrefix(arg, "./") {
			return args[:i:i]
		}
	}
	return args
}

var (
	// verdict is the line behind the output of a package.
	verdict = regexp.MustCompile(`(?m)^(ok|FAIL|\?)[ \t]+(\S+).*\n`)
	crash   = regexp.MustCompile(`(?m)^(SIG[A-Z]+: |fatal error: unexpected signal|FATAL: ThreadSanitizer|ThreadSanitizer: CHECK failed)`)
	failure = regexp.MustCompile(`(?m)^\s*--- FAIL|^panic: |^WARNING: DATA RACE|^fatal error: (all|concurrent)`)
)

// crashed returns the packages that Go has crashed, or none if anything else
// has failed too.
func crashed(output string) (packages []string) {
	begin := 0
	for _, at := range verdict.FindAllStringSubmatchIndex(output, -1) {
		word, name := output[at[2]:at[3]], output[at[4]:at[5]]
		text := output[begin:at[0]]
		begin = at[1]
		if word != "FAIL" {
			continue
		}
		if failure.MatchString(text) || !crash.MatchString(text) {
			return nil
		}
		packages = append(packages, name)
	}
	return packages
}
