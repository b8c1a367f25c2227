package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/ids"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/faultproxy"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/storetest"
)

func TestNextOrderID(t *testing.T) {
	p := shared(t)
	s := "/api/sequences/" + storetest.Name() + "/next"
	name := strings.Split(s, "/")[3]

	status, header, body := p.call(t, "POST", s, nil)
	if want := `{"sequence":"` + name + `","first":1,"last":1,"count":1}` + "\n"; status != 200 || body != want {
		t.Errorf("first number: %d %s, want %s", status, body, want)
	}
	if got := header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	if _, _, body := p.call(t, "POST", s+"?count=3", nil); body != `{"sequence":"`+name+`","first":2,"last":4,"count":3}`+"\n" {
		t.Errorf("three numbers: %s", body)
	}
	_, header, body = p.call(t, "POST", s+"?count=2", nil, "Accept", "text/plain")
	if body != "5\n6\n" || header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("as text: %q, %q", body, header.Get("Content-Type"))
	}
	if status, _, body := p.call(t, "POST", s+"?count=10000", nil); status != 200 || !strings.Contains(body, `"count":10000`) {
		t.Errorf("as many as one may have: %d %s", status, body)
	}
	if status, _, _ := p.call(t, "POST", s, io.MultiReader(strings.NewReader(""))); status != 200 {
		t.Errorf("an empty chunked body: %d, want 200", status)
	}
}

// The host wraps calls into an envelope when a function has more bindings.
func TestNextOrderIDInEnvelope(t *testing.T) {
	p := shared(t)
	name := storetest.Name()
	for query, want := range map[string]string{"": `"statusCode":200`, "?count=0": `\"bad_count\"`, "?conut=2": `\"bad_query\"`} {
		status, _, body := p.call(t, "POST", "/NextOrderId", strings.NewReader(
			`{"Data":{"req":{"Url":"http://localhost:7071/api/sequences/`+name+`/next`+query+`","Method":"POST","Query":{},"Headers":{},"Params":{"sequence":"`+name+`"}}},"Metadata":{}}`))
		if status != 200 || !strings.Contains(body, want) || !strings.Contains(body, `"res"`) {
			t.Errorf("%q: %d %s, want 200 with %s", query, status, body, want)
		}
	}
}

func TestCorruptSequence(t *testing.T) {
	p := shared(t)
	store := azure.NewSequences(apptest.OpenBlobs(t), names.SequencesContainer)
	put := func(text string) (path string) {
		t.Helper()
		name := storetest.Name()
		if _, err := store.Replace(t.Context(), name, ids.Value{}, ids.Value{Text: text}); err != nil {
			t.Fatal(err)
		}
		return "/api/sequences/" + name + "/next"
	}
	path := put("12x")
	for range 2 {
		if status, _, body := p.call(t, "POST", path, nil); status != 500 || !strings.Contains(body, `"sequence_corrupt"`) {
			t.Errorf("corrupt blob: %d %s", status, body)
		}
	}
	if s, body := p.status(t); s.Status != observe.Degraded || !strings.Contains(body, `"problem"`) {
		t.Errorf("status %s, want it degraded by the sequence", body)
	}
	path = put(strconv.FormatInt(ids.MaxExact, 10))
	if _, _, body := p.call(t, "POST", path, nil); !strings.Contains(body, `"first":9007199254740991`) {
		t.Errorf("last number: %s", body)
	}
	if status, _, body := p.call(t, "POST", path, nil); status != 409 || !strings.Contains(body, `"sequence_exhausted"`) {
		t.Errorf("after the last number: %d %s", status, body)
	}
}

