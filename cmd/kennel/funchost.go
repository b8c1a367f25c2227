package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// runFunc runs the app in the Azure Functions Core Tools until ctx ends. It
// calls ready once they say that they are running.
//
// The tools start further processes, and end neither with whoever started them
// nor, always, with one another. So they run on a tether.
func runFunc(ctx context.Context, con *console, app hosted, ready func()) error {
	url := app.url()
	_, port, err := net.SplitHostPort(app.listener.Addr().String())
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it again: %w", err)
	}
	if err := app.listener.Close(); err != nil { // the tools open the port themselves
		return err
	}
	cmd := exec.Command(self, "tether", "func", "start", "--port", port)
	cmd.Dir = app.dist
	cmd.Env = append(environ(app.settings), executableSetting+"="+filepath.Base(app.executable))
	cmd.Stdout = con.stderr // the app's log; standard output is for events
	cmd.Stderr = con.stderr
	inOwnGroup(cmd) // Ctrl+C is for kennel, who passes it on by the tether
	tether, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	running, ended := context.WithCancel(ctx)
	var greeting sync.WaitGroup
	greeting.Go(func() {
		if awaitHost(running, url) == nil {
			ready()
		}
	})
	forget := context.AfterFunc(ctx, func() {
		io.WriteString(tether, "stop\n") // fails where there is nothing left to stop
	})
	err = cmd.Wait()
	forget()
	ended()
	greeting.Wait()
	if ctx.Err() != nil {
		return nil // ended because it was asked to; how is of no interest
	}
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("`func start` ended by itself (%w): its log says why", err)
}
