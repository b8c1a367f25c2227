//go:build unix

package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// scriptOutage cuts off the primary bus of kennel up, and restores it.
func scriptOutage(ts *testscript.TestScript, _ bool, args []string) {
	switch args[0] {
	case "begin":
		inject(ts, http.MethodPost, `{"kind":"refuse-dial"}`)
		inject(ts, http.MethodPost, `{"kind":"disconnect"}`)
	case "end":
		inject(ts, http.MethodDelete, "")
	default:
		ts.Fatalf("%s is not begin or end", args[0])
	}
}

// inject controls the faults of the primary bus.
func inject(ts *testscript.TestScript, method, fault string) {
	req, err := http.NewRequest(method, ts.Getenv("FAULTS"), strings.NewReader(fault))
	ts.Check(err)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		ts.Fatalf("%s %s: %s", method, fault, resp.Status)
	}
}

// scriptDelivered compares all messages of a queue with the lines of files.
func scriptDelivered(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	bus, err := azservicebus.NewClientFromConnectionString(ts.Getenv("PRIMARY"), nil)
	ts.Check(err)
	defer bus.Close(ctx)
	queue, err := bus.NewReceiverForQueue(args[0], nil)
	ts.Check(err)
	got, want := make(map[string]int), make(map[string]int)
	for {
		messages, err := queue.PeekMessages(ctx, 1000, nil) // after those it returned before
		ts.Check(err)
		if len(messages) == 0 {
			break
		}
		for _, m := range messages {
			got[string(m.Body)]++
		}
	}
	for _, file := range args[1:] {
		for line := range strings.Lines(ts.ReadFile(file)) {
			want[strings.TrimSuffix(line, "\n")]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		ts.Fatalf("messages of %s (-want +got):\n%s", args[0], diff)
	}
}
