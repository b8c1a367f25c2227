package azure

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"kennel/ids"
	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
	"kennel/queue"
)

// throughProxy returns a fault proxy and the account that is behind it.
func throughProxy(t *testing.T) (*faultproxy.Proxy, Account) {
	t.Helper()
	proxy, err := faultproxy.Start(storetest.Storage(t).ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy, Account{ConnectionString: proxy.ConnectionString()}
}

// opened opens a client, which must succeed.
func opened[Client any](t testing.TB, open func(*Options) (Client, error), o *Options) Client {
	t.Helper()
	client, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// failures are the two ways in which a write fails: refused, and applied but
// reported as failed.
var failures = map[string]faultproxy.Fault{"refused": {Cut: true}, "applied": {Lose: true}}

// The caller gets the same error for both failures of a write. Reading back
// shows which one it was.
func TestSequenceWritesThatFail(t *testing.T) {
	for _, tt := range []struct {
		name     string
		old      ids.Value // without its version
		missing  bool      // the container does not exist
		requests int
	}{
		{name: "create", requests: 1},
		{name: "create with container", missing: true, requests: 3},
		{name: "replace", old: ids.Mark{Text: "1", Writer: "before"}.Value(), requests: 1},
	} {
		for name, fault := range failures {
			t.Run(tt.name+" "+name, func(t *testing.T) {
				proxy, account := throughProxy(t)
				store := NewSequences(opened(t, account.OpenBlobs, nil), storetest.Name())
				replace := func(sequence string, old, next ids.Value) ids.Value {
					mark, err := store.Replace(t.Context(), sequence, old, next)
					if err != nil {
						t.Fatal(err)
					}
					return mark
				}
				if !tt.missing {
					replace("others", ids.Value{}, ids.Value{Text: "1"})
				}
				old := tt.old
				if old.Text != "" {
					old = replace("orders", ids.Value{}, old)
				}
				proxy.Passed()
				fault.Operation, fault.Nth = "put", 1
				if tt.missing {
					fault.Nth = 2 // the first finds that the container is missing
				}
				heal := proxy.Add(fault)
				next := ids.Mark{Text: "2", Writer: "ours"}.Value()
				if mark, err := store.Replace(t.Context(), "orders", old, next); err == nil || errors.Is(err, ids.ErrChanged) {
					t.Errorf("replace: %+v, %v, want an error other than %v", mark, err, ids.ErrChanged)
				}
				if got := proxy.Passed(); len(got) != tt.requests {
					t.Errorf("requests %q, want %d: only the caller may try again", got, tt.requests)
				}
				heal()
				mark, err := store.Load(t.Context(), "orders", "")
				stored := ids.Value{Text: mark.Text, Meta: mark.Meta}
				switch {
				case fault.Lose && (err != nil || !reflect.DeepEqual(stored, next)):
					t.Errorf("read back %+v, %v, want %+v", mark, err, next)
				case fault.Cut && (err != nil || !reflect.DeepEqual(stored, tt.old) || (mark.Version == "") != (tt.old.Text == "")):
					t.Errorf("read back %+v, %v, want %+v", mark, err, tt.old)
				}
				if _, err = store.Replace(t.Context(), "orders", old, next); errors.Is(err, ids.ErrChanged) != fault.Lose {
					t.Errorf("replace again: %v; reported as changed, want %v", err, fault.Lose)
				}
			})
		}
	}
}

func TestQueueRequestsThatFail(t *testing.T) {
	for _, tt := range []struct {
		operation        string
		refused, applied int // messages that are received afterwards
	}{
		{"put", 1, 2},
		{"receive", 1, 0},
		{"update", 0, 1},
		{"delete", 0, 0},
	} {
		for name, fault := range failures {
			t.Run(tt.operation+" "+name, func(t *testing.T) {
				proxy, account := throughProxy(t)
				q, name := opened(t, account.OpenQueues, nil), storetest.Name()
				if _, err := q.Put(t.Context(), name, "a", 0); err != nil {
					t.Fatal(err)
				}
				var m queue.Message
				if tt.operation == "update" || tt.operation == "delete" {
					messages, err := q.Receive(t.Context(), name, 1, queue.MaxVisibility)
					if err != nil {
						t.Fatal(err)
					}
					m = messages[0]
				}
				proxy.Passed()
				heal := proxy.Add(fault)
				var err error
				switch tt.operation {
				case "put":
					_, err = q.Put(t.Context(), name, "b", 0)
				case "receive":
					_, err = q.Receive(t.Context(), name, 1, queue.MaxVisibility)
				case "update":
					_, err = q.Update(t.Context(), name, m, 0)
				case "delete":
					err = q.Delete(t.Context(), name, m)
				}
				if got := proxy.Passed(); err == nil || errors.Is(err, queue.ErrLeaseLost) || len(got) != 1 {
					t.Errorf("%v with the requests %q, want an error of the connection after one: only the caller may try again", err, got)
				}
				heal()
				want := tt.refused
				if fault.Lose {
					want = tt.applied
				}
				if messages, err := q.Receive(t.Context(), name, 32, queue.MaxVisibility); err != nil || len(messages) != want {
					t.Errorf("received %v, %v, want %d messages", messages, err, want)
				}
				if tt.operation == "delete" {
					if err := q.Delete(t.Context(), name, m); errors.Is(err, queue.ErrLeaseLost) != fault.Lose {
						t.Errorf("delete again: %v; reported as lost, want %v", err, fault.Lose)
					}
				}
			})
		}
	}
}

// A caller whose context ends during a request gets the error of the context.
func TestContextEndsDuringRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	proxy, account := throughProxy(t)
	proxy.Add(faultproxy.Fault{After: func(faultproxy.Request) { cancel() }, Lose: true})
	store := NewSequences(opened(t, account.OpenBlobs, nil), storetest.Name())
	if _, err := store.Load(ctx, "orders", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v, want %v", err, context.Canceled)
	}
}
