//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"kennel/client"
)

// scriptCrowd draws numbers with many concurrent clients from two handlers on
// one storage: the one of the running "kennel up", and one that is repeatedly
// killed with SIGKILL during its work.
func scriptCrowd(ts *testscript.TestScript, _ bool, args []string) {
	clients, kills := number(ts, args[0]), number(ts, args[1])
	c := crowd{issued: make(map[int64]string)}
	steady, victim := appAt(ts, ts.Getenv("URL")), newInstance(ts, "KENNEL_RANGE_SIZE=200")
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
					c.draw(ctx, "the steady handler", steady, false)
				} else {
					c.draw(ctx, "the killed handler", appAt(ts, victim.url()), true)
				}
			}
		})
	}
	for range kills {
		// Kill after a number of responses, not after a time, so that the
		// handler is always working.
		for until := c.answers.Load() + 20 + rand.Int64N(60); c.answers.Load() < until && c.problem() == ""; {
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
		ts.Fatalf("%d numbers are too few to prove anything", len(c.issued))
	}
}

// crowd records what the clients received.
type crowd struct {
	answers atomic.Int64 // responses of the handler that is killed

	mu     sync.Mutex
	issued map[int64]string // number → who issued it
	wrong  string           // the first violation
}

func (c *crowd) problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrong
}

// draw sends one request. If the handler is killed, the response may be cut
// off; its numbers are lost and must not be issued again.
func (c *crowd) draw(ctx context.Context, who string, app *client.Client, mayDie bool) {
	count := 1 + rand.IntN(3)*rand.IntN(40)
	numbers, err := app.Next(ctx, "crowd", count)
	switch {
	case err != nil && (mayDie || ctx.Err() != nil):
	case err != nil:
		c.record(who, 0, 0, err.Error())
	default:
		c.record(who, numbers.First, numbers.Last, "")
		if mayDie {
			c.answers.Add(1)
		}
	}
}

func (c *crowd) record(who string, first, last int64, problem string) {
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
