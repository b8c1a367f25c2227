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

// TestScripts runs testdata/script. Beside the usual commands a script has:
//
//	project                    make the folder a project: this repository's
//	                           host.json and functions; $HANDLER is its handler
//	storage                    let "up" and the handlers of the script use the
//	                           Azurite of all scripts; sets $STORAGE
//	answer STATUS TYPE TEXT    let an app at $URL answer like this from now on
//	get PATH STATUS            ask the app at $URL, and expect the status
//	archive FILE LIST          check the modes and names in a zip against a list
//	up [flag…]                 start "kennel up --json" and wait until it is
//	                           ready; sets $URL, $PORT and, with an Azurite, $STORAGE
//	await REGEXP               wait for a line of what it writes; with ! it has
//	                           not written any such line
//	signal NAME                send it a signal: TERM, KILL, or INT, which its
//	                           whole process group gets, as by Ctrl+C
//	end NAME CODE              send it a signal, and wait for it to end with that
//	                           code; -1 is an end by a signal
//	gone NAME…                 wait until everything it had started when it was
//	                           sent a signal is gone; each NAME was among that
//	strike                     kill -9 the handler that it runs
//	begin CHANNEL              begin to delete a channel, and leave the rest to
//	                           the queue
//	handler NAME [SETTING…] start one more handler on $STORAGE; sets $NAME to its
//	                           address
//	bus start|cut|mend         start a bus of the script's own and set $BUS to its
//	                           connection string; cut it off; mend it
//	hears URL                  wait until the app there hears signals; with ! until
//	                           it does not
//	waiting URL GATE N         wait until N wait at the gate in the process there
//	crowd CLIENTS KILLS STORAGE
//	                           draw with many clients, and kill a second
//	                           handler on the storage, amid work, that often
//	fill CHANNEL N             put that many blogs into the channel's table
//	rows CHANNEL N             expect that many rows of all blogs and fences that
//	                           there ever were under this name
//	                           $BLOGS, $MANY and $KILLS are few in `make test`, and
//	                           many in `make prove`, where [prove] holds
//	storm CHANNEL BLOGS [SUCCESSOR]
//	                           delete the channel by a handler that is killed
//	                           after 200 ms, again and again; meanwhile the
//	                           successor takes its name
func TestScripts(t *testing.T) {
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
			env.Values[upKey{}] = new(upRun)
			env.Values[busKey{}] = new(busRun)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"project": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(os.CopyFS(ts.MkAbs("functions"), os.DirFS(filepath.Join("..", "..", "functions"))))
				text, err := os.ReadFile(filepath.Join("..", "..", "host.json"))
				ts.Check(err)
				ts.Check(os.WriteFile(ts.MkAbs("host.json"), text, 0o644))
				path, err := storetest.Build("kennel/handler")
				ts.Check(err)
				ts.Setenv("HANDLER", path)
			},
			"storage": func(ts *testscript.TestScript, _ bool, _ []string) {
				connection := storetest.Azurite(t).ConnectionString()
				ts.Setenv("STORAGE", connection)
				ts.Setenv("AzureWebJobsStorage", connection)
			},
			"answer":  answerFrom,
			"get":     getFrom,
			"archive": checkArchive,
			"up":      scriptUp,
			"await":   scriptAwait,
			"signal":  scriptSignal,
			"end":     scriptEnd,
			"gone":    scriptGone,
			"strike":  scriptStrike,
			"begin":   scriptBegin,
			"crowd":   scriptCrowd,
			"handler": scriptHandler,
			"waiting": scriptWaiting,
			"bus":     scriptBus,
			"hears":   scriptHears,
			"fill":    scriptFill,
			"rows":    scriptRows,
			"storm":   scriptStorm,
		},
		Condition: func(name string) (bool, error) {
			if name == "prove" {
				return storetest.Proving(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		RequireExplicitExec: true,
	})
}

func answerFrom(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: answer STATUS TYPE TEXT")
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer{status, args[1], strings.ReplaceAll(args[2], `\n`, "\n"), nil}.write(w)
	}))
	ts.Defer(server.Close)
	ts.Setenv("URL", server.URL)
}

func getFrom(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: get PATH STATUS")
	}
	resp, err := http.Get(ts.Getenv("URL") + args[0])
	ts.Check(err)
	resp.Body.Close()
	if got := strconv.Itoa(resp.StatusCode); got != args[1] {
		ts.Fatalf("%s answered %s, want %s", args[0], got, args[1])
	}
}

func checkArchive(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: archive FILE LIST")
	}
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
