package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"kennel/internal/apptest"
	"kennel/internal/dev/localhost"
	"kennel/internal/edge"
	"kennel/internal/memory"
)

// hosted is the app behind the local host, which checks keys.
type hosted struct {
	url       string
	functions map[string]bool // whether they have an HTTP trigger
}

// startHosted starts the app with the functions of the repository, and with
// edit applied to them.
func startHosted(t *testing.T, edit func(name string, text []byte) []byte, env ...string) hosted {
	t.Helper()
	handler, err := built.handler()
	if err != nil {
		t.Fatal(err)
	}
	root := fstest.MapFS{}
	h := hosted{functions: make(map[string]bool)}
	keys := &localhost.Keys{Master: masterKey, Host: hostKey, Functions: make(map[string]string)}
	for _, pattern := range []string{"../host.json", "../functions/*/function.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if folder := filepath.Base(filepath.Dir(file)); folder != ".." {
				h.functions[folder] = strings.Contains(string(text), "httpTrigger")
				keys.Functions[folder] = "key-of-" + folder
				text, file = edit(folder, text), folder+"/function.json"
			}
			root[strings.TrimPrefix(file, "../")] = &fstest.MapFile{Data: text, Mode: 0o644}
		}
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, root); err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{
		// Nothing listens there. No call of the tests needs storage.
		"AzureWebJobsStorage": "BlobEndpoint=http://127.0.0.1:1/x;TableEndpoint=http://127.0.0.1:1/x;QueueEndpoint=http://127.0.0.1:1/x;SharedAccessSignature=sig=c2VjcmV0",
		"GORACE":              "atexit_sleep_ms=0",
	}
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		settings[name] = value
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	console := &apptest.Buffer{}
	host, err := localhost.New(folder, listener, &localhost.Options{
		Env: settings, Executable: handler, Queues: memory.NewQueues(nil), Keys: keys, Console: console,
	})
	if err != nil {
		listener.Close()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil || t.Failed() {
			t.Logf("the host ended: %v\n%s", err, console)
		}
	})
	<-host.Ready()
	h.url = host.URL()
	return h
}

func asInRepository(_ string, text []byte) []byte { return text }

// call returns what becomes of a call. Each has a parameter that no route knows:
// a route that serves the caller rejects it before it does anything.
func (h hosted) call(t *testing.T, method, path string, c caller, function string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.url+path+"?nothing=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Kennel-Console", "1")
	maps.Copy(r.Header, c.header)
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	key := c.key
	switch key {
	case ownKey:
		key = "key-of-" + function
	case otherKey:
		key = "key-of-Console"
		if strings.HasPrefix(path, edge.ConsoleBase) {
			key = "key-of-Channels"
		}
	}
	if key != "" {
		r.Header.Set("x-functions-key", key)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Header.Get("X-Request-Id") == "" {
		return fmt.Sprintf("%d of the host%s", answer.StatusCode, text)
	}
	var body struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(text, &body); err != nil || body.Error.Message == "" {
		t.Errorf("%s %s: %s is not an error", method, path, text)
	}
	if answer.StatusCode == 401 && answer.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("%s %s: 401 without a challenge", method, path)
	}
	if body.Error.Code == "bad_query" {
		return served
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, body.Error.Code)
}
