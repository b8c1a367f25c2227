package main

import (
	"encoding/json"
	"strings"
	"testing"

	"kennel/gate"
	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/names"
	"kennel/internal/storetest"
)

// TestGateList reads the list of a real app page by page.
func TestGateList(t *testing.T) {
	t.Parallel()
	p := shared(t)
	name := storetest.Name()
	released := p.gate(t, "POST", name+"-a/release", `{"by":"ann"}`)
	p.gate(t, "POST", name+"-b/release", "")
	closed := p.gate(t, "POST", name+"-b/close", "")
	p.gate(t, "POST", name+"/close", "") // writes nothing
	if released.status != 200 || closed.status != 200 {
		t.Fatalf("%s %s", released.body, closed.body)
	}
	store := azure.NewGates(apptest.OpenBlobs(t), names.GatesContainer)
	if _, err := store.Replace(t.Context(), name+"-c", gate.Value{}, gate.Value{Text: `{"released":true}`}); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for path := "/api/gates?top=2"; path != ""; {
		var page struct {
			Items        []json.RawMessage
			Continuation string
		}
		status, _, body := p.call(t, "GET", path, nil)
		if err := json.Unmarshal([]byte(body), &page); err != nil || status != 200 || len(page.Items) > 2 {
			t.Fatalf("%d %s", status, body)
		}
		for _, text := range page.Items {
			var item api.GateItem
			if err := json.Unmarshal(text, &item); err != nil {
				t.Fatal(err)
			}
			found[item.Gate] = string(text)
		}
		if path = ""; page.Continuation != "" {
			path = "/api/gates?top=2&continuation=" + page.Continuation
		}
	}
	text := func(a api.GateItem) string {
		var b strings.Builder
		if err := json.NewEncoder(&b).Encode(a); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(b.String())
	}
	for _, want := range []api.GateItem{
		{Gate: name + "-a", Released: true, Generation: &released.Generation, ChangedAt: released.ChangedAt},
		{Gate: name + "-b", Generation: &closed.Generation, ChangedAt: closed.ChangedAt},
		{Gate: name + "-c"},
	} {
		if got := found[want.Gate]; got != text(want) {
			t.Errorf("%s, want %s", got, text(want))
		}
	}
	if _, ok := found[name]; ok {
		t.Error("the list has a gate that was never released")
	}
}