// The handler starts while storage is down, reports it, changes nothing, and
// recovers without a restart.
func TestStorageDown(t *testing.T) {
	t.Parallel()
	proxy := apptest.NewProxy(t)
	heal := proxy.Add(faultproxy.Fault{Cut: true})
	p := start(t, built.handler, "AzureWebJobsStorage="+proxy.ConnectionString(), "KENNEL_RESERVE_TIMEOUT=1s", oneTry)
	name := storetest.Name()
	next, gate, channel := "/api/sequences/"+name+"/next", "/api/gates/"+name, "/api/channels/"+name
	calls := [][3]string{
		{"POST", next, ""},
		{"GET", gate, ""}, {"GET", gate + "/wait?timeout=2s", ""}, {"POST", gate + "/release", ""},
		{"GET", channel, ""}, {"GET", "/api/channels", ""}, {"PUT", channel, `{"owner":"ann"}`}, {"DELETE", channel, ""},
		{"POST", channel + "/blogs", apptest.Draft},
	}
	for _, call := range calls {
		var a answer
		status, header, body := p.request(t, call[0], call[1], call[2], &a)
		if status != 503 || header.Get("Retry-After") == "" || a.Error.Code != "storage_unavailable" {
			t.Errorf("%s %s: %d %v %s, want 503 storage_unavailable", call[0], call[1], status, header, body)
		}
	}
	message := `{"v":1,"channel":"` + name + `","incarnation":"0123456789abcdef-0123456789abcdef"}`
	if err := p.invoke(t, "ChannelCleanup", cleanupOf(customhandler.QueueMessage{Text: message})); err == nil {
		t.Error("a message was accepted without storage")
	}
	if err := p.invoke(t, "ChannelSweep", sweepNow()); err == nil {
		t.Error("a sweep succeeded without storage")
	}
	if status, _, body := p.call(t, "GET", "/api/health", nil); status != 200 || body != "{\"status\":\"ok\"}\n" {
		t.Errorf("health: %d %s", status, body)
	}
	if s, body := p.status(t); s.Status != observe.Degraded {
		t.Errorf("status %s, want it degraded", body)
	}
	waited := make(chan answer)
	go func() { waited <- p.gate(t, "GET", name+"/wait?timeout=200s", "") }()
	p.holds(t, name, 1)

	heal()
	p.gate(t, "POST", name+"/release", "").expectGate(t, "release", 200, true, 1)
	(<-waited).expectGate(t, "waiter", 200, true, 1)
	p.channels(t, "PUT", "/"+name, `{"owner":"ann"}`).expect(t, "afterwards", 201, "")
	rejected := len(calls)
	for deadline := time.Now().Add(30 * time.Second); ; rejected++ {
		status, _, body := p.call(t, "POST", next, nil)
		if status == 200 {
			break
		}
		if status != 503 || time.Now().After(deadline) {
			t.Fatalf("after storage came back: %d %s", status, body)
		}
	}
	p.statusUntil(t, "no problem of this process, and one number issued", func(s observe.Status) bool {
		return s.Storage.Healthy() && len(ownProblems(s)) == 0 && s.Sequences[name].Issued == 1
	})
	p.terminate()
	p.exitCode(t)
	// Each is a line of its own, or is counted in one.
	logged := 0
	for line := range strings.Lines(p.output.String()) {
		var record struct {
			Error string
			Count int
		}
		if json.Unmarshal([]byte(line), &record) == nil && strings.Contains(record.Error, "storage_unavailable") {
			logged += max(record.Count, 1)
		}
	}
	if logged != rejected {
		t.Errorf("%d rejected requests are %d in the log", rejected, logged)
	}
	if strings.Contains(p.output.String(), "AccountKey") || strings.Contains(p.output.String(), apptest.StorageKey(t)) {
		t.Error("a key is in the log")
	}
}

// A handler that is stopped answers its waiters, returns its numbers and exits
// with 0, after which the host does not restart it. None of that is an error.
func TestStop(t *testing.T) {
	t.Parallel()
	name := storetest.Name()
	for i := range 2 {
		p := start(t, built.handler, withStorage(t), "KENNEL_DRAIN=1m")
		if _, _, body := p.call(t, "POST", "/api/sequences/"+name+"/next", nil); !strings.Contains(body, fmt.Sprintf(`"first":%d,`, i+1)) {
			t.Errorf("process %d: %s", i, body)
		}
		var waiting sync.WaitGroup
		for range 20 {
			waiting.Go(func() {
				a := p.gate(t, "GET", name+"/wait?timeout=200s", "")
				a.expect(t, "waiter", 503, "stopping")
				if a.header.Get("Retry-After") != "1" || a.header.Get("Cache-Control") != "no-store" {
					t.Errorf("waiter: headers %v", a.header)
				}
			})
		}
		p.holds(t, name, 20)
		p.terminate()
		waiting.Wait()
		if code := p.exitCode(t); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		for line := range strings.Lines(p.output.String()) {
			if !json.Valid([]byte(line)) || strings.Contains(line, "ERROR") || strings.Contains(line, "stopping") {
				t.Errorf("log line %s, want JSON, no error, and none for a waiter", line)
			}
		}
	}
}

func TestCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	for _, tt := range []struct {
		name      string
		env, logs []string
	}{
		{"port taken", []string{"FUNCTIONS_CUSTOMHANDLER_PORT=" + port, "AzureWebJobsStorage=UseDevelopmentStorage=true"}, []string{port}},
		{"no storage", nil, []string{"AzureWebJobsStorage"}},
		{"several mistakes", []string{"AzureWebJobsStorage=UseDevelopmentStorage=true", "KENNEL_RANGE_SIZE=many", "KENNEL_DRAIN=-1s"},
			[]string{"KENNEL_RANGE_SIZE", "KENNEL_DRAIN"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := launch(t, built.handler, tt.env...)
			p.stopAfter(t)
			if code := p.exitCode(t); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, want := range tt.logs {
				if !strings.Contains(p.output.String(), want) {
					t.Errorf("output %s, want it to name %s", p.output, want)
				}
			}
		})
	}
}

// Every function folder is a function of the handler, and the other way round.
func TestFunctionFolders(t *testing.T) {
	folders, err := filepath.Glob("../functions/*/function.json")
	if err != nil || len(folders) == 0 {
		t.Fatal("no function folders found", err)
	}
	p := shared(t)
	named := regexp.MustCompile(`\{\*?[a-z]+\??(:[^}]*)?\}`)
	for _, folder := range folders {
		name := filepath.Base(filepath.Dir(folder))
		text, err := os.ReadFile(folder)
		if err != nil {
			t.Fatal(err)
		}
		var function struct {
			Bindings []struct {
				Type, Route string
				Methods     any
			}
		}
		if err := json.Unmarshal(text, &function); err != nil {
			t.Fatalf("%s: %v", folder, err)
		}
		// In an envelope that holds nothing, the function is found and refuses; a
		// timer's needs to hold nothing.
		trigger := function.Bindings[0]
		want := 400
		if trigger.Type == "timerTrigger" {
			want = 200
		}
		if status, _, body := p.call(t, "POST", "/"+name, strings.NewReader(`{"Data":{}}`)); status != want {
			t.Errorf("function %s has a folder and answers an envelope with %d %s: is it registered?", name, status, body)
		}
		if trigger.Type != "httpTrigger" {
			continue
		}
		// The host answers methods that are not listed by a bare 404, and the handler by 405 with Allow.
		if trigger.Methods != nil {
			t.Errorf("function %s lists methods: leave that to the handler", name)
		}
		// The longest form of the route, and for a function with several routes what is below the shortest.
		full := "/api/" + named.ReplaceAllString(trigger.Route, "x")
		short := "/api/" + strings.TrimSuffix(named.ReplaceAllString(regexp.MustCompile(`/\{\*?[a-z]+\??\}$`).ReplaceAllString(trigger.Route, ""), "x"), "/")
		found := false
		for _, path := range []string{full, short, short + "/release", short + "/x/blogs", short + "/api/status"} {
			status, header, body := p.call(t, "TRACE", path, nil)
			found = found || status == 405 && header.Get("Allow") != ""
			if status != 405 && !strings.Contains(body, `"code":"not_found"`) {
				t.Errorf("TRACE %s: %d %s, want 405", path, status, body)
			}
		}
		if !found {
			t.Errorf("function %s: the host passes %s on, and the handler has nothing there", name, trigger.Route)
		}
	}
	var registered []string
	for _, rt := range appRoutes(t) {
		registered = append(registered, rt.Function)
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sources {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`\bhost\.\w+\("(\w+)"`).FindAllStringSubmatch(string(source), -1) {
			registered = append(registered, match[1])
		}
	}
	for _, function := range registered {
		if !slices.Contains(folders, filepath.Join("..", "functions", function, "function.json")) {
			t.Errorf("function %s is registered and has no folder", function)
		}
	}
}
