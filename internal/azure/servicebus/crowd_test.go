package servicebus

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
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
)

// BenchmarkRelease releases a thousand who wait in fifty processes, each with
// a connection of its own to a bus over TCP, and compares that with what the
// bus takes to reach fifty processes that do nothing but subscribe.
func BenchmarkRelease(b *testing.B) {
	for b.Loop() {
		const rounds = 41
		c := newCrowd(b)
		c.signal(b)
		c.release(b)
		var fanOut, ours, ratio []float64
		for range rounds {
			base, took := c.signal(b), c.release(b)
			fanOut = append(fanOut, base.Seconds()*1000)
			ours = append(ours, took.Seconds()*1000)
			ratio = append(ratio, float64(took)/float64(base))
		}
		for _, of := range [][]float64{fanOut, ours, ratio} {
			slices.Sort(of)
		}
		b.Logf("figure: from a release to the last of 1,000 waiters in 50 processes (%.1f ms) | %.2f × the bus's own fan-out to 50 processes (%.1f ms) | ≤ 1.5 ×",
			ours[rounds/2], ratio[rounds/2], fanOut[rounds/2])
		c.stop(b)
	}
}

// crowd is fifty members, each a process, and beside them the bus, one who
// sends to their bare subscriptions, and an administrator of their gate.
type crowd struct {
	members       []*exec.Cmd
	commands      []io.WriteCloser
	said          chan memberSays
	sender        *azservicebus.Sender
	administrator *gate.Gates
	store         *committed
}

// committed notes when the store last said yes to a change.
type committed struct {
	gate.Store
	at atomic.Pointer[time.Time]
}

func (c *committed) Replace(ctx context.Context, name string, old, next gate.Flag) (gate.Flag, error) {
	f, err := c.Store.Replace(ctx, name, old, next)
	if err == nil {
		now := time.Now()
		c.at.Store(&now)
	}
	return f, err
}

const bareTopic = "bare"

func newCrowd(b *testing.B) *crowd {
	b.Helper()
	bus, err := devbus.Listen(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(bus.Close)
	for _, name := range []string{topic, bareTopic} {
		if err := bus.CreateTopic(name, nil); err != nil {
			b.Fatal(err)
		}
	}
	store := memory.NewGates(nil)
	web := httptest.NewServer(serveGate(store))
	b.Cleanup(web.Close)
	c := &crowd{said: make(chan memberSays, members), store: &committed{Store: store}}

	client, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close(context.Background()) })
	if c.sender, err = client.NewSender(bareTopic, nil); err != nil {
		b.Fatal(err)
	}
	signals, err := Namespace{ConnectionString: bus.ConnectionString()}.OpenSignals(topic, ourStore, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(signals.Close)
	if c.administrator, err = gate.New(c.store, &gate.Options{Signals: signals}); err != nil {
		b.Fatal(err)
	}
	for i := range members {
		subscription := fmt.Sprint("member-", i)
		asOurs := &devbus.Settings{AutoDeleteOnIdle: 5 * time.Minute, TimeToLive: time.Minute}
		if err := bus.CreateSubscription(bareTopic, subscription, asOurs); err != nil {
			b.Fatal(err)
		}
		c.start(b, member{Bus: bus.ConnectionString(), Store: web.URL, Subscription: subscription})
	}
	c.hear(b, "ready")
	return c
}

// start makes a member of this very program; TestMain sees to it.
func (c *crowd) start(b *testing.B, m member) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	p := exec.CommandContext(b.Context(), self)
	p.Env = append(os.Environ(), memberEnv+"="+string(text))
	p.Stderr = os.Stderr
	commands, err := p.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	says, err := p.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	c.members, c.commands = append(c.members, p), append(c.commands, commands)
	go func() {
		defer func() { c.said <- memberSays{What: "goodbye"} }()
		for lines := bufio.NewScanner(says); lines.Scan(); {
			var said memberSays
			if err := json.Unmarshal(lines.Bytes(), &said); err != nil {
				said.What = "nonsense: " + lines.Text()
			}
			c.said <- said
		}
	}()
}

// hear waits until all members have said the same, and returns the latest time
// that they have told.
func (c *crowd) hear(b *testing.B, what string) (latest time.Time) {
	b.Helper()
	late := time.After(time.Minute)
	for range c.members {
		var said memberSays
		select {
		case said = <-c.said:
		case <-late:
			b.Fatalf("not all members of the crowd say %q within a minute", what)
		}
		if said.What != what {
			b.Fatalf("a member of the crowd says %q, want %q", said.What, what)
		}
		if said.At.After(latest) {
			latest = said.At
		}
	}
	return latest
}

// signal returns how long it takes until all bare subscribers have heard one
// message, which is a signal as we send it.
func (c *crowd) signal(b *testing.B) time.Duration {
	b.Helper()
	time.Sleep(calm)
	began := time.Now()
	if err := c.sender.SendMessage(b.Context(), newSignalMessage(release, ourStore), nil); err != nil {
		b.Fatal(err)
	}
	return c.hear(b, "heard").Sub(began.Round(0))
}

// release shuts the gate, has a thousand wait, releases it, and returns how
// long after the store's yes the last has passed.
func (c *crowd) release(b *testing.B) time.Duration {
	b.Helper()
	shut, err := c.administrator.Close(b.Context(), crowdGate, gate.Change{By: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	for _, to := range c.commands {
		if _, err := fmt.Fprintln(to, shut.State.Generation); err != nil {
			b.Fatal(err)
		}
	}
	c.hear(b, "waiting")
	time.Sleep(calm)
	if _, err := c.administrator.Release(b.Context(), crowdGate, gate.Change{By: "bench", Reason: "go"}); err != nil {
		b.Fatal(err)
	}
	return c.hear(b, "passed").Sub(c.store.at.Load().Round(0))
}

// stop has all members end, and waits for them.
func (c *crowd) stop(b *testing.B) {
	b.Helper()
	for _, to := range c.commands {
		to.Close()
	}
	c.hear(b, "goodbye")
	for _, p := range c.members {
		if err := p.Wait(); err != nil {
			b.Errorf("a member of the crowd: %v", err)
		}
	}
}
