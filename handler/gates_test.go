package main

import (
	"fmt"
	"strings"
	"testing"

	"kennel/gate"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/edge"
	"kennel/internal/names"
	"kennel/internal/storetest"
)

func TestUnleash(t *testing.T) {
	t.Parallel()
	p := shared(t)
	name := storetest.Name()

	never := p.gate(t, "GET", name, "")
	never.expectGate(t, "never released", 200, false, 0)
	if never.Gate != name || !never.ChangedAt.IsZero() || strings.Contains(never.body, "changedAt") || len(never.History) != 0 {
		t.Errorf("a gate that no caller has changed: %s", never.body)
	}
	if got := never.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q: a state must not be kept", got)
	}
	p.gate(t, "GET", name+"/wait?timeout=2s", "").expectGate(t, "wait at a shut gate", 202, false, 0)

	first := p.gate(t, "POST", name+"/release", `{"by":"ann","reason":"all are warm"}`)
	first.expectGate(t, "first release", 200, true, 1)
	if first.Changed == nil || !*first.Changed || first.Signalled != nil || first.By != "ann" || first.Reason != "all are warm" || first.ChangedAt.IsZero() || first.History != nil {
		t.Errorf("first release: %s", first.body)
	}
	again := p.gate(t, "POST", name+"/release", `{"by":"bob","reason":"me too"}`)
	again.expectGate(t, "second release", 200, true, 1)
	if again.Changed == nil || *again.Changed || again.By != "ann" {
		t.Errorf("releasing what is released: %s, want changed false, and ann's release", again.body)
	}
	p.gate(t, "GET", name+"/wait", "").expectGate(t, "wait at a released gate", 200, true, 1)
	p.gate(t, "GET", name+"/wait?generation=0", "").expectGate(t, "wait for what was released", 200, true, 1)
	p.gate(t, "GET", fmt.Sprintf("%s/wait?generation=%d&timeout=2s", name, first.Generation), "").expectGate(t, "wait for the next release", 202, true, 1)

	closed := p.gate(t, "POST", name+"/close", "")
	closed.expectGate(t, "close", 200, false, 1)
	if closed.By != edge.Unnamed || closed.Reason != "" || closed.Generation != first.Generation {
		t.Errorf("closed without a name: %s", closed.body)
	}
	p.gate(t, "GET", name+"/wait?timeout=2s", "").expectGate(t, "wait at a gate that is shut again", 202, false, 1)
	if again := p.gate(t, "POST", name+"/close", ""); again.Changed == nil || *again.Changed {
		t.Errorf("closing what is shut: %s", again.body)
	}
	p.gate(t, "GET", name+"/wait?generation=0", "").expectGate(t, "the release before the closing", 200, false, 1)
	p.gate(t, "GET", fmt.Sprintf("%s/wait?GENERATION=%d&Timeout=2s", name, first.Generation), "").expectGate(t, "names in any case", 202, false, 1)

	whole := p.gate(t, "GET", name, "")
	whole.expectGate(t, "state", 200, false, 1)
	if len(whole.History) != 2 || whole.History[0].Change != "release" || whole.History[1].Change != "close" || whole.History[0].By != "ann" {
		t.Errorf("history: %s", whole.body)
	}
}

// A blob that an operator wrote by hand does not open the gate, and only force
// replaces it.
func TestCorruptGate(t *testing.T) {
	t.Parallel()
	p := shared(t)
	store := azure.NewGates(apptest.OpenBlobs(t), names.GatesContainer)
	name := storetest.Name()
	const corrupt = `{"released":true,"generation":41}`
	if _, err := store.Replace(t.Context(), name, gate.Value{}, gate.Value{Text: corrupt}); err != nil {
		t.Fatal(err)
	}
	for _, call := range [][3]string{
		{"GET", name, ""}, {"GET", name + "/wait?timeout=2s", ""},
		{"POST", name + "/release", `{"by":"ann"}`}, {"POST", name + "/close", `{"force":false}`},
	} {
		if a := p.gate(t, call[0], call[1], call[2]); a.status != 500 || a.Error.Code != "gate_corrupt" || !strings.Contains(a.Error.Message, "force") {
			t.Errorf("%s %s: %d %s, want 500 gate_corrupt", call[0], call[1], a.status, a.body)
		}
	}
	if f, err := store.Load(t.Context(), name, ""); err != nil || f.Text != corrupt {
		t.Errorf("the blob is now %q, %v, want it as it was", f.Text, err)
	}
	if !strings.Contains(p.output.String(), "its format has version 0") {
		t.Error("the log does not state what is wrong with the blob")
	}
	p.gate(t, "POST", name+"/release", `{"by":"ann","reason":"checked","force":true}`).expectGate(t, "release by force", 200, true, 1)
	if a := p.gate(t, "GET", name, ""); len(a.History) != 1 || a.History[0].Replaced == "" || a.History[0].By != "ann" {
		t.Errorf("after force: %s, want a history with what was replaced", a.body)
	}
	p.gate(t, "GET", name+"/wait?generation=41", "").expectGate(t, "after force", 200, true, 1)
}

// A wait that is longer than an invocation may be ends before it.
func TestWaitWithinInvocation(t *testing.T) {
	t.Parallel()
	p := start(t, built.handler, withStorage(t), "KENNEL_INVOCATION_TIMEOUT=8s", "KENNEL_RESERVE_TIMEOUT=8s")
	p.gate(t, "GET", storetest.Name()+"/wait?timeout=200s", "").expectGate(t, "wait", 202, false, 0)
}

// The name of who changed a gate comes from the platform where it signs people
// in, and only there.
func TestWhoChangesTheGate(t *testing.T) {
	const header, id = "X-MS-CLIENT-PRINCIPAL-NAME", "X-MS-CLIENT-PRINCIPAL-ID"
	open := start(t, built.handler, withStorage(t))
	signed := start(t, built.handler, withStorage(t), "WEBSITE_AUTH_ENABLED=True")
	for _, tt := range []struct {
		name   string
		p      *process
		body   string
		header []string
		want   string
	}{
		{"by the body", open, `{"by":" ann "}`, nil, "ann"},
		{"without a name", open, `{}`, nil, edge.Unnamed},
		{"a header that any client can send", open, `{"by":"ann"}`, []string{header, "mallory"}, "ann"},
		{"signed in", signed, `{"by":"another person"}`, []string{header, "ann@example.com"}, "ann@example.com"},
		{"signed in without a name", signed, "", []string{id, "1f0c"}, "1f0c"},
		{"a name that is too long", signed, "", []string{header, strings.Repeat("a", 300)}, strings.Repeat("a", 200)},
		{"not signed in", signed, `{"by":"ann"}`, nil, "not signed in: ann"},
		{"not signed in, with a long name", signed, `{"by":"` + strings.Repeat("a", 200) + `"}`, nil, "not signed in: " + strings.Repeat("a", 185)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a := tt.p.gate(t, "POST", storetest.Name()+"/release", tt.body, tt.header...); a.status != 200 || a.By != tt.want {
				t.Errorf("%d %s, want by %q", a.status, a.body, tt.want)
			}
		})
	}
}
