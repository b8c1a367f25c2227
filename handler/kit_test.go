package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"kennel"
	"kennel/kenneltest"
)

// TestEverything: the app works as a program of package kenneltest: numbers, a
// batch, and a deletion of a channel.
func TestEverything(t *testing.T) {
	kenneltest.Run(t, func(*kenneltest.Kit) kennel.Program { return everything }, func(k *kenneltest.Kit) {
		call := func(method, path, body string, want int) string {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case strings.HasPrefix(path, "/api/batches"):
				r.Header.Set("Content-Type", "application/x-ndjson")
			case body != "":
				r.Header.Set("Content-Type", "application/json")
			}
			answer, err := k.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != want {
				t.Errorf("%s %s: %d %s, %v", method, path, answer.StatusCode, text, err)
			}
			return string(text)
		}
		for _, number := range []string{`"first":1,`, `"first":2,`} {
			if body := call("POST", "/api/sequences/orders/next", "", 200); !strings.Contains(strings.ReplaceAll(body, " ", ""), number) {
				t.Errorf("want %s in %s", number, body)
			}
		}
		body := call("POST", "/api/batches?processor=billing", `{"id":"1","account":"acme","sku":"tea","quantity":2,"unitPrice":"1.50","currency":"EUR"}`+"\n", 202)
		_, id, _ := strings.Cut(body, `"batch":"`)
		id, _, _ = strings.Cut(id, `"`)
		call("PUT", "/api/channels/news", `{"owner":"ann"}`, 201)
		call("DELETE", "/api/channels/news", "", 202)
		k.Settle()
		if body := call("GET", "/api/batches/"+id, "", 200); !strings.Contains(body, `"state":"done"`) {
			t.Errorf("the batch is %s", body)
		}
		call("GET", "/api/channels/news", "", 404)
	}, nil)
}
