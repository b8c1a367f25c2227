package kennel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/azure"
	"kennel/internal/dev/localhost"
	"kennel/internal/parts"
	"kennel/internal/program"
	"kennel/internal/storetest"
	"kennel/internal/worker"
	"kennel/queue"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// shopOrder is the message of testdata/shop.
type shopOrder struct {
	N    int    `json:"n"`
	Kind string `json:"kind,omitempty"`
	Pad  string `json:"pad,omitempty"`
}

// sendOrders sends orders to the three queues of the shop by code, as another
// binary of the same program does.
func sendOrders(t testing.TB, connection string, n int) {
	t.Helper()
	var queues []*Queue[shopOrder]
	sender := func(a *App) error {
		for _, name := range []string{"orders", "mails", "bills"} {
			options := &QueueOptions[shopOrder]{SendOnly: true}
			if name != "orders" {
				options.StorageQueue = "jobs"
			}
			queues = append(queues, NewQueue(a, name, options))
		}
		return nil
	}
	runs(t, connection, sender, func(ctx context.Context) {
		var messages []Message[shopOrder]
		for i := range n {
			o := shopOrder{N: i}
			switch {
			case i%10 == 0:
				o.Kind = "fails once"
			case i%100 == 1:
				o.Pad = strings.Repeat(fmt.Sprint(i*7919), 40_000)
			}
			messages = append(messages, Message[shopOrder]{Body: o})
		}
		for i, q := range queues {
			sent, err := q.SendAll(ctx, func(yield func(Message[shopOrder]) bool) {
				for j := i; j < n; j += len(queues) {
					if !yield(messages[j]) {
						return
					}
				}
			})
			if err != nil || sent[len(sent)-1].ID == "" {
				t.Fatal(err)
			}
		}
	})
}

// runs runs do in a program behind a host that never calls.
func runs(t testing.TB, connection string, p Program, do func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	port, err := storetest.Port()
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	started := func(a *App) error {
		a.OnStart(func(context.Context) (func(context.Context) error, error) { close(begun); return nil, nil })
		return p(a)
	}
	ended := make(chan int, 1)
	running, stop := context.WithCancel(ctx)
	var output strings.Builder
	go func() {
		ended <- execute(running, "shop", started, nil, parts.Outside{
			Environ: []string{"AzureWebJobsStorage=" + connection, fmt.Sprint("FUNCTIONS_CUSTOMHANDLER_PORT=", port)}, Stdout: &output, Stderr: &output,
		})
	}()
	select {
	case <-begun:
		do(ctx)
	case <-ctx.Done():
	}
	stop()
	if code := <-ended; code != 0 {
		t.Fatalf("code %d: %s", code, &output)
	}
}

// readDone reads the lines of a process into done until its end.
func readDone(t *testing.T, p *exec.Cmd, mu *sync.Mutex, done map[int]bool) (wait func()) {
	t.Helper()
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line struct{ Done *int }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Done != nil {
				mu.Lock()
				done[*line.Done] = true
				mu.Unlock()
			}
		}
	}()
	return func() { <-ended; _ = p.Wait() }
}

// TestShopKilled kills the real process of a program again and again, while it
// works as a worker on the messages of three queues: each message is done.
func TestShopKilled(t *testing.T) {
	messages := storetest.Scale(300, 5000)
	binary, err := storetest.Build("testdata/shop")
	if err != nil {
		t.Fatal(err)
	}
	connection := storetest.OwnStorage(t).ConnectionString()
	sendOrders(t, connection, messages)
	var mu sync.Mutex
	done := make(map[int]bool)
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(done)
	}
	kills := 0
	for began := time.Now(); count() < messages; {
		if time.Since(began) > 8*time.Minute {
			t.Fatalf("%d of %d messages are done after %d kills", count(), messages, kills)
		}
		p := exec.Command(binary, "worker", "--listen", "127.0.0.1:0")
		p.Env = []string{"AzureWebJobsStorage=" + connection, "KENNEL_WORKER_LEASE=3s", "KENNEL_IDLE_POLL=1s"}
		wait := readDone(t, p, &mu, done)
		before := count()
		time.Sleep(300 * time.Millisecond)
		for begun := time.Now(); count() == before && count() < messages && time.Since(begun) < 20*time.Second; {
			time.Sleep(10 * time.Millisecond)
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		wait()
		kills++
	}
	queues, err := azure.Account{ConnectionString: connection}.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	checkLetters(t, queues)
	t.Logf("figure: messages of three queues lost, a worker killed -9 every 300 ms (%d messages, %d kills) | %d | 0", messages, kills, messages-count())
}

