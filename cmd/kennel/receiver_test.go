//go:build unix

package main

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"kennel/internal/storetest"
)

// receiver is a program of docs/other-languages.md behind a proxy that loses
// answers, and that kills the program once.
type receiver struct {
	ts   *testscript.TestScript
	args []string
	port string

	mu       sync.Mutex
	cmd      *exec.Cmd       // guarded by mu
	requests int             // guarded by mu
	seen     map[string]bool // keys; guarded by mu
}

// killedAt is the request at which the program is killed.
const killedAt = 120

// scriptReceiver takes a program of docs/other-languages.md from the page,
// compiles it as the page says and starts it.
func scriptReceiver(ts *testscript.TestScript, _ bool, args []string) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "other-languages.md"))
	ts.Check(err)
	save := func(name, language string) {
		m := regexp.MustCompile("`" + regexp.QuoteMeta(name) + "`:\n\n```" + language + "\n((?s:.*?))```").FindSubmatch(page)
		if m == nil {
			ts.Fatalf("the page has no %s in %s", name, language)
		}
		ts.Check(os.WriteFile(ts.MkAbs(name), m[1], 0o644))
	}
	r := &receiver{ts: ts, seen: make(map[string]bool)}
	switch args[0] {
	case "python":
		save("receiver.py", "python")
		r.args = []string{"python3", "receiver.py"}
	case "typescript":
		save("receiver.mts", "ts")
		ts.Check(os.CopyFS(ts.MkAbs("."), os.DirFS(filepath.Join("testdata", "typescript"))))
		ts.Check(ts.Exec("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"))
		compile := regexp.MustCompile(`(?m)^\$ npx (tsc .*)$`).FindSubmatch(page)
		if compile == nil {
			ts.Fatalf("the page does not compile TypeScript")
		}
		command := strings.Fields(string(compile[1]))
		ts.Check(ts.Exec(filepath.Join("node_modules", ".bin", command[0]), command[1:]...))
		r.args = []string{"node", "receiver.mjs"}
	default:
		ts.Fatalf("%s is not python or typescript", args[0])
	}
	number, err := storetest.Port()
	ts.Check(err)
	r.port = strconv.Itoa(number)
	ts.Check(r.start())
	ts.Defer(func() { r.stop() })
	eventually(ts, "the receiver does not answer", func() bool {
		resp, err := http.Post("http://127.0.0.1:"+r.port, "application/json", strings.NewReader("{}"))
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusUnprocessableEntity
	})
	proxy := httptest.NewServer(r)
	ts.Defer(proxy.Close)
	ts.Setenv("RECEIVER", proxy.URL)
	ts.Setenv("KENNEL_WEBHOOK_ALLOW", proxy.URL+"/orders")
}

func (r *receiver) start() error {
	r.cmd = exec.Command(r.args[0], r.args[1:]...)
	r.cmd.Dir = r.ts.MkAbs(".")
	r.cmd.Env = append(os.Environ(), "PORT="+r.port)
	return r.cmd.Start()
}

// stop kills the program as a crash does.
func (r *receiver) stop() {
	r.cmd.Process.Kill()
	r.cmd.Wait()
}

// ServeHTTP passes a request on. One in five answers is lost when its key is
// seen for the first time: the program did its part, and the app cannot know.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	key := req.Header.Get("Idempotency-Key")
	sum := fnv.New32()
	fmt.Fprint(sum, key)
	r.mu.Lock()
	lose := sum.Sum32()%5 == 0 && !r.seen[key]
	r.seen[key] = true
	if r.requests++; r.requests == killedAt { // while other requests run
		r.stop()
		if err := r.start(); err != nil {
			panic(err)
		}
	}
	r.mu.Unlock()
	answer := httptest.NewRecorder()
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: "127.0.0.1:" + r.port}) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { w.WriteHeader(http.StatusBadGateway) },
	}
	proxy.ServeHTTP(answer, req)
	if lose {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}
