package main

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/customhandler"
	"kennel/internal/names"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

// A message that can never be carried out goes among the dead letters, whole
// and with the reason, and touches nothing.
func TestCleanupMessages(t *testing.T) {
	t.Parallel()
	p := start(t, built.handler, withStorage(t)) // its log is read below
	path := "/" + storetest.Name()
	older := p.channels(t, "PUT", path, `{"owner":"ann"}`)
	older.expect(t, "create", 201, "")
	p.channels(t, "DELETE", path, "").expect(t, "delete", 202, "")
	p.channels(t, "PUT", path, `{"owner":"bob"}`).expect(t, "create again", 201, "")
	posted := p.channels(t, "POST", path+"/blogs", `{"title":"t","text":"t","userId":"bob"}`)
	posted.expect(t, "post", 201, "")

	const other = "0123456789abcdef-0123456789abcdef"
	name := path[1:]
	long := `{"v":1,"channel":"` + strings.Repeat("a", 40_000) + `"}`
	dead := map[string]struct{ text, reason string }{
		"empty":                   {"", "decode JSON"},
		"not JSON":                {"delete news", "decode JSON"},
		"unicode":                 {"{\"v\":1,\"channel\":\"<ü&\\u2028\u2028\"}", "neither begins nor ends"},
		"unknown version":         {`{"v":2,"channel":"` + name + `"}`, "version 2 is unknown"},
		"bad channel":             {`{"v":1,"channel":"a/b","incarnation":"` + other + `"}`, "a name holds no /"},
		"incarnation never there": {`{"v":1,"channel":"` + name + `","incarnation":"` + other + `"}`, "the incarnation does not exist"},
		"names of metadata":       {`{"Id":"x","DequeueCount":99,"sys":{}}`, "no version"},
		"too long to be one":      {long, "bytes are more than"},
	}
	for what, m := range dead {
		if err := p.invoke(t, "ChannelCleanup", cleanupOf(customhandler.QueueMessage{Text: m.text, ID: what, DequeueCount: 1})); err != nil {
			t.Errorf("%s: %v, want it among the dead letters", what, err)
		}
	}
	for range 2 { // the second delivery does no harm
		done := `{"v":1,"channel":"` + name + `","incarnation":"` + older.Incarnation + `"}`
		if err := p.invoke(t, "ChannelCleanup", cleanupOf(customhandler.QueueMessage{Text: done, ID: "older incarnation"})); err != nil {
			t.Errorf("the message of an older incarnation: %v, want nothing done", err)
		}
	}
	// What would not fit with a reason, or came damaged, is left to the host: it
	// moves the very message among them after the last delivery.
	for what, text := range map[string]string{"very long": strings.Repeat(long, 2), "not text": "\xff\xfe"} {
		if err := p.invoke(t, "ChannelCleanup", cleanupOf(customhandler.QueueMessage{Text: text, ID: what})); err == nil {
			t.Errorf("%s: taken, want it left to the host", what)
		}
	}

	letters := deadLetters(t)
	for what, m := range dead {
		letter, ok := letters[what]
		if metadata := "x"; what == "names of metadata" { // the payload's own, as the host passes it on
			letter, ok = letters[metadata]
		}
		if !ok || letter.Queue != names.CleanupQueue || letter.Text != m.text || !strings.Contains(letter.Reason, m.reason) || letter.At.IsZero() {
			t.Errorf("%s: dead letter %+.300v, want the whole message because of %q", what, letter, m.reason)
		}
	}
	for _, what := range []string{"older incarnation", "very long", "not text"} {
		if letter, ok := letters[what]; ok {
			t.Errorf("%s: dead letter %+.300v, want none", what, letter)
		}
	}
	if after := p.channels(t, "GET", path+"/blogs/"+posted.Blog, ""); after.body != posted.body {
		t.Errorf("the blog of the channel that has the name now: %s, want it untouched", after.body)
	}
	if log := p.output.String(); strings.Count(log, "message put among the dead letters") != len(dead) {
		t.Errorf("want one line of the log for each dead letter: %s", log)
	}
	if log := p.output.String(); strings.Count(log, `"channel deleted"`) != 1 {
		t.Errorf("want one line of the log for the deleted channel: %s", log)
	}
}

