package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/gate"
	"kennel/internal/azure"
	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
)

// gateAnswer is what a caller may read in an answer of a gate.
type gateAnswer struct {
	Gate       string
	Released   bool
	Generation int64
	Releases   int64
	ChangedAt  time.Time
	By, Reason string
	Changed    *bool
	Signalled  *bool
	History    []gate.Transition
	Error      struct{ Code, Message string }
	status     int
	header     http.Header
	body       string
}

// gate calls an address below a gate's; body "" sends none.
func (p *process) gate(t testing.TB, method, path, body string, header ...string) gateAnswer {
	t.Helper()
	var a gateAnswer
	a.status, a.header, a.body = p.request(t, method, "/api/gates/"+path, body, &a, header...)
	return a
}

// expect compares an answer with a state and a status. The generation of a
// gate with a release is the time of the last one, by the store's clock.
func (a gateAnswer) expect(t testing.TB, what string, status int, released bool, releases int64) {
	t.Helper()
	if a.status != status || a.Released != released || a.Releases != releases {
		t.Errorf("%s: %d %s, want %d with released %t, releases %d", what, a.status, a.body, status, released, releases)
	}
	if off := time.Since(time.UnixMilli(a.Generation)).Abs(); releases > 0 && off > time.Minute || releases == 0 && a.Generation != 0 {
		t.Errorf("%s: generation %d, want about %d", what, a.Generation, time.Now().UnixMilli())
	}
}

func TestUnleash(t *testing.T) {
	t.Parallel()
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
	name := storetest.Name()

	never := p.gate(t, "GET", name, "")
	never.expect(t, "never released", 200, false, 0)
	if never.Gate != name || !never.ChangedAt.IsZero() || strings.Contains(never.body, "changedAt") || len(never.History) != 0 {
		t.Errorf("a gate that nobody has touched: %s", never.body)
	}
	if got := never.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q: a state must not be kept", got)
	}
	p.gate(t, "GET", name+"/wait?timeout=2s", "").expect(t, "wait at a shut gate", 202, false, 0)

	first := p.gate(t, "POST", name+"/release", `{"by":"ann","reason":"all are warm"}`)
	first.expect(t, "first release", 200, true, 1)
	if first.Changed == nil || !*first.Changed || first.Signalled != nil || first.By != "ann" || first.Reason != "all are warm" || first.ChangedAt.IsZero() || first.History != nil {
		t.Errorf("first release: %s", first.body)
	}
	again := p.gate(t, "POST", name+"/release", `{"by":"bob","reason":"me too"}`)
	again.expect(t, "second release", 200, true, 1)
	if again.Changed == nil || *again.Changed || again.By != "ann" {
		t.Errorf("releasing what is released: %s, want changed false, and ann's release", again.body)
	}
	p.gate(t, "GET", name+"/wait", "").expect(t, "wait at a released gate", 200, true, 1)
	p.gate(t, "GET", name+"/wait?generation=0", "").expect(t, "wait for what was released", 200, true, 1)
	p.gate(t, "GET", fmt.Sprintf("%s/wait?generation=%d&timeout=2s", name, first.Generation), "").expect(t, "wait for the next release", 202, true, 1)

	closed := p.gate(t, "POST", name+"/close", "")
	closed.expect(t, "close", 200, false, 1)
	if closed.By != unnamed || closed.Reason != "" || closed.Generation != first.Generation {
		t.Errorf("closed without a name: %s", closed.body)
	}
	p.gate(t, "GET", name+"/wait?timeout=2s", "").expect(t, "wait at a gate that is shut again", 202, false, 1)
	if again := p.gate(t, "POST", name+"/close", ""); again.Changed == nil || *again.Changed {
		t.Errorf("closing what is shut: %s", again.body)
	}
	p.gate(t, "GET", name+"/wait?generation=0", "").expect(t, "the release before the closing", 200, false, 1)
	p.gate(t, "GET", fmt.Sprintf("%s/wait?GENERATION=%d&Timeout=2s", name, first.Generation), "").expect(t, "names in any case", 202, false, 1)

	whole := p.gate(t, "GET", name, "")
	whole.expect(t, "state", 200, false, 1)
	if len(whole.History) != 2 || whole.History[0].Change != "release" || whole.History[1].Change != "close" || whole.History[0].By != "ann" {
		t.Errorf("history: %s", whole.body)
	}
}

