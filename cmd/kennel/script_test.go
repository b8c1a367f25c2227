//go:build unix

package main

import (
	"archive/zip"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// TestMain makes this test binary answer to the names of the programs that the
// scripts start.
func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){
		"kennel":    main,
		"coretools": coreTools,
	})
}

// suite runs the tests with what package storetest lends them.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	flag.Set("test.parallel", "4") // scripts wait for programs most of the time
	return storetest.Main(s.m)
}

// A verb is a command that scripts have beside the usual ones. Its usage gives
// its arguments: those in brackets are optional, and … allows more.
type verb struct {
	usage string
	run   func(ts *testscript.TestScript, neg bool, args []string)
}

var verbs = []verb{
	// Make the folder a project: this repository's host.json and functions.
	// $HANDLER is its handler.
	{"project", makeProject},
	// Let "up" and the handlers of the script use the Azurite of all scripts;
	// sets $STORAGE.
	{"storage", useAzurite},
	// Let an app at $URL answer like this from now on.
	{"answer STATUS TYPE TEXT", answerFrom},
	// Send a request to the app at $URL, and expect the status.
	{"get PATH STATUS", getFrom},
	// Compare the modes and names in a zip with a list.
	{"archive FILE LIST", checkArchive},

	// Start "kennel up --json" and wait until it is ready; sets $URL, $PORT and,
	// with an Azurite, $STORAGE.
	{"up [flag…]", scriptUp},
	// Wait for a line of what it writes; with ! it has not written any such line.
	{"await REGEXP", scriptAwait},
	// Send it a signal. Its whole process group gets INT, as by Ctrl+C.
	{"signal INT|TERM|KILL", scriptSignal},
	// Send it a signal, and wait for it to end with that code; -1 is an end by a
	// signal.
	{"end SIGNAL CODE", scriptEnd},
	// Wait until everything is gone that it had started when it was sent a signal;
	// each NAME was among that.
	{"gone NAME…", scriptGone},
	// Kill -9 the handler that it runs.
	{"strike", scriptStrike},

	// Start one more handler on $STORAGE; sets $NAME to its address.
	{"handler NAME [SETTING…]", scriptHandler},
	// Start a bus of the script's own and set $BUS to its connection string; cut
	// it off; mend it.
	{"bus start|cut|mend", scriptBus},
	// Wait until the app there receives signals; with ! until it does not.
	{"hears URL", scriptHears},
	// Wait until N wait at the gate in the process there.
	{"waiting URL GATE N", scriptWaiting},
	// Draw with many clients, and kill a second handler, amid work, that often.
	{"crowd CLIENTS KILLS", scriptCrowd},

	// Put that many blogs into the channel's table.
	{"fill CHANNEL N", scriptFill},
	// Begin to delete a channel, and leave the rest to the queue.
	{"begin CHANNEL", scriptBegin},
	// Expect that many rows of all blogs and fences that there ever were under
	// this name.
	{"rows CHANNEL N", scriptRows},
	// Delete the channel by a handler that is killed after 200 ms, again and
	// again; meanwhile the successor takes its name.
	{"storm CHANNEL BLOGS [SUCCESSOR]", scriptStorm},
}

// call runs the verb if the number of its arguments is right.
func (v verb) call(ts *testscript.TestScript, neg bool, args []string) {
	most := strings.Count(v.usage, " ")
	if len(args) < most-strings.Count(v.usage, "[") || len(args) > most && !strings.Contains(v.usage, "…") {
		ts.Fatalf("usage: %s", v.usage)
	}
	v.run(ts, neg, args)
}

// TestScripts runs testdata/script, with the verbs. $BLOGS, $MANY and $KILLS are
// few in `make test`, and many in `make prove`, where [prove] holds.
func TestScripts(t *testing.T) {
	commands := make(map[string]func(ts *testscript.TestScript, neg bool, args []string))
	for _, v := range verbs {
		name, _, _ := strings.Cut(v.usage, " ")
		commands[name] = v.call
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			// What is built and installed lies where it lies for everybody.
			for _, name := range []string{"HOME", "XDG_CACHE_HOME", "GOFLAGS"} {
				env.Setenv(name, os.Getenv(name))
			}
			// A program under the race detector sleeps for a second before it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			for name, n := range map[string]int{
				"BLOGS": storetest.Scale(300, 3000),
				"MANY":  storetest.Scale(2000, 12_000),
				"KILLS": storetest.Scale(3, 15),
			} {
				env.Setenv(name, strconv.Itoa(n))
			}
			env.Values[stateKey{}] = &state{t: t}
			return nil
		},
		Cmds: commands,
		Condition: func(name string) (bool, error) {
			if name == "prove" {
				return storetest.Proving(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		RequireExplicitExec: true,
	})
}

// state is what the verbs of one script share.
type state struct {
	t   *testing.T
	up  upRun
	bus *devbus.Local
}

// stateKey finds the state among the values of a script.
type stateKey struct{}

func stateOf(ts *testscript.TestScript) *state { return ts.Value(stateKey{}).(*state) }

// number reads an argument.
func number(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}

func makeProject(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(os.CopyFS(ts.MkAbs("functions"), os.DirFS(filepath.Join("..", "..", "functions"))))
	text, err := os.ReadFile(filepath.Join("..", "..", "host.json"))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("host.json"), text, 0o644))
	path, err := storetest.Build("kennel/handler")
	ts.Check(err)
	ts.Setenv("HANDLER", path)
}

func useAzurite(ts *testscript.TestScript, _ bool, _ []string) {
	connection := storetest.Azurite(stateOf(ts).t).ConnectionString()
	ts.Setenv("STORAGE", connection)
	ts.Setenv("AzureWebJobsStorage", connection)
}

func answerFrom(ts *testscript.TestScript, _ bool, args []string) {
	status := number(ts, args[0])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer{status, args[1], strings.ReplaceAll(args[2], `\n`, "\n"), nil}.write(w)
	}))
	ts.Defer(server.Close)
	ts.Setenv("URL", server.URL)
}

func getFrom(ts *testscript.TestScript, _ bool, args []string) {
	resp, err := http.Get(ts.Getenv("URL") + args[0])
	ts.Check(err)
	resp.Body.Close()
	if got := strconv.Itoa(resp.StatusCode); got != args[1] {
		ts.Fatalf("%s answered %s, want %s", args[0], got, args[1])
	}
}

func checkArchive(ts *testscript.TestScript, _ bool, args []string) {
	archive, err := zip.OpenReader(ts.MkAbs(args[0]))
	ts.Check(err)
	defer archive.Close()
	var got strings.Builder
	for _, file := range archive.File {
		fmt.Fprintln(&got, file.Mode(), file.Name)
	}
	if want := ts.ReadFile(args[1]); got.String() != want {
		ts.Fatalf("%s holds\n%s\nwant\n%s", args[0], got.String(), want)
	}
}
