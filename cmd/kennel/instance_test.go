//go:build unix

package main

import (
	"context"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"kennel/client"
	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// An instance is a handler besides the one of the local host. It can be killed
// and started again.
type instance struct {
	handler string
	env     []string
	log     strings.Builder
	address atomic.Value // string
	cmd     *exec.Cmd
}

func newInstance(ts *testscript.TestScript, settings ...string) *instance {
	return &instance{handler: ts.Getenv("HANDLER"), env: append([]string{"AzureWebJobsStorage=" + ts.Getenv("STORAGE")}, settings...)}
}

func (i *instance) url() string { return i.address.Load().(string) }

func (i *instance) start() error {
	number, err := storetest.Port()
	if err != nil {
		return err
	}
	port := strconv.Itoa(number)
	i.cmd = exec.Command(i.handler)
	i.cmd.Env = append(i.env, "FUNCTIONS_CUSTOMHANDLER_PORT="+port)
	i.cmd.Stdout = &i.log
	i.address.Store("http://127.0.0.1:" + port)
	return i.cmd.Start()
}

// kill kills the process with SIGKILL and waits until it has ended.
func (i *instance) kill() {
	i.cmd.Process.Kill()
	i.cmd.Wait()
}

func scriptHandler(ts *testscript.TestScript, _ bool, args []string) {
	i := newInstance(ts, args[1:]...)
	ts.Check(i.start())
	ts.Defer(func() {
		i.kill()
		ts.Logf("handler %s wrote\n%s", args[0], i.log.String())
	})
	ts.Setenv(args[0], i.url())
	eventually(ts, "handler "+args[0]+" does not respond", func() bool {
		resp, err := http.Get(i.url() + "/api/health")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
}

// appAt returns the client of an app.
func appAt(ts *testscript.TestScript, address string) *client.Client {
	app, err := client.New(address, nil)
	ts.Check(err)
	return app
}

// scriptBus starts a bus of the script, which no "kennel up" controls, cuts its
// connections, and restores them.
func scriptBus(ts *testscript.TestScript, _ bool, args []string) {
	s := stateOf(ts)
	switch strings.Join(args, " ") {
	case "start":
		bus, err := devbus.Listen(nil)
		ts.Check(err)
		ts.Defer(bus.Close)
		ts.Check(bus.CreateTopic("signals", nil))
		s.bus = bus
		ts.Setenv("BUS", bus.ConnectionString())
	case "cut":
		s.bus.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		s.bus.DropConnections()
	case "mend":
		s.bus.Heal()
	default:
		ts.Fatalf("usage: bus start|cut|mend")
	}
}

// scriptReceives waits until an app receives signals, or with ! until it does
// not.
func scriptReceives(ts *testscript.TestScript, neg bool, args []string) {
	eventually(ts, "signals received: still "+strconv.FormatBool(neg), func() bool {
		return statusOf(ts, args[0]).Signals.Received != neg
	})
}

// scriptWaiting waits until N callers wait at a gate.
func scriptWaiting(ts *testscript.TestScript, _ bool, args []string) {
	want := number(ts, args[2])
	eventually(ts, "the number of callers that wait at "+args[1]+" is not "+args[2], func() bool {
		return statusOf(ts, args[0]).Gates[args[1]].Waiting == want
	})
}

func statusOf(ts *testscript.TestScript, address string) client.Status {
	status, err := appAt(ts, address).Status(context.Background())
	ts.Check(err)
	return status
}

// eventually polls until the condition is true.
func eventually(ts *testscript.TestScript, otherwise string, condition func() bool) {
	deadline := time.After(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline:
			ts.Fatalf("%s", otherwise)
		}
	}
}