func TestUnleashBadRequests(t *testing.T) {
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
	name := storetest.Name()
	for _, tt := range []struct {
		method, path, body string
		status             int
		code, says         string
	}{
		{"GET", "Orders", "", 400, "bad_gate", "lower-case"},
		{"GET", "-a/wait", "", 400, "bad_gate", ""},
		{"POST", "a_b/release", "", 400, "bad_gate", ""},
		{"POST", "a%2Fb/close", "", 400, "bad_gate", ""},
		{"GET", strings.Repeat("a", 64), "", 400, "bad_gate", "63"},
		{"GET", "%00", "", 400, "bad_gate", ""},
		{"GET", name + "/wait?generation=-1", "", 400, "bad_generation", "whole number"},
		{"GET", name + "/wait?generation=", "", 400, "bad_generation", ""},
		{"GET", name + "/wait?generation=1.5", "", 400, "bad_generation", ""},
		{"GET", name + "/wait?generation=one", "", 400, "bad_generation", ""},
		{"GET", name + "/wait?generation=9007199254740992", "", 400, "bad_generation", "9007199254740991"},
		{"GET", name + "/wait?generation=1%", "", 400, "bad_query", "%25"},
		{"GET", name + "/wait?generation=1;", "", 400, "bad_query", "%3B"},
		{"GET", name + "/wait?timeout=10h", "", 400, "bad_timeout", "200s"},
		{"GET", name + "/wait?timeout=201s", "", 400, "bad_timeout", "200s"},
		{"GET", name + "/wait?timeout=0s", "", 400, "bad_timeout", ""},
		{"GET", name + "/wait?timeout=-5s", "", 400, "bad_timeout", ""},
		{"GET", name + "/wait?timeout=30", "", 400, "bad_timeout", "unit"},
		{"GET", name + "/wait?timeout=", "", 400, "bad_timeout", ""},
		{"POST", name + "/release", "{", 400, "bad_json", ""},
		{"POST", name + "/release", "now", 400, "bad_json", ""},
		{"POST", name + "/release", `"now"`, 400, "bad_json", ""},
		{"POST", name + "/release", `{"reason":1}`, 400, "bad_json", "reason"},
		{"POST", name + "/release", `{"reson":"x"}`, 400, "bad_json", "reson"},
		{"POST", name + "/release", `{"reason":"x"}{}`, 400, "bad_json", ""},
		{"POST", name + "/release", `{"reason":"` + strings.Repeat("ü", 1001) + `"}`, 400, "bad_change", "1000"},
		{"POST", name + "/release", `{"by":"` + strings.Repeat("a", 201) + `"}`, 400, "bad_change", "200"},
		{"POST", name + "/release", `{"by":"a\u001bb"}`, 400, "bad_change", "control"},
		{"POST", name + "/close", `{"reason":"` + strings.Repeat("a", 1<<20) + `"}`, 413, "", ""},
		{"GET", name + "/release", "", 405, "", "Allow"},
		{"POST", name, "", 405, "", "Allow"},
		{"POST", name + "/wait", "", 405, "", "Allow"},
		{"GET", name + "/open", "", 404, "", ""},
		{"GET", name + "/release/now", "", 404, "", ""},
	} {
		path, _, _ := strings.Cut(tt.path+"?", "?")
		t.Run(fmt.Sprintf("%s %s %.20s", tt.method, path, tt.body), func(t *testing.T) {
			a := p.gate(t, tt.method, tt.path, tt.body)
			if a.status != tt.status || a.Error.Message == "" || tt.code != "" && a.Error.Code != tt.code || !strings.Contains(a.Error.Message, tt.says) {
				t.Errorf("got %d %.300s, want %d %s with %q", a.status, a.body, tt.status, tt.code, tt.says)
			}
		})
	}
	t.Run("body of another type", func(t *testing.T) {
		if a := p.gate(t, "POST", name+"/release", `{}`, "Content-Type", "text/plain"); a.status != 415 {
			t.Errorf("got %d %s, want 415", a.status, a.body)
		}
	})
	t.Run("body that was lost on the way", func(t *testing.T) {
		if a := p.gate(t, "POST", name+"/release", "", "Content-Type", "Application/JSON; charset=utf-8"); a.status != 411 || a.Error.Code != "length_required" {
			t.Errorf("got %d %s, want 411", a.status, a.body)
		}
	})
	p.gate(t, "POST", name+"/close", "", "Content-Type", "application/x-www-form-urlencoded").expect(t, "what curl -d '' sends", 200, false, 0)
	p.gate(t, "GET", name, "").expect(t, "after all that", 200, false, 0)

	longest := `{"by":"` + strings.Repeat("a", 200) + `","reason":"` + strings.Repeat("ü", 1000) + `"}`
	p.gate(t, "POST", name+"/release", longest).expect(t, "the longest texts", 200, true, 1)
}

