//go:build unix

package main

import (
	"archive/zip"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// TestMain makes this test binary run as the programs that the scripts start.
func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){
		"kennel":    main,
		"coretools": coreTools,
	})
}

// suite runs the tests with the fixtures of package storetest.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	flag.Set("test.parallel", "4") // scripts mostly wait for programs
	return storetest.Main(s.m)
}

// A verb is a script command besides the standard ones. Its usage lists its
// arguments: those in brackets are optional, and … allows more.
type verb struct {
	usage string
	run   func(ts *testscript.TestScript, neg bool, args []string)
}

var verbs = []verb{
	// Run a command of kennel in this process, without standard input and in no
	// folder of its own: to start the program takes 0.2 s of
	// processor time with the race detector.
	{"run ARGUMENT…", scriptRun},
	// Copy this repository's host.json, functions and sample of settings into the
	// folder, or functions and sample of an example. Sets $HANDLER to the built
	// program.
	{"project [EXAMPLE]", makeProject},
	// Make "up" and the handlers of the script use storage that only this script
	// has; sets $STORAGE.
	{"storage", useStorage},
	// Start an app at $URL that returns this response. The file "asked" has its
	// last request.
	{"answer STATUS TYPE TEXT", answerFrom},
	// Send a GET request to the app at $URL and expect the status.
	{"get PATH STATUS", getFrom},
	// Post the body to the app at $URL until the answer matches.
	{"post PATH BODY REGEXP", postTo},
	// Compare the modes and names in a zip with a list.
	{"archive FILE LIST", checkArchive},

	// Start "kennel up --json" and wait until it is ready; sets $URL, $PORT
	// and, with an Azurite, $STORAGE; with development buses, $PRIMARY to the
	// connection string of the primary one, and $FAULTS.
	{"up [flag…]", scriptUp},
	// Start "kennel storage" or "kennel bus" in its place and wait until it is
	// ready; with --json sets $URL, $PORT, and $STORAGE or $PRIMARY.
	{"serve storage|bus [flag…]", scriptServe},
	// Start "kennel up" and do not wait.
	{"launch [flag…]", scriptLaunch},
	// Start "kennel up" as for people; sets $URL and $PORT from .kennel/url.
	{"screen [flag…]", scriptScreen},
	// Occupy a port of 127.0.0.1 until the end of the script, unless another
	// program does.
	{"occupy PORT", scriptOccupy},
	// Wait for an output line of "kennel up" that matches; with !, fail if
	// there is one.
	{"await REGEXP", scriptAwait},
	// Send "kennel up" a signal. INT goes to its process group, as by Ctrl+C.
	{"signal INT|TERM|KILL", scriptSignal},
	// Send "kennel up" a signal, or none, and wait until it ends with the code;
	// -1 means ended by a signal.
	{"end SIGNAL CODE", scriptEnd},
	// Wait until all processes have ended that "kennel up" had started before
	// the signal. Fail if a NAME was not among them.
	{"gone NAME…", scriptGone},
	// Kill the handler of "kennel up" with SIGKILL, or the process that has WORD
	// in its command, which may get a TERM.
	{"strike [WORD] [TERM]", scriptStrike},

	// Go through a page of the documents line by line: its commands, its code, and
	// what it shows of their output.
	{"page FILE", walkPage},

	// Start another handler on $STORAGE; sets $NAME to its address.
	{"handler NAME [SETTING…]", scriptHandler},
	// Start a bus of the script and set $BUS to its connection string; cut its
	// connections; restore them.
	{"bus start|cut|mend", scriptBus},
	// Wait until the app receives signals; with ! until it does not.
	{"receives URL", scriptReceives},
	// Wait until N callers wait at the gate in the process at URL.
	{"waiting URL GATE N", scriptWaiting},
	// Draw numbers with many clients and kill a second handler KILLS times
	// during its work.
	{"crowd CLIENTS KILLS", scriptCrowd},

	// Cut off the primary bus of "kennel up"; restore it.
	{"outage begin|end", scriptOutage},
	// Expect that a queue of the primary bus has a message for each line of the
	// files, and no other one.
	{"delivered ENTITY FILE…", scriptDelivered},

	// Compare the report of the processor billing, as CSV, with a sum of the items.
	{"bill ITEMS REPORT", scriptBill},

	// Start the receiver of docs/other-languages.md in a language, behind a proxy
	// that loses answers and kills it once; sets $RECEIVER to the address, and
	// $KENNEL_WEBHOOK_ALLOW for "up".
	{"receiver python|typescript", scriptReceiver},

	// Put a text into a queue.
	{"enqueue QUEUE TEXT", scriptEnqueue},
	// Expect that the only message of a queue has this text.
	{"holds QUEUE TEXT", scriptHolds},
	// Move N messages, all that the queue has, to its dead letters as the
	// Functions host does.
	{"giveup QUEUE N", scriptGiveUp},
	// Wait until the queue has N dead letters.
	{"letters QUEUE N", scriptLetters},

	// Insert N blogs into the channel's table.
	{"fill CHANNEL N", scriptFill},
	// Start to delete a channel and leave the rest to the queue.
	{"begin CHANNEL", scriptBegin},
	// Expect N rows of blogs, their keys and fences of all channels that
	// ever had this name.
	{"rows CHANNEL N", scriptRows},
	// Delete the channel with a handler that is killed every 200 ms. During the
	// deletion, SUCCESSOR creates a channel with the same name.
	{"storm CHANNEL BLOGS [SUCCESSOR]", scriptStorm},
}

