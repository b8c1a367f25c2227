//go:build unix

package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"kennel/gate"
	"kennel/internal/dev/devbus"
)

// scriptHandler starts a handler of its own beside the one behind the local
// host: a second instance of the app.
func scriptHandler(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: handler NAME [SETTING…]")
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	ts.Check(err)
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	ts.Check(listener.Close())
	cmd := exec.Command(ts.Getenv("HANDLER"))
	cmd.Env = append([]string{"FUNCTIONS_CUSTOMHANDLER_PORT=" + port, "AzureWebJobsStorage=" + ts.Getenv("STORAGE")}, args[1:]...)
	var log strings.Builder
	cmd.Stdout = &log
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cmd.Process.Kill()
		cmd.Wait()
		ts.Logf("handler %s wrote\n%s", args[0], log.String())
	})
	ts.Setenv(args[0], "http://127.0.0.1:"+port)
	eventually(ts, "handler "+args[0]+" does not answer", func() bool {
		resp, err := http.Get(ts.Getenv(args[0]) + "/api/health")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
}

// scriptBus starts a bus of the script's own, to which no "kennel up" has a
// hand, cuts it off, and mends it.
func scriptBus(ts *testscript.TestScript, _ bool, args []string) {
	run := ts.Value(busKey{}).(*busRun)
	switch strings.Join(args, " ") {
	case "start":
		bus, err := devbus.Listen(nil)
		ts.Check(err)
		ts.Defer(bus.Close)
		ts.Check(bus.CreateTopic("signals", nil))
		run.bus = bus
		ts.Setenv("BUS", bus.ConnectionString())
	case "cut":
		run.bus.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		run.bus.DropConnections()
	case "mend":
		run.bus.Heal()
	default:
		ts.Fatalf("usage: bus start|cut|mend")
	}
}

// busKey finds the bus among the values of a script.
type busKey struct{}

type busRun struct{ bus *devbus.Local }

// scriptHears waits until an app hears signals, or with ! until it does not.
func scriptHears(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] hears URL")
	}
	eventually(ts, "signals heard: still "+strconv.FormatBool(neg), func() bool {
		var status struct{ Signals struct{ Heard bool } }
		readStatus(ts, args[0], &status)
		return status.Signals.Heard != neg
	})
}

// scriptWaiting waits for others to wait.
func scriptWaiting(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: waiting URL GATE N")
	}
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	eventually(ts, "nobody waits at "+args[1], func() bool {
		var status struct{ Gates map[string]gate.Watched }
		readStatus(ts, args[0], &status)
		return status.Gates[args[1]].Waiting == want
	})
}

func readStatus(ts *testscript.TestScript, address string, status any) {
	resp, err := http.Get(address + "/api/status")
	ts.Check(err)
	defer resp.Body.Close()
	ts.Check(json.NewDecoder(resp.Body).Decode(status))
}

// eventually looks until something is so.
func eventually(ts *testscript.TestScript, otherwise string, so func() bool) {
	deadline := time.After(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !so() {
		select {
		case <-ticker.C:
		case <-deadline:
			ts.Fatalf("%s", otherwise)
		}
	}
}
