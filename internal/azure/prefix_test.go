package azure

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"kennel/devstore"
	"kennel/internal/table"
	"kennel/queue"
)

// TestPrefix: an account with a prefix has queues, tables and containers of its
// own, by the same names, also in lists, errors and traces.
func TestPrefix(t *testing.T) {
	store, err := devstore.Open("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, recorded := inTrace(t)
	o := &Options{HTTP: &http.Client{Transport: store}}
	for _, prefix := range []string{"", "aa", "b2"} {
		account := Account{ConnectionString: store.InProcess(), Prefix: prefix}
		queues, err1 := account.OpenQueues(o)
		blobs, err2 := account.OpenBlobs(o)
		tables, err3 := account.OpenTables(o)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		rows, err := NewTable(tables, "Rows")
		if err != nil {
			t.Fatal(err)
		}
		container := NewContainer(blobs, "claims")
		if names, err := container.List(ctx, 10); err != nil || len(names) > 0 {
			t.Errorf("prefix %q: blobs %q, %v", prefix, names, err)
		}
		if page, err := rows.Query(ctx, table.Query{Top: 10}); err != nil || len(page.Rows) > 0 {
			t.Errorf("prefix %q: rows %v, %v", prefix, page.Rows, err)
		}
		_, err1 = queues.Put(ctx, "emails", prefix, 0)
		_, err2 = rows.Submit(ctx, table.Write{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "k"}})
		err3 = container.Put(ctx, "blob", []byte(prefix))
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if all, err := queues.List(ctx, "e"); err != nil || !slices.Equal(all, []string{"emails"}) {
			t.Errorf("prefix %q: queues %q, %v", prefix, all, err)
		}
		if all, err := queues.Receive(ctx, "emails", 10, queue.MaxVisibility); err != nil || len(all) != 1 || all[0].Body != prefix {
			t.Errorf("prefix %q: received %+v, %v", prefix, all, err)
		}
		long := strings.Repeat("a", 63)
		n, err1 := queues.Count(ctx, long)
		front, err2 := queues.Peek(ctx, long, 1)
		received, err3 := queues.Receive(ctx, long, 1, queue.MaxVisibility)
		if err := errors.Join(err1, err2, err3, queues.Clear(ctx, long)); err != nil || n+int64(len(front)+len(received)) > 0 {
			t.Errorf("prefix %q: a queue whose name is too long with it: %v", prefix, err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := queues.Count(ended, "emails"); err == nil || strings.Contains(err.Error(), prefix+"-emails") || !strings.Contains(err.Error(), `"emails"`) {
			t.Errorf("prefix %q: error %v", prefix, err)
		}
	}
	published := 0
	for _, span := range recorded.Ended() {
		if strings.HasPrefix(span.Name(), "publish") {
			if published++; span.Name() != "publish emails" {
				t.Errorf("span %q", span.Name())
			}
		}
	}
	if published < 3 {
		t.Errorf("%d spans", published)
	}
	if _, err := NewTable(&Tables{prefix: strings.Repeat("a", 20)}, strings.Repeat("T", 44)); err == nil {
		t.Error("a table with 64 characters was accepted")
	}
}
