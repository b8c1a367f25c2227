package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/faultproxy"
	"kennel/internal/names"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// TestKilledAtRequests kills the real process, as by kill -9, before and
// after its storage requests: while it creates, fills and deletes a channel,
// cleans up and sweeps. It picks the requests at random, a few of each kind of
// work; packages channels and azure try all requests. A new process, and nothing else, then finishes
// the work: no row is left, the record is right, and a new channel of the same
// name is not touched.
func TestKilledAtRequests(t *testing.T) {
	k := newKilling(t)

	k.each(t, "delete", k.deletion)
	k.each(t, "create", k.creation)
	k.each(t, "post", k.post)
	k.each(t, "clean up", k.cleanup("table", "transaction"))
	k.each(t, "sweep", k.sweep)
	if storetest.Proving() {
		k.each(t, "clean up after nothing but the message", k.cleanup("queue", "put"))
		k.continued(t)
		k.deliver(t, k.begun...)
	}
	for _, d := range k.begun {
		if err := d.cleanUp(t)(k.fresh); err != nil {
			t.Error(err)
		}
		k.check(t, d)
	}
	t.Logf("figure: rows left, wrong records and new channels touched when the real process is killed -9 at its storage requests (%d times) | 0 | 0", k.kills)
}

// killing is storage, and handlers that die on it.
type killing struct {
	proxy           *faultproxy.Proxy // between storage and those that die
	channels, blogs *azure.Table
	queues          *azure.Queues
	fresh           *process // never dies
	rng             *rand.Rand
	kills           int
	sent            int       // requests of the process that was not killed last
	begun           []*target // deletions that the queue finishes
}

func newKilling(t *testing.T) *killing {
	tables, queues := apptest.OpenStorage(t)
	k := &killing{
		proxy:    apptest.NewProxy(t),
		channels: apptest.OpenTable(t, tables, names.ChannelsTable),
		blogs:    apptest.OpenTable(t, tables, names.BlogsTable),
		queues:   queues,
		fresh:    start(t, built.handler, withStorage(t)),
		rng:      rand.New(rand.NewPCG(storetest.Seed(t), 0)),
	}
	d := k.create(t, 1) // so that no table and no queue has to be created later
	k.fresh.channels(t, "DELETE", "/"+d.name, "").expect(t, "delete", 202, "")
	return k
}

// each runs a scenario once as a whole, and then with kills before and after
// some of the requests that it took.
func (k *killing) each(t *testing.T, what string, scenario func(*testing.T, faultproxy.Fault)) {
	t.Helper()
	run := func(name string, at faultproxy.Fault) {
		t.Run(what+", "+name, func(t *testing.T) { scenario(t, at) })
		if t.Failed() {
			t.FailNow()
		}
	}
	run("not killed", never)
	requests := k.sent
	for _, place := range k.rng.Perm(2 * requests)[:min(2*requests, storetest.Scale(1, 6))] {
		at, when := faultproxy.Fault{Nth: place/2 + 1, Cut: true}, "before"
		if place%2 == 1 {
			at, when = faultproxy.Fault{Nth: place/2 + 1, Lose: true}, "after"
		}
		run(fmt.Sprintf("killed %s request %d of %d", when, at.Nth, requests), at)
	}
}

// never matches no request.
var never = faultproxy.Fault{Nth: -1}

// death is how a process died.
type death struct {
	faultproxy.Request
	passed []string // its requests and what storage answered
}

// applied reports whether storage applied a request of this kind.
func (d death) applied(at faultproxy.Fault, request string) bool {
	return at.Lose && d.Service+" "+d.Operation == request ||
		slices.ContainsFunc(d.passed, func(s string) bool { return strings.HasPrefix(s, request+" 2") })
}