// Of administrators who race, one releases each generation, whatever process
// they talk to.
func TestUnleashRace(t *testing.T) {
	t.Parallel()
	env := withAzurite(t)
	both := []*process{start(t, built.handler, env), start(t, built.handler, env)}
	for _, p := range both {
		p.ready(t)
	}
	name := storetest.Name()
	for generation := int64(1); generation <= 3; generation++ {
		const administrators = 8
		answers := make([]gateAnswer, administrators)
		var racing sync.WaitGroup
		for i := range administrators {
			racing.Go(func() {
				answers[i] = both[i%2].gate(t, "POST", name+"/release", fmt.Sprintf(`{"by":"administrator %d"}`, i))
			})
		}
		racing.Wait()
		winners := 0
		for _, a := range answers {
			a.expect(t, "release", 200, true, generation)
			if a.Changed != nil && *a.Changed {
				winners++
			}
		}
		if winners != 1 {
			t.Errorf("generation %d was released by %d of the administrators, want 1", generation, winners)
		}
		both[0].gate(t, "POST", name+"/close", "").expect(t, "close", 200, false, generation)
	}
	if a := both[1].gate(t, "GET", name, ""); len(a.History) != 6 {
		t.Errorf("history of %d changes, want 6: %s", len(a.History), a.body)
	}
}

// Waiters pass when another process releases, also without signals.
func TestUnleashElsewhere(t *testing.T) {
	t.Parallel()
	env := withAzurite(t)
	waiters, administrator := start(t, built.handler, env), start(t, built.handler, env)
	waiters.ready(t)
	administrator.ready(t)
	name := storetest.Name()
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() {
			waiters.gate(t, "GET", name+"/wait?timeout=200s", "").expect(t, "waiter", 200, true, 1)
		})
	}
	waiters.holds(t, name, 10)
	administrator.gate(t, "POST", name+"/release", "").expect(t, "release", 200, true, 1)
	waiting.Wait()
	if !strings.Contains(waiters.output.String(), "no signals are set up") {
		t.Error("it does not log that gates are polled")
	}
}

// holds waits until so many wait at a gate of this process.
func (p *process) holds(t testing.TB, name string, waiters int) {
	t.Helper()
	var status struct {
		Gates map[string]gate.Watched
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, _, body := p.call(t, "GET", "/api/status", nil)
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			t.Fatal(err)
		}
		if status.Gates[name].Waiting == waiters {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %s, want %d who wait at %s", body, waiters, name)
		}
	}
}