// call runs the verb if the number of arguments is valid.
func (v verb) call(ts *testscript.TestScript, neg bool, args []string) {
	maxArgs := strings.Count(v.usage, " ")
	if len(args) < maxArgs-strings.Count(v.usage, "[") || len(args) > maxArgs && !strings.Contains(v.usage, "…") {
		ts.Fatalf("usage: %s", v.usage)
	}
	v.run(ts, neg, args)
}

// TestScripts runs testdata/script with the verbs. $BLOGS, $MANY, $KILLS and
// $MESSAGES are small in `make test` and large in `make prove`, where [prove] is true.
func TestScripts(t *testing.T) {
	commands := make(map[string]func(ts *testscript.TestScript, neg bool, args []string))
	for _, v := range verbs {
		name, _, _ := strings.Cut(v.usage, " ")
		commands[name] = v.call
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			// Share the caches for builds and installations.
			for _, name := range []string{"HOME", "XDG_CACHE_HOME", "GOFLAGS"} {
				env.Setenv(name, os.Getenv(name))
			}
			// The race detector delays the end of a program by a second.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			for name, n := range map[string]int{
				"BLOGS": storetest.Scale(300, 3000),
				"MANY":  storetest.Scale(1200, 12_000),
				"KILLS": storetest.Scale(3, 15),

				"MESSAGES": storetest.Scale(60, 1000), // even
			} {
				env.Setenv(name, strconv.Itoa(n))
			}
			testdata, err := filepath.Abs("testdata")
			if err != nil {
				return err
			}
			env.Setenv("TESTDATA", testdata)
			env.Setenv("KENNEL", "kennel") // for testdata/func.sh
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

// state is shared by the verbs of one script.
type state struct {
	t   *testing.T
	up  upRun
	bus *devbus.Local
}

// stateKey finds the state among the values of a script.
type stateKey struct{}

func stateOf(ts *testscript.TestScript) *state { return ts.Value(stateKey{}).(*state) }

func scriptRun(ts *testscript.TestScript, neg bool, args []string) {
	env := make(map[string]string)
	for _, name := range []string{urlVariable, keyVariable, "HOME", "TERM", "NO_COLOR"} {
		if value := ts.Getenv(name); value != "" {
			env[name] = value
		}
	}
	state := stateOf(ts)
	code := run(state.t.Context(), append([]string{"kennel"}, args...), env, strings.NewReader(""), ts.Stdout(), ts.Stderr())
	if neg != (code != exitDone) {
		ts.Fatalf("kennel ended with code %d", code)
	}
}

// number reads an argument.
func number(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}

func makeProject(ts *testscript.TestScript, _ bool, args []string) {
	root := filepath.Join("..", "..")
	from, program := root, "handler"
	if len(args) > 0 {
		program = "examples/" + args[0]
		from = filepath.Join(root, filepath.FromSlash(program))
		// They name the program that may be given as a handler.
		ts.Check(os.WriteFile(ts.MkAbs("go.mod"), []byte("module kennel/"+program+"\n"), 0o644))
		ts.Check(os.WriteFile(ts.MkAbs("main.go"), []byte("package main\n"), 0o644))
	}
	ts.Check(os.CopyFS(ts.MkAbs("functions"), os.DirFS(filepath.Join(from, "functions"))))
	for name, dir := range map[string]string{"host.json": root, "local.settings.json.sample": from} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), text, 0o644))
	}
	path, err := storetest.Build(program)
	ts.Check(err)
	ts.Setenv("HANDLER", path)
}

// useStorage gives the script storage of its own: the host of another script would
// take its messages.
func useStorage(ts *testscript.TestScript, _ bool, _ []string) {
	connection := storetest.OwnStorage(stateOf(ts).t).ConnectionString()
	ts.Setenv("STORAGE", connection)
	ts.Setenv("AzureWebJobsStorage", connection)
}

func answerFrom(ts *testscript.TestScript, _ bool, args []string) {
	status, asked := number(ts, args[0]), ts.MkAbs("asked")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		os.WriteFile(asked, []byte(r.Method+" "+r.URL.String()+"\n"), 0o644)
		answer{status, args[1], strings.ReplaceAll(args[2], `\n`, "\n"), nil}.write(w)
	}))
	ts.Defer(server.Close)
	ts.Setenv("URL", server.URL)
}

func scriptOccupy(ts *testscript.TestScript, _ bool, args []string) {
	// A test beside this one may have the port, and give it back at any time.
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
		if listener, err := net.Listen("tcp", "127.0.0.1:"+args[0]); err == nil {
			ts.Defer(func() { listener.Close() })
			return
		}
	}
}

func getFrom(ts *testscript.TestScript, _ bool, args []string) {
	resp, err := http.Get(ts.Getenv("URL") + args[0])
	ts.Check(err)
	resp.Body.Close()
	if got := strconv.Itoa(resp.StatusCode); got != args[1] {
		ts.Fatalf("GET %s returned %s, want %s", args[0], got, args[1])
	}
}

func postTo(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile(args[2])
	ts.Check(err)
	last := ""
	eventually(ts, "no answer matches "+args[2], func() bool {
		resp, err := http.Post(ts.Getenv("URL")+args[0], "application/json", strings.NewReader(args[1]))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		last = string(text)
		return err == nil && pattern.MatchString(last)
	})
	ts.Logf("%s", last)
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
		ts.Fatalf("%s contains\n%s\nwant\n%s", args[0], got.String(), want)
	}
}
