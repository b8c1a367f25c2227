package servicebus

import (
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/gate"
	"kennel/internal/dev/devbus"
	"kennel/internal/memory"
)

const (
	members = 50
	waiters = 20 // of each member

	// signalGap passes between the signals of a close and of a release. A process
	// reads a gate once in 250 ms because of signals: the read for the close can be
	// put off by that because of the release before, and the one for the release
	// because of that read.
	signalGap = 600 * time.Millisecond

	crowdGate = "hounds"
	bareTopic = "bare"
)

// BenchmarkRelease releases a thousand waiters in fifty processes that share a
// bus over TCP and a store over HTTP. It compares that with the minimum: fifty
// processes receive a message and make one conditional read each.
func BenchmarkRelease(b *testing.B) {
	const rounds = 21
	for b.Loop() {
		c := newCrowd(b)
		c.fanOut(b) // warm up
		c.release(b)
		var bare, full, ratio []float64
		for range rounds {
			base, took := c.fanOut(b), c.release(b)
			bare = append(bare, base.Seconds()*1000)
			full = append(full, took.Seconds()*1000)
			ratio = append(ratio, float64(took)/float64(base))
		}
		c.stop(b)
		for _, samples := range [][]float64{bare, full, ratio} {
			slices.Sort(samples)
		}
		b.Logf("figure: from a release to the last of 1,000 waiters in 50 processes (%.1f ms) | %.2f × the bus's bare fan-out with one read per process (%.1f ms) | ≤ 3 ×",
			full[rounds/2], ratio[rounds/2], bare[rounds/2])
	}
}

// crowd is fifty processes, with the bus and the store that they share.
type crowd struct {
	members       []*exec.Cmd
	commands      []io.WriteCloser
	reports       chan outputLine
	sender        *azservicebus.Sender
	administrator *gate.Gates
}

// outputLine is a line of a member's standard output.
type outputLine struct {
	what string
	at   time.Time
}

func newCrowd(b *testing.B) *crowd {
	bus, err := devbus.Listen(nil)
	check(err)
	b.Cleanup(bus.Close)
	check(bus.CreateTopic(topic, nil))
	check(bus.CreateTopic(bareTopic, nil))
	store := memory.NewValues(nil)
	web := httptest.NewServer(serveStore(store))
	b.Cleanup(web.Close)
	signals, err := Namespace{ConnectionString: bus.ConnectionString()}.OpenSignals(topic, nil)
	check(err)
	b.Cleanup(signals.Close)
	client, err := signals.connector.newClient(sendRetry)
	check(err)
	b.Cleanup(client.close)

	c := &crowd{reports: make(chan outputLine, members)}
	c.sender, err = client.NewSender(bareTopic, nil)
	check(err)
	c.administrator, err = gate.New(store, &gate.Options{Signals: signals})
	check(err)
	_, err = c.administrator.Release(b.Context(), crowdGate, gate.Change{By: "bench"}) // so that its document exists
	check(err)
	for i := range members {
		subscription := fmt.Sprint("member-", i)
		check(bus.CreateSubscription(bareTopic, subscription, &devbus.Settings{AutoDeleteOnIdle: 5 * time.Minute, TimeToLive: time.Minute}))
		c.start(b, bus.ConnectionString(), web.URL, subscription)
	}
	c.await(b, "ready")
	return c
}

// start runs this binary as a member.
func (c *crowd) start(b *testing.B, config ...string) {
	self, err := os.Executable()
	check(err)
	p := exec.CommandContext(b.Context(), self)
	p.Env = append(os.Environ(), memberEnv+"="+strings.Join(config, "\n"))
	p.Stderr = os.Stderr
	commands, err := p.StdinPipe()
	check(err)
	output, err := p.StdoutPipe()
	check(err)
	check(p.Start())
	c.members, c.commands = append(c.members, p), append(c.commands, commands)
	go func() {
		for {
			var what string
			var at int64
			if _, err := fmt.Fscanln(output, &what, &at); err != nil {
				c.reports <- outputLine{what: "exit"}
				return
			}
			c.reports <- outputLine{what, time.Unix(0, at)}
		}
	}()
}

// await waits until every member has sent the same report, and returns the
// latest time in them.
func (c *crowd) await(b *testing.B, what string) (latest time.Time) {
	b.Helper()
	timeout := time.After(time.Minute)
	for range c.members {
		select {
		case r := <-c.reports:
			if r.what != what {
				b.Fatalf("a member reports %q, want %q", r.what, what)
			}
			if r.at.After(latest) {
				latest = r.at
			}
		case <-timeout:
			b.Fatalf("not all members report %q within a minute", what)
		}
	}
	return latest
}

// fanOut returns the time until all bare subscribers have received a message
// and read the store.
func (c *crowd) fanOut(b *testing.B) time.Duration {
	time.Sleep(quiet)
	began := time.Now()
	check(c.sender.SendMessage(b.Context(), newMessage(messageOf(release)), nil))
	return c.await(b, "read").Sub(began.Round(0))
}

// release closes the gate, waits for a thousand waiters, releases them, and
// returns the time until the last one has passed.
func (c *crowd) release(b *testing.B) time.Duration {
	closed, err := c.administrator.Close(b.Context(), crowdGate, gate.Change{By: "bench"})
	check(err)
	for _, to := range c.commands {
		_, err := fmt.Fprintln(to, closed.State.Generation)
		check(err)
	}
	c.await(b, "waiting")
	time.Sleep(signalGap)
	began := time.Now()
	_, err = c.administrator.Release(b.Context(), crowdGate, gate.Change{By: "bench", Reason: "go"})
	check(err)
	return c.await(b, "passed").Sub(began.Round(0))
}

// stop ends all members.
func (c *crowd) stop(b *testing.B) {
	for _, to := range c.commands {
		to.Close()
	}
	c.await(b, "exit")
	for _, p := range c.members {
		check(p.Wait())
	}
}