// checkLetters fails for a dead letter.
func checkLetters(t *testing.T, queues *azure.Queues) {
	t.Helper()
	for _, name := range []string{"orders", "jobs"} {
		letters, err := queues.Receive(t.Context(), name+queue.PoisonSuffix, 32, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range letters { // a copy of a long one whose claim went with the first
			if text, _ := worker.TextOf(m.Body); !strings.Contains(text, "claim of the message is gone") {
				t.Errorf("dead letter %.300s", text)
			}
		}
	}
}

// stageShop writes what the Functions host needs of the shop, with a short wait
// before it delivers again what a killed process had. The host starts a shell
// that ends with the code for a restart, because it stops after three crashes.
func stageShop(t *testing.T, binary string) (root string) {
	t.Helper()
	root = t.TempDir()
	text, err := exec.Command(binary, "describe").Output()
	if err != nil {
		t.Fatal(err)
	}
	var described program.Description
	if err := json.Unmarshal(text, &described); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"host.json": `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"run"},"enableForwardingHttpRequest":true},
			"extensions":{"queues":{"visibilityTimeout":"00:00:01","maxDequeueCount":20,"maxPollingInterval":"00:00:01"}}}`,
		"run": "#!/bin/sh\n'" + binary + "' &\necho '{\"pid\":'$!'}'\nwait $!\nexit 200\n",
	}
	for _, f := range described.Functions {
		files[filepath.Join(f.Name, "function.json")] = f.Text()
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// shopConsole is the output of a host and of the processes that it starts.
type shopConsole struct {
	mu   sync.Mutex
	done map[int]bool // guarded by mu
	pid  int          // of the last process; guarded by mu
	text []byte       // guarded by mu
}

var shopLine = regexp.MustCompile(`"(done|pid)":(\d+)`)

func (c *shopConsole) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p...)
	end := bytes.LastIndexByte(c.text, '\n') + 1
	for _, found := range shopLine.FindAllSubmatch(c.text[:end], -1) {
		n, _ := strconv.Atoi(string(found[2]))
		if string(found[1]) == "pid" {
			c.pid = n
		} else {
			c.done[n] = true
		}
	}
	c.text = slices.Clone(c.text[end:])
	return len(p), nil
}

func (c *shopConsole) state() (done, pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.done), c.pid
}

// TestShopKilledBehindHost is TestShopKilled behind the development host.
func TestShopKilledBehindHost(t *testing.T) {
	storetest.OnlyInProve(t)
	const messages = 5000
	binary, err := storetest.Build("testdata/shop")
	if err != nil {
		t.Fatal(err)
	}
	connection := storetest.OwnStorage(t).ConnectionString()
	sendOrders(t, connection, messages)
	queues, err := azure.Account{ConnectionString: connection}.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	console := &shopConsole{done: make(map[int]bool)}
	host, err := localhost.New(stageShop(t, binary), listener, &localhost.Options{
		Env: map[string]string{"AzureWebJobsStorage": connection, "PATH": os.Getenv("PATH")}, Queues: queues, Console: console,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- host.Run(ctx) }()
	kills, killed := 0, 0
	for done, pid := console.state(); done < messages && ctx.Err() == nil; done, pid = console.state() {
		before := done
		time.Sleep(300 * time.Millisecond)
		if done, _ = console.state(); done == before || pid == killed || pid == 0 {
			continue // let it do something first
		}
		if killProcess(pid) == nil {
			kills, killed = kills+1, pid
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	done, pid := console.state()
	_ = killProcess(pid) // the host has killed its shell alone
	if done != messages {
		t.Errorf("%d of %d messages are done after %d kills", done, messages, kills)
	}
	checkLetters(t, queues)
	t.Logf("figure: messages of three queues lost, a process behind the development host killed -9 every 300 ms (%d messages, %d kills) | %d | 0", messages, kills, messages-done)
}

// TestTwoPrograms: the account belongs to the first program that starts on it.
// Another one ends before its OnStart, and names both.
func TestTwoPrograms(t *testing.T) {
	connection := storetest.OwnStorage(t).ConnectionString()
	nothing := func(*App) error { return nil }
	for range 2 {
		runs(t, connection, nothing, func(context.Context) {})
	}
	begun := false
	var output strings.Builder
	port, err := storetest.Port()
	if err != nil {
		t.Fatal(err)
	}
	code := execute(t.Context(), "billing", func(a *App) error {
		a.OnStart(func(context.Context) (func(context.Context) error, error) { begun = true; return nil, nil })
		return nil
	}, nil, parts.Outside{
		Environ: []string{"AzureWebJobsStorage=" + connection, fmt.Sprint("FUNCTIONS_CUSTOMHANDLER_PORT=", port)}, Stdout: &output, Stderr: &output,
	})
	if text := output.String(); code != 1 || begun || !strings.Contains(text, "billing") || !strings.Contains(text, "shop") {
		t.Errorf("code %d, begun: %t, %s", code, begun, text)
	}
}

func killProcess(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