// dies starts a handler, lets it do something, and kills it at a request:
// before that reaches storage if it is cut, and else when it is applied.
func (k *killing) dies(t *testing.T, at faultproxy.Fault, do func(p *process) error, env ...string) death {
	t.Helper()
	p := start(t, built.handler, append(env, "AzureWebJobsStorage="+k.proxy.ConnectionString())...)
	k.proxy.Passed()
	struck := make(chan faultproxy.Request, 1)
	var once sync.Once
	kill := func(r faultproxy.Request) {
		once.Do(func() { p.kill(); struck <- r })
	}
	if at.Cut {
		at.Before = kill
	} else {
		at.After = kill
	}
	defer k.proxy.Add(at)()
	err := do(p)
	if at.Nth == never.Nth {
		if err != nil {
			t.Fatal(err)
		}
		d := death{passed: k.proxy.Passed()}
		k.sent = len(d.passed)
		return d
	}
	select {
	case r := <-struck:
		return k.died(t, p, r)
	case <-time.After(10 * time.Second):
	}
	passed := k.proxy.Passed()
	if err != nil || at.Service != "" || len(passed) >= at.Nth {
		t.Fatalf("the handler survived: %v; it sent %q", err, passed)
	}
	// It sent fewer requests than the one that was not killed, whose tasks in the
	// background may have sent some, too. Then it dies after the last one.
	kill(faultproxy.Request{N: at.Nth})
	d := k.died(t, p, <-struck)
	return death{d.Request, append(passed, d.passed...)}
}

// died returns the death of a process that was killed at a request.
func (k *killing) died(t *testing.T, p *process, at faultproxy.Request) death {
	t.Helper()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("killed at %v: %v", at, p.cmd.ProcessState)
	}
	k.kills++
	return death{at, k.proxy.Passed()}
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

// target is a channel whose deletion is killed.
type target struct {
	what, name, incarnation string
	blogs                   int
	succeeded               bool // bob has a channel of its name
}

// create makes a channel with blogs, straight into the table.
func (k *killing) create(t *testing.T, blogs int) *target {
	t.Helper()
	d := &target{what: t.Name(), name: storetest.Name(), blogs: blogs}
	a := k.fresh.channels(t, "PUT", "/"+d.name, `{"owner":"ann"}`)
	a.expect(t, "create", 201, "")
	d.incarnation = a.Incarnation
	if _, err := storetest.FillPartition(t.Context(), k.blogs, d.name+"@"+d.incarnation, blogs); err != nil {
		t.Fatal(err)
	}
	return d
}

// succeed lets bob use the name again as soon as it is free.
func (k *killing) succeed(t *testing.T, d *target) {
	t.Helper()
	if d.succeeded {
		return
	}
	if a := k.fresh.channels(t, "PUT", "/"+d.name, `{"owner":"bob"}`); a.status == 201 {
		d.succeeded = true
		k.fresh.channels(t, "POST", "/"+d.name+"/blogs", `{"title":"bob's","text":"","userId":"bob"}`).expect(t, "bob's blog", 201, "")
	}
}

// deletion kills a call that deletes. If its message was put, nothing more is
// needed; otherwise nothing has changed, and the caller repeats the call.
func (k *killing) deletion(t *testing.T, at faultproxy.Fault) {
	d := k.create(t, 101)
	died := k.dies(t, at, ask(t, "DELETE", d.name, ""))
	if !died.applied(at, "queue put") {
		k.fresh.channels(t, "GET", "/"+d.name, "").expect(t, "killed before the message was put", 200, "")
		k.fresh.channels(t, "DELETE", "/"+d.name, "", "If-Match", `"`+d.incarnation+`"`).expect(t, "the call repeated", 202, "")
	}
	k.succeed(t, d)
	k.begun = append(k.begun, d)
}

