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
	"testing"
	"time"

	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/config"
	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
)

func TestNextOrderID(t *testing.T) {
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
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
	if status, _, _ := p.call(t, "POST", s, io.MultiReader(strings.NewReader("{}"))); status != 200 {
		t.Errorf("a chunked body, which this function has no use for: %d, want 200", status)
	}
}

func TestBadRequests(t *testing.T) {
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
	for _, tt := range []struct {
		method, path string
		body         string
		status       int
		code, says   string
	}{
		{"POST", "/api/sequences/orders/next?count=0", "", 400, "bad_count", "1 to 10000"},
		{"POST", "/api/sequences/orders/next?count=-1", "", 400, "bad_count", ""},
		{"POST", "/api/sequences/orders/next?count=10001", "", 400, "bad_count", ""},
		{"POST", "/api/sequences/orders/next?count=abc", "", 400, "bad_count", ""},
		{"POST", "/api/sequences/orders/next?count=", "", 400, "bad_count", ""},
		{"POST", "/api/sequences/orders/next?count=1,2", "", 400, "bad_count", ""},
		{"POST", "/api/sequences/orders/next?count=1.5", "", 400, "bad_count", ""},
		{"POST", "/api/sequences/orders/next?count=99999999999999999999", "", 400, "bad_count", ""},
		{"POST", "/api/sequences/Orders/next", "", 400, "bad_sequence", "lower-case"},
		{"POST", "/api/sequences/-a/next", "", 400, "bad_sequence", ""},
		{"POST", "/api/sequences/a-/next", "", 400, "bad_sequence", ""},
		{"POST", "/api/sequences/a%2Fb/next", "", 400, "bad_sequence", ""},
		{"POST", "/api/sequences/%00/next", "", 400, "bad_sequence", ""},
		{"POST", "/api/sequences/" + strings.Repeat("a", 64) + "/next", "", 400, "bad_sequence", "63"},
		{"GET", "/api/sequences/orders/next", "", 405, "", "Allow"},
		{"POST", "/api/sequences/orders", "", 404, "", ""},
		{"POST", "/api/sequences//next", "", 404, "", ""},
		{"POST", "/NoSuchFunction", "{}", 404, "", "NoSuchFunction"},
		{"POST", "/NextOrderId", "{", 400, "", ""},
		{"POST", "/NextOrderId", "", 400, "", ""},
		{"POST", "/NextOrderId", `{"Data":{}}`, 400, "", "req"},
		{"GET", "/NextOrderId", "", 405, "", "Allow"},
	} {
		t.Run(tt.method+" "+tt.path+" "+tt.body, func(t *testing.T) {
			var answer struct {
				Error struct{ Code, Message string }
			}
			status, _, body := p.request(t, tt.method, tt.path, tt.body, &answer)
			if status != tt.status || answer.Error.Message == "" || answer.Error.Code == "" ||
				tt.code != "" && answer.Error.Code != tt.code || !strings.Contains(answer.Error.Message, tt.says) {
				t.Errorf("got %d %s, want %d %s with %q", status, body, tt.status, tt.code, tt.says)
			}
		})
	}
}