// An account with blobs alone serves all but channels, and logs what is
// missing.
func TestChannelsWithoutTables(t *testing.T) {
	t.Parallel()
	p := start(t, built.handler, "AzureWebJobsStorage__blobServiceUri=https://kennel.blob.core.windows.net", "AzureWebJobsStorage__credential=managedidentity")
	p.channels(t, "GET", "/news", "").expect(t, "read", 501, "channels_off")
	if err := p.invoke(t, "ChannelCleanup", cleanupOf(customhandler.QueueMessage{Text: "{}"})); err == nil {
		t.Error("a message was taken that no function handles")
	}
	if err := p.invoke(t, "ChannelSweep", sweepNow()); err != nil {
		t.Error(err)
	}
	if status, _, _ := p.call(t, "GET", "/api/health", nil); status != 200 {
		t.Errorf("health: %d", status)
	}
	if log := p.output.String(); !strings.Contains(log, "channels are not served") || !strings.Contains(log, "nor a table address") {
		t.Errorf("the log does not state what is missing: %s", log)
	}
}

// A row that an operator wrote by hand is left as it is.
func TestCorruptChannel(t *testing.T) {
	t.Parallel()
	p := shared(t)
	tables, _ := apptest.OpenStorage(t)
	store := apptest.OpenTable(t, tables, names.ChannelsTable)
	name := storetest.Name()
	row := table.Row{Partition: name, Key: "name", Values: map[string]string{"v": "7", "channel": name}}
	if _, err := store.Submit(t.Context(), table.Write{Verb: table.Insert, Row: row}); err != nil {
		t.Fatal(err)
	}
	defer store.Submit(context.WithoutCancel(t.Context()), table.Write{Verb: table.Delete, Row: row, If: table.AnyVersion})
	other := storetest.Name()
	created := p.channels(t, "PUT", "/"+other, `{"owner":"ann"}`)
	created.expect(t, "create", 201, "")
	blog := table.Row{Partition: other + "@" + created.Incarnation, Key: "20260102T030411.598217007Z-a2cf55bb", Values: map[string]string{"v": "8"}}
	if _, err := apptest.OpenTable(t, tables, names.BlogsTable).Submit(t.Context(), table.Write{Verb: table.Insert, Row: blog}); err != nil {
		t.Fatal(err)
	}
	if list := p.channels(t, "GET", "/"+other+"/blogs", ""); list.status != 200 || strings.TrimSpace(list.body) != `{"items":[],"leftOut":1}` {
		t.Errorf("list with a row of another format: %d %s", list.status, list.body)
	}
	for _, call := range [][3]string{{"GET", "/" + name, ""}, {"PUT", "/" + name, `{"owner":"ann"}`}, {"DELETE", "/" + name, ""}, {"GET", "/" + name + "/blogs", ""}} {
		p.channels(t, call[0], call[1], call[2]).expect(t, call[0]+" "+call[1], 500, "channel_corrupt")
	}
	if !strings.Contains(p.output.String(), `has format \"8\"`) {
		t.Errorf("the log does not name the row that a list leaves out: %s", p.output)
	}
	if !strings.Contains(p.output.String(), `has format \"7\"`) {
		t.Errorf("the log does not state what is wrong: %s", p.output)
	}
}

// deadLetters takes all there are, by the message's id. Other tests may have put
// some.
func deadLetters(t *testing.T) map[string]queue.DeadLetter {
	t.Helper()
	_, queues := apptest.OpenStorage(t)
	letters := make(map[string]queue.DeadLetter)
	for {
		messages, err := queues.Receive(t.Context(), names.CleanupQueue+queue.PoisonSuffix, 32, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if len(messages) == 0 {
			return letters
		}
		for _, m := range messages {
			text, err := base64.StdEncoding.DecodeString(m.Body)
			l, err2 := queue.ReadDeadLetter(string(text))
			if err := errors.Join(err, err2); err != nil {
				t.Fatalf("dead letter %s: %v", m.Body, err)
			}
			letters[l.Message] = l
		}
	}
}
