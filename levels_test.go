package kennel

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kennel/internal/azure"
	"kennel/internal/dev/localhost"
	"kennel/internal/storetest"
)

// The keys of the shop behind the host.
const (
	masterKey = "the-master-key"
	hostKey   = "the-host-key"
)

// hostShop starts the shop behind the development host, with edit applied to its
// folders, and returns a function that calls it, by the target as it is sent.
func hostShop(t *testing.T, binary, connection string, edit func(text []byte) []byte) (call func(method, target, key string) (int, string)) {
	t.Helper()
	root := stageShop(t, binary)
	files, err := filepath.Glob(filepath.Join(root, "Route-*", "function.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no functions of routes: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, edit(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	queues, err := azure.Account{ConnectionString: connection}.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, err := localhost.New(root, listener, &localhost.Options{
		Env: map[string]string{"AzureWebJobsStorage": connection, "GORACE": "atexit_sleep_ms=0"}, Executable: binary, Queues: queues,
		Keys: &localhost.Keys{Master: masterKey, Host: hostKey},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-host.Ready()
	return func(method, target, key string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, host.URL()+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			r.Header.Set("X-Functions-Key", key)
		}
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
}

// TestLevelsAreKept: the host forwards a call with a path that it rebuilds after it
// has checked the key. Neither the address of an anonymous route leads to one with
// a key, nor that of any other route to one that needs the master key. Without the
// second output of their functions, all of these calls are served.
func TestLevelsAreKept(t *testing.T) {
	binary, err := storetest.Build("testdata/shop")
	if err != nil {
		t.Fatal(err)
	}
	connection := storetest.OwnStorage(t).ConnectionString()
	paths := []string{"..%%5C%s", "..%%5c%s", "%%252e%%252e/%s", ".%%252E%%5C%s", "x/..%%5C..%%5C..%%5Capi%%5C%s"}
	type attack struct{ method, from, to, key string }
	attacks := []attack{
		{"GET", "open", "queues/orders", ""}, {"GET", "open", "color", ""}, {"GET", "open", "secrets/x", ""}, {"POST", "open", "queues/orders/pause", ""},
		{"GET", "queues", "secrets/x", hostKey}, {"GET", "color", "secrets/x", hostKey}, {"GET", "orders", "open/x", hostKey}, {"GET", "open", "secrets/x", hostKey},
	}
	call := hostShop(t, binary, connection, func(text []byte) []byte { return text })
	for _, a := range attacks {
		for _, path := range paths {
			target := "/api/" + a.from + "/" + fmt.Sprintf(path, a.to)
			status, body := call(a.method, target, a.key)
			if a.from == "open" && strings.HasPrefix(body, `..\`) {
				continue // the open route served it, as a word
			}
			if status != http.StatusNotFound && status != http.StatusUnauthorized {
				t.Errorf("%s %s with the key %q: %d %s", a.method, target, a.key, status, body)
			}
		}
	}
	for _, c := range []struct {
		target, key string
		want        int
	}{
		{"/api/open/a%20b?code=1", "", 200}, {"/api/open/x", hostKey, 200}, {"/api/color", "", 401}, {"/api/color", hostKey, 200},
		{"/api/secrets/x", "", 401}, {"/api/secrets/x", hostKey, 401}, {"/api/secrets/x", masterKey, 200}, {"/api/queues/orders", hostKey, 200}, {"/api/queues/orders", "", 401},
	} {
		if status, body := call("GET", c.target, c.key); status != c.want {
			t.Errorf("GET %s with the key %q: %d %s, want %d", c.target, c.key, status, body, c.want)
		}
	}

	second := regexp.MustCompile(`(?s),\s*\{\s*"type": "queue".*?\}`)
	call = hostShop(t, binary, connection, func(text []byte) []byte { return second.ReplaceAll(text, nil) })
	for _, a := range attacks[:2] {
		for _, path := range paths {
			if status, body := call(a.method, "/api/"+a.from+"/"+fmt.Sprintf(path, a.to), a.key); status != http.StatusOK {
				t.Errorf("%s is no way around keys: %d %s", path, status, body)
			}
		}
	}
	if status, body := call("GET", "/api/open/x", ""); status != http.StatusNotFound || !strings.Contains(body, "kennel functions") {
		t.Errorf("a folder that is older than the program: %d %s", status, body)
	}
}