// A body of 200 MB is refused by its announced length, before it is read.
func TestHugeBody(t *testing.T) {
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
	for _, path := range []string{"/api/sequences/orders/next", "/NextOrderId"} {
		conn, err := net.Dial("tcp4", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 200000000\r\n\r\n{")
		conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 413" {
			t.Errorf("%s: %q, %v, want 413", path, answer, err)
		}
	}
}

// The host wraps calls into an envelope when a function has more bindings.
func TestNextOrderIDInEnvelope(t *testing.T) {
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
	name := storetest.Name()
	for _, tt := range []struct{ query, want string }{
		{"", `"statusCode":200`},
		{"?count=0", `"statusCode":400`},
	} {
		status, _, body := p.call(t, "POST", "/NextOrderId", strings.NewReader(
			`{"Data":{"req":{"Url":"http://localhost:7071/api/sequences/`+name+`/next`+tt.query+`","Method":"POST","Query":{},"Headers":{},"Params":{"sequence":"`+name+`"}}},"Metadata":{}}`))
		if status != 200 || !strings.Contains(body, tt.want) || !strings.Contains(body, `"res"`) {
			t.Errorf("%q: %d %s, want 200 with %s", tt.query, status, body, tt.want)
		}
	}
}

func TestCorruptSequence(t *testing.T) {
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
	blobs, err := azure.Account{ConnectionString: storetest.Azurite(t).ConnectionString()}.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	store := azure.NewSequences(blobs, sequencesContainer)
	for text, want := range map[string]string{
		"12x": "", "": "", "-5": "", "9223372036854775808": "", "\ufeff7": `"first":7`, "8\n": `"first":8`,
		strconv.FormatInt(ids.MaxExact, 10): `"first":9007199254740991`,
	} {
		name := storetest.Name()
		if _, err := store.Replace(t.Context(), name, ids.Mark{}, ids.Mark{Text: text}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			status, _, body := p.call(t, "POST", "/api/sequences/"+name+"/next", nil)
			if want == "" && (status != 500 || !strings.Contains(body, "sequence_corrupt")) || !strings.Contains(body, want) {
				t.Errorf("blob %q: %d %s", text, status, body)
			}
			if want != "" {
				break
			}
		}
		if _, _, body := p.call(t, "GET", "/api/status", nil); want == "" && (!strings.Contains(body, `"degraded"`) || !strings.Contains(body, `"problem"`)) {
			t.Errorf("blob %q: the status says %s", text, body)
		}
		if text == strconv.FormatInt(ids.MaxExact, 10) {
			if status, _, body := p.call(t, "POST", "/api/sequences/"+name+"/next", nil); status != 409 || !strings.Contains(body, "sequence_exhausted") {
				t.Errorf("after the last number: %d %s", status, body)
			}
		}
	}
}

// The handler starts while storage is down, says so, and recovers by itself.
func TestStorageDownAtStart(t *testing.T) {
	proxy := newProxy(t)
	heal := proxy.Add(faultproxy.Fault{Service: "blob", Cut: true})
	p := start(t, built.handler, "AzureWebJobsStorage="+proxy.ConnectionString(),
		"KENNEL_RESERVE_TIMEOUT=1s")
	p.ready(t)
	next := "/api/sequences/" + storetest.Name() + "/next"
	refused := 1
	status, header, body := p.call(t, "POST", next, nil)
	if status != 503 || header.Get("Retry-After") == "" || !strings.Contains(body, "storage_unavailable") {
		t.Errorf("while storage is down: %d, Retry-After %q, %s", status, header.Get("Retry-After"), body)
	}
	if status, _, body := p.call(t, "GET", "/api/health", nil); status != 200 || body != "{\"status\":\"ok\"}\n" {
		t.Errorf("health: %d %s", status, body)
	}
	if status, _, body := p.call(t, "GET", "/api/status", nil); status != 200 || !strings.Contains(body, `"degraded"`) {
		t.Errorf("status: %d %s", status, body)
	}
	heal()
	deadline := time.Now().Add(30 * time.Second)
	for {
		status, _, body := p.call(t, "POST", next, nil)
		if status == 200 {
			break
		}
		if status != 503 || time.Now().After(deadline) {
			t.Fatalf("after storage came back: %d %s", status, body)
		}
		refused++
	}
	if _, _, body := p.call(t, "GET", "/api/status", nil); !strings.Contains(body, `"status":"ok"`) || !strings.Contains(body, `"issued":1`) {
		t.Errorf("status after recovery: %s", body)
	}
	p.terminate()
	p.exitCode(t)
	if got := strings.Count(p.output.String(), "storage_unavailable"); got != refused {
		t.Errorf("%d refused requests left %d lines in the log", refused, got)
	}
	if strings.Contains(p.output.String(), "AccountKey") || strings.Contains(p.output.String(), "Eby8vdM02xNOcqFlqUwJPLlm") {
		t.Error("a key is in the log")
	}
}

// Stopped in peace the handler gives its numbers back, and exits with 0, which
// the host does not restart.
func TestStop(t *testing.T) {
	env := withAzurite(t)
	next := "/api/sequences/" + storetest.Name() + "/next"
	for i := range 3 {
		p := start(t, built.handler, env)
		p.ready(t)
		if _, _, body := p.call(t, "POST", next, nil); !strings.Contains(body, `"first":`+strconv.Itoa(i+1)+`,`) {
			t.Errorf("life %d: %s", i, body)
		}
		p.terminate()
		if code := p.exitCode(t); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		for _, line := range lines(p.output.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("a log line that is no JSON: %s", line)
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
		name string
		env  []string
		says []string
	}{
		{"port taken", []string{"FUNCTIONS_CUSTOMHANDLER_PORT=" + port, "AzureWebJobsStorage=UseDevelopmentStorage=true"}, []string{port}},
		{"no storage", nil, []string{"AzureWebJobsStorage"}},
		{"several mistakes", []string{"AzureWebJobsStorage=UseDevelopmentStorage=true", "KENNEL_RANGE_SIZE=many", "KENNEL_DRAIN=-1s"},
			[]string{"KENNEL_RANGE_SIZE", "KENNEL_DRAIN"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, built.handler, tt.env...)
			if code := p.exitCode(t); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, says := range tt.says {
				if !strings.Contains(p.output.String(), says) {
					t.Errorf("it does not say %s: %s", says, p.output)
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
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
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
		for _, path := range []string{full, short, short + "/release", short + "/x/blogs"} {
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
			if !slices.Contains(folders, filepath.Join("..", "functions", match[1], "function.json")) {
				t.Errorf("function %s is registered and has no folder", match[1])
			}
		}
	}
}

// An invocation must end before the host ends it, which kills all others too.
func TestInvocationTimeoutIsBelowTheHosts(t *testing.T) {
	text, err := os.ReadFile("../host.json")
	if err != nil {
		t.Fatal(err)
	}
	var host struct{ FunctionTimeout string }
	if err := json.Unmarshal(text, &host); err != nil {
		t.Fatal(err)
	}
	var h, m, s int
	if _, err := fmt.Sscanf(host.FunctionTimeout, "%d:%d:%d", &h, &m, &s); err != nil {
		t.Fatalf("functionTimeout %q in host.json: %v", host.FunctionTimeout, err)
	}
	limit := time.Duration(h*3600+m*60+s) * time.Second
	cfg, err := config.Load(map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.InvocationTimeout >= limit {
		t.Errorf("an invocation may take %v by default, the host kills the handler after %v", cfg.InvocationTimeout, limit)
	}
	// What config lets through must be below it too.
	_, err = config.Load(map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true", "KENNEL_INVOCATION_TIMEOUT": limit.String()})
	if err == nil {
		t.Errorf("KENNEL_INVOCATION_TIMEOUT=%v is accepted, and the host kills the handler then", limit)
	}
}
