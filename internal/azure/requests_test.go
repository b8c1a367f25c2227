package azure

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure/requests"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

// TestRequests sends every request of the adapters through the proxy. Each call
// makes the requests that it documents, each request has a name, and the
// counter and the spans agree with the proxy.
func TestRequests(t *testing.T) {
	ctx, traced := inTrace(t)
	proxy, account := throughProxy(t)
	counter := &requests.Counter{}
	o := &Options{Requests: counter, Job: "channels"}
	blobs, tables, queues := opened(t, account.OpenBlobs, o), opened(t, account.OpenTables, o), opened(t, account.OpenQueues, o)
	claims := NewContainer(blobs, storetest.Name())
	sequences, gates := NewSequences(blobs, storetest.Name()), NewGates(blobs, storetest.Name())
	store, outbox, name := openTable(t, tables, uniqueTable()), openOutbox(t, queues, storetest.Name()), storetest.Name()

	scratch := NewScratchBlob(blobs, storetest.Name(), "!scratch")
	writeScratch := func() error { return scratch.Write(ctx) }

	var mark ids.Value
	var flag gate.Value
	var message queue.Message
	var receipt string
	remember := func() error { return sequences.Remember(ctx, "orders") }
	load := func() error { _, err := sequences.Load(ctx, "orders", ""); return err }
	replace := func(old ids.Value) func() error {
		return func() error {
			next, err := sequences.Replace(ctx, "orders", old, ids.Value{Text: "1"})
			if err == nil {
				mark = next
			}
			return err
		}
	}
	write := func(verbs ...table.Verb) func() error {
		var writes []table.Write
		for i, verb := range verbs {
			writes = append(writes, table.Write{Verb: verb, Row: table.Row{Partition: "p", Key: "ab"[i : i+1]}})
			if verb != table.Insert {
				writes[i].If = table.AnyVersion
			}
		}
		return func() error { _, err := store.Submit(ctx, writes...); return err }
	}
	query := func() error { _, err := store.Query(ctx, table.Query{Top: 1}); return err }
	put := func() error { _, err := queues.Put(ctx, name, "a", 0); return err }
	post := func() (err error) { receipt, err = outbox.Put(ctx, "a", 0); return err }

	for _, step := range []struct {
		name string
		do   func() error
		err  error
		want []string
	}{
		{"load without container", load, nil, []string{"blob get 404", "blob get 404"}},
		{"create with container", replace(mark), nil, []string{"blob put 404", "blob create 201", "blob put 201"}},
		{"load", load, nil, []string{"blob get 200"}},
		{"replace", func() error { return replace(mark)() }, nil, []string{"blob put 201"}},
		{"replace a stale one", replace(ids.Value{Version: `"0x1"`}), ids.ErrChanged, []string{"blob put 412"}},
		{"create what exists", replace(ids.Value{}), ids.ErrChanged, []string{"blob put 409"}},
		{"remember", remember, nil, []string{"blob put 404", "blob create 201", "blob put 201"}},
		{"remember again", remember, nil, []string{"blob put 409"}},
		{"create a gate", func() (err error) {
			flag, err = gates.Replace(ctx, "start", gate.Value{}, gate.Value{Text: "{}"})
			return err
		},
			nil, []string{"blob put 404", "blob create 201", "blob put 201"}},
		{"replace a stale gate", func() error { _, err := gates.Replace(ctx, "start", gate.Value{Version: `"0x1"`}, flag); return err },
			gate.ErrChanged, []string{"blob put 412"}},
		{"load an unchanged gate", func() error { _, err := gates.Load(ctx, "start", flag.Version); return err },
			gate.ErrUnchanged, []string{"blob get 304"}},
		{"get a claim without container", func() error { _, err := claims.Get(ctx, "a", 1); return err }, table.ErrNotFound, []string{"blob get 404"}},
		{"put a claim with container", func() error { return claims.Put(ctx, "a", []byte("x")) }, nil, []string{"blob put 404", "blob create 201", "blob put 201"}},
		{"get a claim", func() error { _, err := claims.Get(ctx, "a", 1); return err }, nil, []string{"blob get 200"}},
		{"list claims", func() error { _, err := claims.List(ctx, 1); return err }, nil, []string{"blob list 200"}},
		{"delete a claim", func() error { return claims.Delete(ctx, "a") }, nil, []string{"blob delete 202"}},

		{"scratch without container", func() error { return cmp.Or(scratch.Read(ctx), scratch.Delete(ctx)) }, nil, []string{"blob get 404", "blob delete 404"}},
		{"write scratch with container", writeScratch, nil, []string{"blob put 404", "blob create 201", "blob put 201"}},
		{"write scratch again", writeScratch, nil, []string{"blob put 409"}},
		{"read and delete scratch", func() error { return cmp.Or(scratch.Read(ctx), scratch.Delete(ctx)) }, nil, []string{"blob get 200", "blob delete 202"}},
		{"read the clock", func() error {
			at, err := scratch.Time(ctx)
			if off := time.Since(at).Abs(); off > time.Minute {
				t.Errorf("the clock is off by %v", off)
			}
			return err
		}, nil, []string{"blob head 404"}},

		{"get without table", func() error { _, err := store.Get(ctx, "p", "a"); return err }, table.ErrNotFound, []string{"table get 404"}},
		{"query without table", query, nil, []string{"table query 404"}},
		{"insert with table", write(table.Insert), nil, []string{"table insert 404", "table create 201", "table insert 201"}},
		{"replace a row", write(table.Replace), nil, []string{"table update 204"}},
		{"merge a row", write(table.Merge), nil, []string{"table merge 204"}},
		{"get", func() error { _, err := store.Get(ctx, "p", "a"); return err }, nil, []string{"table get 200"}},
		{"query", query, nil, []string{"table query 200"}},
		{"transaction", write(table.Merge, table.Insert), nil, []string{"table transaction 202"}},
		{"transaction that fails", write(table.Delete, table.Insert), table.ErrExists, []string{"table transaction 202"}},
		{"delete a row", write(table.Delete), nil, []string{"table delete 204"}},
		{"beyond the limits", write(), table.ErrLimit, nil},

		{"put with queue", put, nil, []string{"queue put 404", "queue create 201", "queue put 201"}},
		{"receive", func() error {
			messages, err := queues.Receive(ctx, name, 1, time.Minute)
			if err == nil {
				message = messages[0]
			}
			return err
		}, nil, []string{"queue receive 200"}},
		{"peek", func() error { _, err := queues.Peek(ctx, name, 1); return err }, nil, []string{"queue peek 200"}},
		{"count", func() error { _, err := queues.Count(ctx, name); return err }, nil, []string{"queue head 200"}},
		{"update", func() (err error) { message, err = queues.Update(ctx, name, message, time.Minute); return err }, nil, []string{"queue update 204"}},
		{"delete", func() error { return queues.Delete(ctx, name, message) }, nil, []string{"queue delete 204"}},
		{"clear", func() error { return queues.Clear(ctx, name) }, nil, []string{"queue clear 204"}},
		{"clear without queue", func() error { return queues.Clear(ctx, storetest.Name()) }, nil, []string{"queue clear 404"}},
		{"put into an outbox", post, nil, []string{"queue put 404", "queue create 201", "queue put 201"}},
		{"take back", func() error { return outbox.Delete(ctx, receipt) }, nil, []string{"queue delete 204"}},
	} {
		if err := step.do(); !errors.Is(err, step.err) {
			t.Errorf("%s: %v, want %v", step.name, err, step.err)
		}
		if got := proxy.Passed(); !slices.Equal(got, step.want) {
			t.Errorf("%s: requests %q, want %q", step.name, got, step.want)
		}
		if got := traced.requests(t); !slices.Equal(got, step.want) {
			t.Errorf("%s: spans %q, want %q", step.name, got, step.want)
		}
	}

	got, want := counter.Operations(), proxy.Requests.Operations()
	for service := range want {
		if !maps.Equal(got[service], want[service]) {
			t.Errorf("%s: counted %v, but the proxy received %v", service, got[service], want[service])
		}
	}
	jobs := make(map[string]int64)
	for label, count := range counter.All() {
		jobs[label.Service+" "+label.Job] += count
	}
	if want := map[string]int64{"blob numbers": 13, "blob gates": 5, "blob channels": 7, "table channels": 12, "queue channels": 14, "blob doctor": 9}; !maps.Equal(jobs, want) {
		t.Errorf("counted by service and job: %v, want %v", jobs, want)
	}
}