// creation kills a call that creates. The next one succeeds, and a sweep
// removes what the first one left.
func (k *killing) creation(t *testing.T, at faultproxy.Fault) {
	name := storetest.Name()
	died := k.dies(t, at, ask(t, "PUT", name, `{"owner":"ann"}`))
	read, status := 404, 201
	if died.applied(at, "table transaction") {
		read, status = 200, 200
	}
	if a := k.fresh.channels(t, "GET", "/"+name, ""); a.status != read {
		t.Errorf("read after %v: %d, want %d", died, a.status, read)
	}
	made := k.fresh.channels(t, "PUT", "/"+name, `{"owner":"ann"}`)
	made.expect(t, fmt.Sprint("created again after ", died), status, "")
	k.fresh.channels(t, "POST", "/"+name+"/blogs", `{"title":"t","text":"","userId":"ann"}`).expect(t, "post", 201, "")
	k.ageCreations(t, name, made.Incarnation)
	if err := k.fresh.invoke(t, "ChannelSweep", sweepNow()); err != nil {
		t.Error(err)
	}
	k.checkRows(t, name, made.Incarnation)
}

// post kills a call that adds a blog: it is there, whole, or it is not.
func (k *killing) post(t *testing.T, at faultproxy.Fault) {
	d := k.create(t, 0)
	const blog = `{"title":"t","text":"","userId":"ann"}`
	died := k.dies(t, at, ask(t, "POST", d.name+"/blogs", blog))
	k.fresh.channels(t, "POST", "/"+d.name+"/blogs", blog).expect(t, "post again", 201, "")
	d.blogs = 1
	if died.applied(at, "table transaction") {
		d.blogs = 2
	}
	if list := k.fresh.channels(t, "GET", "/"+d.name+"/blogs", ""); len(list.Items) != d.blogs {
		t.Errorf("blogs after %v: %s, want %d", died, list.body, d.blogs)
	}
	k.fresh.channels(t, "DELETE", "/"+d.name, "").expect(t, "delete", 202, "")
	k.check(t, d)
}

// cleanup kills a call that deletes after it has sent a certain request, and
// then the queue function to which its message is delivered. The second
// delivery finishes.
func (k *killing) cleanup(service, operation string) func(*testing.T, faultproxy.Fault) {
	return func(t *testing.T, at faultproxy.Fault) {
		d := k.create(t, 101)
		k.dies(t, faultproxy.Fault{Service: service, Operation: operation, Nth: 1, Lose: true}, ask(t, "DELETE", d.name, ""))
		k.dies(t, at, d.cleanUp(t))
		k.succeed(t, d)
		if err := d.cleanUp(t)(k.fresh); err != nil {
			t.Fatal(err)
		}
		k.check(t, d)
	}
}

func (d *target) cleanUp(t *testing.T) func(p *process) error {
	message := customhandler.QueueMessage{Text: `{"v":1,"channel":"` + d.name + `","incarnation":"` + d.incarnation + `"}`, DequeueCount: 1}
	return func(p *process) error { return p.invoke(t, "ChannelCleanup", cleanupOf(message)) }
}

// continued kills a queue function that has no time left and puts a message to
// go on with: once that is put, it alone finishes.
func (k *killing) continued(t *testing.T) {
	for _, at := range []faultproxy.Fault{{Cut: true}, {Lose: true}} {
		d := k.create(t, table.MaxPage+1)
		k.dies(t, faultproxy.Fault{Service: "table", Operation: "transaction", Nth: 1, Lose: true}, ask(t, "DELETE", d.name, ""))
		at.Service, at.Operation, at.Nth = "queue", "put", 1
		k.dies(t, at, d.cleanUp(t), "KENNEL_INVOCATION_TIMEOUT=15s") // time for one page of blogs
		k.succeed(t, d)
		k.begun = append(k.begun, d)
	}
}

