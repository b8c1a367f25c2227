package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kennel/channels"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/storetest"
)

// failpointBuilder builds the handler with one line changed and one file added.
// The handler that ships has no switch to be killed by, not even one that is
// off: the source is changed for this build alone.
func failpointBuilder(dir string) (string, error) {
	source, err := os.ReadFile("channels.go")
	if err != nil {
		return "", err
	}
	const plain, armed = "outbox, nil),", "outbox, &channels.Options{Step: killAt}),"
	if strings.Count(string(source), plain) != 1 {
		return "", fmt.Errorf("channels.go has not one %q to change", plain)
	}
	changed := filepath.Join(dir, "channels.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), plain, armed, 1)), 0o600); err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "channels.go"): changed,
		filepath.Join(here, "killat.go"):   filepath.Join(here, "testdata", "failpoint", "killat.go"),
	}})
	if err != nil {
		return "", err
	}
	file, path := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "failpoint")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-overlay", file, "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the handler with failpoints: %w\n%s", err, out)
	}
	return path, nil
}

// killing is storage, and handlers that die on it.
type killing struct {
	env             string
	channels, blogs *azure.Table
	queues          *azure.Queues
	fresh           *process
	struck          map[string]bool // the steps at which a process has died
}

func newKilling(t *testing.T) *killing {
	account := azure.Account{ConnectionString: storetest.Azurite(t).ConnectionString()}
	tables, err := account.OpenTables(nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := account.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	k := &killing{
		env:      withAzurite(t),
		channels: azure.NewTable(tables, channelsTable),
		blogs:    azure.NewTable(tables, blogsTable),
		queues:   queues,
		fresh:    start(t, built.handler, withAzurite(t)),
		struck:   make(map[string]bool),
	}
	k.fresh.ready(t)
	return k
}

// dies starts a handler that dies at the step, lets it do something, and waits
// until it is dead.
func (k *killing) dies(t *testing.T, step string, do func(p *process) error, env ...string) {
	t.Helper()
	p := start(t, built.failpoint, append([]string{k.env, "FAILPOINT=" + step}, env...)...)
	p.ready(t)
	if err := do(p); err == nil {
		t.Fatalf("the handler got through, and should have died at %s", step)
	}
	p.exitCode(t)
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the handler should have died at %s: %v\n%s", step, p.cmd.ProcessState, p.output)
	}
	k.struck[step] = true
}

