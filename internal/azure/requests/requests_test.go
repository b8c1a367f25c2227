package requests

import (
	"maps"
	"net/url"
	"sync"
	"testing"
)

func TestCounter(t *testing.T) {
	var c Counter
	var adding sync.WaitGroup
	for range 8 {
		adding.Go(func() {
			for range 100 {
				c.Add(Label{Blob, "get", "numbers"})
				c.Add(Label{Blob, "get", "gates"})
				c.Add(Label{Table, "query", "channels"})
			}
		})
	}
	adding.Wait()
	want := map[Label]int64{{Blob, "get", "numbers"}: 800, {Blob, "get", "gates"}: 800, {Table, "query", "channels"}: 800}
	if got := maps.Collect(c.All()); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if got := c.Operations(); got[Blob]["get"] != 1600 || got[Table]["query"] != 800 {
		t.Errorf("by operation %v, want 1600 blob gets and 800 table queries", got)
	}
}

// TestOperation covers requests that the adapters do not make today, and
// addresses that are easy to misinterpret. The tests of package azure cover the
// rest.
func TestOperation(t *testing.T) {
	for _, tt := range []struct{ service, method, address, want string }{
		{Blob, "GET", "https://a.blob.core.windows.net/c/b?restype=x", other},
		{Blob, "HEAD", "https://a.blob.core.windows.net/c/b", "head"},
		{Blob, "GET", "https://a.blob.core.windows.net/c?restype=container&comp=list", "list"},
		{Blob, "GET", "https://a.blob.core.windows.net/?comp=list", "list"},
		{Blob, "PUT", "https://a.blob.core.windows.net/c/b?comp=blocklist", "put"},
		{Blob, "DELETE", "https://a.blob.core.windows.net/c/b", "delete"},
		{Table, "GET", "https://a.table.core.windows.net/T", "query"},
		{Table, "GET", "https://a.table.core.windows.net/T()?$top=1", "query"},
		{Table, "GET", "https://a.table.core.windows.net/T(PartitionKey='p%2FTables',RowKey='()')", "get"},
		{Table, "GET", "https://a.table.core.windows.net/Tables", "list"},
		{Table, "POST", "https://a.table.core.windows.net/$batch", "transaction"},
		{Queue, "GET", "https://a.queue.core.windows.net/q/messages?peekonly=true", "peek"},
		{Queue, "DELETE", "https://a.queue.core.windows.net/q/messages", "clear"},
		{Queue, "GET", "https://a.queue.core.windows.net/q?comp=metadata", "head"},
		{Queue, "GET", "https://a.queue.core.windows.net/?comp=list", "list"},
		{"bus", "GET", "https://a.servicebus.windows.net/", other},
	} {
		u, err := url.Parse(tt.address)
		if err != nil {
			t.Fatal(err)
		}
		if got := Operation(tt.service, tt.method, u); got != tt.want {
			t.Errorf("%s %s is %q, want %q", tt.method, tt.address, got, tt.want)
		}
	}
}