// sweep kills a sweep that restarts a deletion and removes what a creation
// left. The next sweep does both.
func (k *killing) sweep(t *testing.T, at faultproxy.Fault) {
	d := k.create(t, 101)
	k.dies(t, faultproxy.Fault{Service: "table", Operation: "transaction", Nth: 1, Lose: true}, ask(t, "DELETE", d.name, ""))
	k.succeed(t, d)
	apptest.Age(t, k.channels, d.name, d.incarnation, "touchedAt", time.Hour)
	orphan := storetest.Name()
	k.dies(t, faultproxy.Fault{Service: "table", Operation: "insert", Nth: 2, Lose: true}, ask(t, "PUT", orphan, `{"owner":"ann"}`))
	k.ageCreations(t, orphan, "")
	k.dies(t, at, func(p *process) error { return p.invoke(t, "ChannelSweep", sweepNow()) })
	if err := k.fresh.invoke(t, "ChannelSweep", sweepNow()); err != nil {
		t.Error(err)
	}
	k.checkRows(t, orphan, "")
	k.deliver(t, d)
	k.check(t, d)
}

// deliver does what the host does with the queue, until all are deleted.
func (k *killing) deliver(t *testing.T, all ...*target) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	running := func(d *target) bool {
		return k.fresh.channels(t, "GET", "/"+d.name+"/deletion?incarnation="+d.incarnation, "").State != "done"
	}
	for ; slices.ContainsFunc(all, running); time.Sleep(50 * time.Millisecond) { // between two polls, as the host does
		messages, err := k.queues.Receive(ctx, names.CleanupQueue, 32, time.Minute)
		if err != nil {
			t.Fatalf("not all channels are deleted: %v", err)
		}
		for _, m := range messages {
			text, err := base64.StdEncoding.DecodeString(m.Body)
			if err != nil {
				t.Fatal(err)
			}
			if err := k.fresh.invoke(t, "ChannelCleanup", cleanupOf(customhandler.QueueMessage{Text: string(text), ID: m.ID, DequeueCount: m.DequeueCount})); err != nil {
				t.Fatal(err)
			}
			if err := k.queues.Delete(ctx, names.CleanupQueue, m); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// check compares what is left with what should be: the record, and bob's
// channel with its one blog.
func (k *killing) check(t *testing.T, d *target) {
	t.Helper()
	k.succeed(t, d)
	successor := k.fresh.channels(t, "GET", "/"+d.name, "")
	if blogs := k.fresh.channels(t, "GET", "/"+d.name+"/blogs", ""); successor.Owner != "bob" || len(blogs.Items) != 1 || blogs.Items[0].Title != "bob's" {
		t.Errorf("%s: the name now stands for %s with the blogs %s, want bob's channel and blog", d.what, successor.body, blogs.body)
	}
	again := k.fresh.channels(t, "DELETE", "/"+d.name, "", "If-Match", `"`+d.incarnation+`"`)
	again.expect(t, d.what+": the deletion requested again", 202, "")
	if again.State != "done" || again.Deleted != int64(d.blogs) || again.FinishedAt.IsZero() {
		t.Errorf("%s: the record is %s, want %d blogs, done", d.what, again.body, d.blogs)
	}
	k.checkRows(t, d.name, successor.Incarnation)
}

// checkRows checks that the table of blogs has no rows for a name but the fence
// and the one blog of an incarnation, or none at all if that is "".
func (k *killing) checkRows(t *testing.T, name, incarnation string) {
	t.Helper()
	var left, want []string
	for _, row := range apptest.Rows(t, k.blogs, "") {
		if strings.HasPrefix(row.Partition, name+"@") {
			left = append(left, row.Partition)
		}
	}
	if incarnation != "" {
		want = []string{name + "@" + incarnation, name + "@" + incarnation}
	}
	if !slices.Equal(left, want) {
		t.Errorf("rows of %q are left, want %q", left, want)
	}
}

// ageCreations makes all that was created under a name, but one, two hours old.
func (k *killing) ageCreations(t *testing.T, name, but string) {
	t.Helper()
	for _, row := range apptest.Rows(t, k.channels, name) {
		if row.Key != "name" && row.Key != but {
			apptest.Age(t, k.channels, name, row.Key, "createdAt", 2*time.Hour)
		}
	}
}