// ask makes a call that may get no answer.
func ask(t *testing.T, method, path, body string) func(p *process) error {
	return func(p *process) error {
		r, err := http.NewRequestWithContext(t.Context(), method, p.url+"/api/channels/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
}

// invoke calls a function as the host does.
func (p *process) invoke(t testing.TB, function string, e customhandler.Envelope) error {
	_, err := customhandler.NewClient(p.url, nil).Invoke(t.Context(), function, e)
	return err
}

func cleanupOf(m customhandler.QueueMessage) customhandler.Envelope {
	return customhandler.Trigger{Function: "ChannelCleanup", Binding: "message"}.Queue(m)
}

func sweepNow() customhandler.Envelope {
	return customhandler.Trigger{Function: "ChannelSweep", Binding: "tick"}.Timer(customhandler.Tick{})
}

// doomed is a channel whose deletion is killed, and its successor.
type doomed struct {
	name, incarnation, etag string
	blogs                   int
	killed                  []string // steps at which those die who are given its message, in turn
	succeeded               bool     // bob has a channel of its name
}

// create makes a channel with blogs, straight into the table.
func (k *killing) create(t *testing.T, blogs int) *doomed {
	t.Helper()
	d := &doomed{name: storetest.Name(), blogs: blogs}
	a := k.fresh.channels(t, "PUT", "/"+d.name, `{"owner":"ann"}`)
	a.expect(t, "create", 201, "")
	d.incarnation, d.etag = a.Incarnation, a.ETag
	if _, err := storetest.FillPartition(t.Context(), k.blogs, d.name+"@"+d.incarnation, blogs); err != nil {
		t.Fatal(err)
	}
	return d
}

// succeed lets bob use the name again as soon as it is free.
func (k *killing) succeed(t *testing.T, d *doomed) {
	t.Helper()
	if d.succeeded {
		return
	}
	if a := k.fresh.channels(t, "PUT", "/"+d.name, `{"owner":"bob"}`); a.status == 201 {
		d.succeeded = true
		k.fresh.channels(t, "POST", "/"+d.name+"/blogs", `{"title":"bob's","text":"","userId":"bob"}`).expect(t, "bob's blog", 201, "")
	}
}

// deliver does what the host does with the queue, until all are deleted.
func (k *killing) deliver(t *testing.T, all ...*doomed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for !k.deleted(t, all) {
		messages, err := k.queues.Receive(ctx, cleanupQueue, 16, time.Minute)
		if err != nil {
			t.Fatalf("not all are deleted: %v", err)
		}
		if len(messages) == 0 {
			time.Sleep(100 * time.Millisecond) // between two looks, as the host does
		}
		for _, m := range messages {
			text, err := base64.StdEncoding.DecodeString(m.Body)
			if err != nil {
				t.Fatal(err)
			}
			envelope := cleanupOf(customhandler.QueueMessage{Text: string(text), ID: m.ID, DequeueCount: m.DequeueCount})
			var next *doomed
			for _, d := range all {
				if strings.Contains(string(text), d.incarnation) && len(d.killed) > 0 {
					next = d
				}
			}
			if next == nil {
				if err := k.fresh.invoke(t, "ChannelCleanup", envelope); err != nil {
					t.Fatal(err)
				}
				if err := k.queues.Delete(ctx, cleanupQueue, m); err != nil {
					t.Fatal(err)
				}
				continue
			}
			step := next.killed[0]
			next.killed = next.killed[1:]
			k.dies(t, step, func(p *process) error { return p.invoke(t, "ChannelCleanup", envelope) },
				"KENNEL_INVOCATION_TIMEOUT=15s") // so short that one portion is all that an invocation does
			k.succeed(t, next)
			if _, err := k.queues.Update(ctx, cleanupQueue, m, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (k *killing) deleted(t *testing.T, all []*doomed) bool {
	for _, d := range all {
		a := k.fresh.channels(t, "GET", "/"+d.name+"/deletion?incarnation="+d.incarnation, "")
		if len(d.killed) > 0 || a.State != "done" {
			return false
		}
	}
	return true
}

// check compares what is left with what should be: the record, and bob's
// channel with its one blog.
func (k *killing) check(t *testing.T, what string, d *doomed) {
	t.Helper()
	k.succeed(t, d)
	successor := k.fresh.channels(t, "GET", "/"+d.name, "")
	if successor.Owner != "bob" {
		t.Errorf("%s: the name now stands for %s, want bob's channel", what, successor.body)
	}
	if blogs := k.fresh.channels(t, "GET", "/"+d.name+"/blogs", ""); len(blogs.Items) != 1 || blogs.Items[0].Title != "bob's" {
		t.Errorf("%s: bob's blogs are %s", what, blogs.body)
	}
	again := k.fresh.channels(t, "DELETE", "/"+d.name, "", "If-Match", d.etag)
	again.expect(t, what+": the deletion asked for again", 202, "")
	if again.State != "done" || again.Deleted != int64(d.blogs) || again.FinishedAt.IsZero() {
		t.Errorf("%s: the record is %s, want %d blogs, done", what, again.body, d.blogs)
	}
	live := d.name + "@" + successor.Incarnation
	if left := k.rows(t, d.name); len(left) != 2 || left[0] != live || left[1] != live {
		t.Errorf("%s: rows %q are left, want the fence and the blog of %s", what, left, live)
	}
}

// rows returns the partition of each row of blogs of any channel of this name.
func (k *killing) rows(t *testing.T, name string) (partitions []string) {
	t.Helper()
	for q := (channels.Query{KeysOnly: true, Top: channels.MaxPage}); ; {
		page, err := k.blogs.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Rows {
			if strings.HasPrefix(row.Partition, name+"@") {
				partitions = append(partitions, row.Partition)
			}
		}
		if q.After = page.Next; q.After == "" {
			return partitions
		}
	}
}

// age merges a time that is long ago into a row.
func age(t *testing.T, table *azure.Table, partition, key, column string, by time.Duration) {
	t.Helper()
	_, err := table.Submit(t.Context(), []channels.Write{{Verb: channels.Merge, If: channels.AnyVersion, Row: channels.Row{
		Partition: partition, Key: key, Values: map[string]string{column: time.Now().UTC().Add(-by).Format(time.RFC3339Nano)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestKilledAtEachStep kills the real process, as by kill -9, at each step that
// package channels names: in the call that deletes, in the queue function and
// in the sweep. Redelivery and a fresh process finish what it began.
func TestKilledAtEachStep(t *testing.T) {
	k := newKilling(t)

	// In the call that deletes: of each, only the queue knows afterwards.
	var all []*doomed
	for _, step := range []string{
		channels.StepMessagePut, channels.StepMarked, channels.StepFenceGone,
		channels.StepCounted, channels.StepErased, channels.StepDone, channels.StepMessageGone,
	} {
		d := k.create(t, 150)
		k.dies(t, step, ask(t, "DELETE", d.name, ""))
		k.succeed(t, d)
		all = append(all, d)
	}
	// In the queue function: one message kills six, and the seventh finishes.
	chain := k.create(t, 2100)
	chain.killed = []string{
		channels.StepMarked, channels.StepFenceGone, channels.StepCounted,
		channels.StepErased, channels.StepContinued, channels.StepDone,
	}
	k.dies(t, channels.StepMessagePut, ask(t, "DELETE", chain.name, ""))
	all = append(all, chain)
	k.deliver(t, all...)
	for i, d := range all {
		k.check(t, fmt.Sprintf("channel %d", i), d)
	}

	// In a creation: the next try succeeds.
	orphan, made := storetest.Name(), storetest.Name()
	k.dies(t, channels.StepAnnounced, ask(t, "PUT", orphan, `{"owner":"ann"}`))
	k.dies(t, channels.StepFencePut, ask(t, "PUT", orphan, `{"owner":"ann"}`))
	k.fresh.channels(t, "GET", "/"+orphan, "").expect(t, "killed before the channel was there", 404, "channel_not_found")
	k.dies(t, channels.StepChannelPut, ask(t, "PUT", made, `{"owner":"ann"}`))
	k.fresh.channels(t, "PUT", "/"+made, `{"owner":"ann"}`).expect(t, "killed when the channel was there", 200, "")

	// In the sweep: of a deletion whose message got lost, …
	lost := k.create(t, 150)
	k.dies(t, channels.StepMarked, ask(t, "DELETE", lost.name, ""))
	k.succeed(t, lost)
	k.lose(t, lost)
	age(t, k.channels, lost.name, lost.incarnation, "touchedAt", time.Hour)
	k.dies(t, channels.StepRestarted, func(p *process) error { return p.invoke(t, "ChannelSweep", sweepNow()) })
	k.deliver(t, lost)
	k.check(t, "the deletion whose message got lost", lost)

	// … and of the fence whose channel never came to be.
	left := k.rows(t, orphan)
	if len(left) != 1 {
		t.Fatalf("rows %q are left of a creation that was killed, want a fence", left)
	}
	age(t, k.channels, orphan, strings.TrimPrefix(left[0], orphan+"@"), "createdAt", 2*time.Hour)
	k.dies(t, channels.StepRuledOut, func(p *process) error { return p.invoke(t, "ChannelSweep", sweepNow()) })
	if err := k.fresh.invoke(t, "ChannelSweep", sweepNow()); err != nil {
		t.Error(err)
	}
	if left := k.rows(t, orphan); len(left) != 0 {
		t.Errorf("rows %q are left of a creation that was killed and swept", left)
	}
	if said := k.fresh.output.String(); !strings.Contains(said, `"msg":"channels swept"`) || !strings.Contains(said, `"fences":1`) {
		t.Errorf("the log does not say what was swept: %s", said)
	}
	k.fresh.channels(t, "PUT", "/"+orphan, `{"owner":"bob"}`).expect(t, "created after the sweep", 201, "")

	for _, step := range channels.Steps() {
		if !k.struck[step] {
			t.Errorf("nobody was killed at %s", step)
		}
	}
	if t.Failed() {
		return
	}
	t.Logf("figure: rows left, wrong records and new channels touched when the real process is killed -9 at each of %d steps | 0 | 0", len(k.struck))
}

// lose takes a channel's message out of the queue.
func (k *killing) lose(t *testing.T, d *doomed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		messages, err := k.queues.Receive(ctx, cleanupQueue, 16, time.Second)
		if err != nil {
			t.Fatal(errors.Join(errors.New("the message never comes"), err))
		}
		if len(messages) == 0 {
			time.Sleep(100 * time.Millisecond) // between two looks, as the host does
		}
		for _, m := range messages {
			text, err := base64.StdEncoding.DecodeString(m.Body)
			if err == nil && strings.Contains(string(text), d.incarnation) {
				if err := k.queues.Delete(ctx, cleanupQueue, m); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
}
