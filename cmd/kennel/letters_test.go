//go:build unix

package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"kennel/internal/azure"
	"kennel/queue"
)

// scriptEnqueue puts a text into a queue as the Functions host expects it.
func scriptEnqueue(ts *testscript.TestScript, _ bool, args []string) {
	queues, err := azure.Account{ConnectionString: ts.Getenv("STORAGE")}.OpenQueues(nil)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = queues.Put(ctx, args[0], base64.StdEncoding.EncodeToString([]byte(args[1])), 0)
	ts.Check(err)
}

func scriptHolds(ts *testscript.TestScript, _ bool, args []string) {
	queues, err := azure.Account{ConnectionString: ts.Getenv("STORAGE")}.OpenQueues(nil)
	ts.Check(err)
	messages, err := queues.Peek(context.Background(), args[0], 2)
	ts.Check(err)
	if want := base64.StdEncoding.EncodeToString([]byte(args[1])); len(messages) != 1 || messages[0].Body != want {
		ts.Fatalf("queue %s holds %d messages %v, want %q", args[0], len(messages), messages, want)
	}
}

// scriptGiveUp moves the messages of a queue to the dead letters as the
// Functions host does: unchanged.
func scriptGiveUp(ts *testscript.TestScript, _ bool, args []string) {
	queues, err := azure.Account{ConnectionString: ts.Getenv("STORAGE")}.OpenQueues(nil)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	messages, err := queues.Receive(ctx, args[0], queue.MaxReceive, time.Minute)
	ts.Check(err)
	if len(messages) != number(ts, args[1]) {
		ts.Fatalf("queue %s has %d messages, want %s", args[0], len(messages), args[1])
	}
	for _, m := range messages {
		_, err := queues.Put(ctx, args[0]+queue.PoisonSuffix, m.Body, 0)
		ts.Check(err)
		ts.Check(queues.Delete(ctx, args[0], m))
	}
}

// scriptLetters waits until a queue has so many dead letters.
func scriptLetters(ts *testscript.TestScript, _ bool, args []string) {
	app := appAt(ts, ts.Getenv("URL"))
	want := number(ts, args[1])
	eventually(ts, fmt.Sprintf("%s has not %d dead letters", args[0], want), func() bool {
		letters, more, err := app.DeadLetters(context.Background(), args[0]+queue.PoisonSuffix)
		ts.Check(err)
		return len(letters) == want && !more
	})
}