// What somebody has written into the blob by hand opens nothing, and nothing
// but force replaces it.
func TestCorruptGate(t *testing.T) {
	t.Parallel()
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
	blobs, err := azure.Account{ConnectionString: storetest.Azurite(t).ConnectionString()}.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	store := azure.NewGates(blobs, gatesContainer)
	name := storetest.Name()
	const nonsense = `{"released":true,"generation":41}`
	if _, err := store.Replace(t.Context(), name, gate.Flag{}, gate.Flag{Text: nonsense}); err != nil {
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
	if f, err := store.Load(t.Context(), name, ""); err != nil || f.Text != nonsense {
		t.Errorf("the blob is now %q, %v, want it as it was", f.Text, err)
	}
	if !strings.Contains(p.output.String(), "its format has version 0") {
		t.Error("the log does not say what is wrong with the blob")
	}
	p.gate(t, "POST", name+"/release", `{"by":"ann","reason":"I looked","force":true}`).expect(t, "release by force", 200, true, 1)
	if a := p.gate(t, "GET", name, ""); len(a.History) != 1 || a.History[0].Replaced == "" || a.History[0].By != "ann" {
		t.Errorf("after force: %s, want a history that tells what was replaced", a.body)
	}
	p.gate(t, "GET", name+"/wait?generation=41", "").expect(t, "after force", 200, true, 1)
}

// While storage is away nobody passes and nothing is changed; afterwards all
// goes on by itself.
func TestGateWithoutStorage(t *testing.T) {
	t.Parallel()
	proxy := newProxy(t)
	heal := proxy.Add(faultproxy.Fault{Service: "blob", Cut: true})
	p := start(t, built.handler, "AzureWebJobsStorage="+proxy.ConnectionString())
	p.ready(t)
	name := storetest.Name()
	for _, call := range [][2]string{{"GET", name}, {"GET", name + "/wait?timeout=2s"}, {"POST", name + "/release"}} {
		if a := p.gate(t, call[0], call[1], ""); a.status != 503 || a.header.Get("Retry-After") == "" || a.Error.Code != "storage_unavailable" {
			t.Errorf("%s %s: %d %s, want 503", call[0], call[1], a.status, a.body)
		}
	}
	waited := make(chan gateAnswer)
	go func() { waited <- p.gate(t, "GET", name+"/wait?timeout=200s", "") }()
	p.holds(t, name, 1)
	heal()
	p.gate(t, "POST", name+"/release", "").expect(t, "release", 200, true, 1)
	(<-waited).expect(t, "waiter", 200, true, 1)
}

// Stopped in peace, the handler sends its waiters away before it ends.
func TestStopWhileWaiting(t *testing.T) {
	p := start(t, built.handler, withAzurite(t), "KENNEL_DRAIN=1m")
	p.ready(t)
	name := storetest.Name()
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() {
			a := p.gate(t, "GET", name+"/wait?timeout=200s", "")
			if a.status != 503 || a.Error.Code != "stopping" || a.header.Get("Retry-After") == "" {
				t.Errorf("waiter: %d %s, want 503 stopping", a.status, a.body)
			}
		})
	}
	p.holds(t, name, 20)
	p.terminate()
	waiting.Wait()
	if code := p.exitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if strings.Contains(p.output.String(), `"level":"ERROR"`) {
		t.Errorf("stopping is no error: %s", p.output)
	}
}

// A wait that is longer than an invocation may be ends before it.
func TestWaitWithinInvocation(t *testing.T) {
	t.Parallel()
	p := start(t, built.handler, withAzurite(t), "KENNEL_INVOCATION_TIMEOUT=3s", "KENNEL_RESERVE_TIMEOUT=3s")
	p.ready(t)
	p.gate(t, "GET", storetest.Name()+"/wait?timeout=200s", "").expect(t, "wait", 202, false, 0)
}

// Who has changed a gate is what the platform says, where it signs people in,
// and only there.
func TestWhoChangesTheGate(t *testing.T) {
	const header, id = "X-MS-CLIENT-PRINCIPAL-NAME", "X-MS-CLIENT-PRINCIPAL-ID"
	open := start(t, built.handler, withAzurite(t))
	signed := start(t, built.handler, withAzurite(t), "WEBSITE_AUTH_ENABLED=True")
	open.ready(t)
	signed.ready(t)
	for _, tt := range []struct {
		name   string
		p      *process
		body   string
		header []string
		want   string
	}{
		{"by the body", open, `{"by":" ann "}`, nil, "ann"},
		{"nobody", open, `{}`, nil, unnamed},
		{"a header that anybody can send", open, `{"by":"ann"}`, []string{header, "mallory"}, "ann"},
		{"signed in", signed, `{"by":"somebody else"}`, []string{header, "ann@example.com"}, "ann@example.com"},
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
