//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptCrowd draws numbers with many clients at once from two handlers on one
// storage: the one behind the running "kennel up", and another one that is
// killed -9 in the middle of its work, again and again.
func scriptCrowd(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: crowd CLIENTS KILLS STORAGE")
	}
	clients, err := strconv.Atoi(args[0])
	ts.Check(err)
	kills, err := strconv.Atoi(args[1])
	ts.Check(err)

	victim := &victim{handler: ts.Getenv("HANDLER"), storage: args[2]}
	c := crowd{issued: make(map[int64]string), victim: victim}
	ctx, stop := context.WithCancel(context.Background())
	var drawing sync.WaitGroup
	defer drawing.Wait()
	defer stop()

	ts.Check(victim.start())
	defer func() { victim.kill() }()
	for i := range clients {
		drawing.Go(func() {
			for ctx.Err() == nil {
				if i%2 == 0 {
					c.draw(ctx, "the steady handler", ts.Getenv("URL"), false)
				} else {
					c.draw(ctx, "the killed handler", victim.url(), true)
				}
			}
		})
	}
	for range kills {
		// Killed after some answers, not after some time: always amid work.
		for until := victim.answers.Load() + 20 + rand.Int64N(60); victim.answers.Load() < until && c.problem() == ""; {
			ts.Check(pause(ctx, time.Millisecond))
		}
		victim.kill()
		ts.Check(victim.start())
	}
	stop()
	drawing.Wait()
	if problem := c.problem(); problem != "" {
		ts.Fatalf("%s", problem)
	}
	ts.Logf("%d clients drew %d numbers over %d kills, all different", clients, len(c.issued), kills)
	if len(c.issued) < clients*kills {
		ts.Fatalf("%d numbers are too few to have shown anything", len(c.issued))
	}
}

// crowd is what the clients were given.
type crowd struct {
	victim *victim

	mu     sync.Mutex
	issued map[int64]string // number → who issued it
	wrong  string           // the first thing that must not be
}

func (c *crowd) problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrong
}

// draw makes one request. A handler that dies may break its answer off; the
// numbers in it are lost, and must not be issued again.
func (c *crowd) draw(ctx context.Context, who, base string, mayDie bool) {
	count := 1 + rand.IntN(3)*rand.IntN(40)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/api/sequences/crowd/next?count=%d", base, count), nil)
	if err != nil {
		c.answered(who, 0, 0, err.Error())
		return
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		if !mayDie && ctx.Err() == nil {
			c.answered(who, 0, 0, err.Error())
		}
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil && mayDie || ctx.Err() != nil {
		return
	}
	var numbers struct{ First, Last, Count int64 }
	switch err := json.Unmarshal(text, &numbers); {
	case resp.StatusCode == http.StatusServiceUnavailable:
	case resp.StatusCode != http.StatusOK || err != nil || numbers.Count != int64(count) || numbers.Last-numbers.First+1 != numbers.Count:
		c.answered(who, 0, 0, fmt.Sprintf("%s answered %d %s to count=%d", who, resp.StatusCode, text, count))
	default:
		c.answered(who, numbers.First, numbers.Last, "")
		if mayDie {
			c.victim.answers.Add(1)
		}
	}
}

func (c *crowd) answered(who string, first, last int64, problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := first; problem == "" && n <= last; n++ {
		if other, taken := c.issued[n]; taken {
			problem = fmt.Sprintf("number %d was issued by %s and by %s", n, other, who)
		}
		c.issued[n] = who
	}
	if c.wrong == "" {
		c.wrong = problem
	}
}

// victim is a handler process that is killed and started again.
type victim struct {
	handler, storage string
	answers          atomic.Int64
	address          atomic.Value // string
	cmd              *exec.Cmd
}

func (v *victim) url() string { return v.address.Load().(string) }

func (v *victim) start() error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	listener.Close()
	v.cmd = exec.Command(v.handler)
	v.cmd.Env = []string{"FUNCTIONS_CUSTOMHANDLER_PORT=" + port, "AzureWebJobsStorage=" + v.storage, "KENNEL_RANGE_SIZE=200"}
	v.address.Store("http://127.0.0.1:" + port)
	return v.cmd.Start()
}

// kill ends the process without notice, and waits until it is gone.
func (v *victim) kill() {
	v.cmd.Process.Kill()
	v.cmd.Wait()
}
