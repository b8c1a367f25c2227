package azure

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/gate"
	"kennel/internal/devbus"
	"kennel/internal/memory"
)

const (
	processes = 50
	waiters   = 20 // of each process
)

// BenchmarkRelease releases a thousand who wait behind fifty processes, each
// with a connection of its own to a bus over TCP, and compares that with what
// the bus takes to reach fifty bare subscribers: alone, and each with as many
// goroutines to wake.
func BenchmarkRelease(b *testing.B) {
	for b.Loop() {
		const rounds = 41
		bus, err := devbus.Listen(nil)
		if err != nil {
			b.Fatal(err)
		}
		alone, waking := newBareCrowd(b, bus, "alone", 0), newBareCrowd(b, bus, "waking", waiters)
		crowd := newCrowd(b, bus)
		alone.signal()
		waking.signal()
		crowd.release(b)
		var fanOut, wakeUp, ours []float64
		for range rounds {
			base, woken, took := alone.signal(), waking.signal(), crowd.release(b)
			fanOut = append(fanOut, float64(took)/float64(base))
			wakeUp = append(wakeUp, float64(took)/float64(woken))
			ours = append(ours, took.Seconds()*1000)
		}
		for _, of := range [][]float64{fanOut, wakeUp, ours} {
			slices.Sort(of)
		}
		b.Logf("figure: from a release to the last of 1,000 waiters behind 50 processes (%.1f ms) | %.2f × the bus's own fan-out | ≤ 1.5 ×",
			ours[rounds/2], fanOut[rounds/2])
		b.Logf("figure: … if its 50 subscribers have 1,000 goroutines to wake, too | %.2f × that | none", wakeUp[rounds/2])
		crowd.stop()
		alone.stop()
		waking.stop()
		bus.Close()
	}
}

// bareCrowd is fifty subscribers that do nothing but wake those behind them.
type bareCrowd struct {
	b      *testing.B
	sender *azservicebus.Sender
	behind int
	heard  chan struct{} // gets one from each subscriber, and from each behind it
	wake   [processes]chan struct{}
	stop   func()
}

func newBareCrowd(b *testing.B, bus *devbus.Local, topic string, behind int) *bareCrowd {
	b.Helper()
	if err := bus.CreateTopic(topic, nil); err != nil {
		b.Fatal(err)
	}
	c := &bareCrowd{b: b, behind: behind, heard: make(chan struct{}, processes*(1+behind))}
	var clients []*azservicebus.Client
	dial := func() *azservicebus.Client {
		client, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString(), nil)
		if err != nil {
			b.Fatal(err)
		}
		clients = append(clients, client)
		return client
	}
	ctx, cancel := context.WithCancel(context.Background())
	var listening sync.WaitGroup
	for i := range processes {
		name := fmt.Sprint("s", i)
		if err := bus.CreateSubscription(topic, name, nil); err != nil {
			b.Fatal(err)
		}
		r, err := dial().NewReceiverForSubscription(topic, name, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
		if err != nil {
			b.Fatal(err)
		}
		listening.Go(func() {
			for ctx.Err() == nil {
				messages, _ := r.ReceiveMessages(ctx, 1, nil)
				for range messages {
					close(c.wake[i])
					c.heard <- struct{}{}
				}
			}
		})
	}
	sender, err := dial().NewSender(topic, nil)
	if err != nil {
		b.Fatal(err)
	}
	c.sender = sender
	c.stop = func() {
		cancel()
		listening.Wait()
		for _, client := range clients {
			client.Close(context.Background())
		}
	}
	return c
}

// signal returns how long it takes until all have heard one message.
func (c *bareCrowd) signal() time.Duration {
	c.b.Helper()
	var sleeping sync.WaitGroup
	for i := range c.wake {
		wake := make(chan struct{})
		c.wake[i] = wake
		for range c.behind {
			sleeping.Add(1)
			go func() {
				sleeping.Done()
				<-wake
				c.heard <- struct{}{}
			}()
		}
	}
	sleeping.Wait()
	runtime.GC() // of what the rounds before have left
	began := time.Now()
	if err := c.sender.SendMessage(c.b.Context(), &azservicebus.Message{Body: encodeSignal(release, ourStore)}, nil); err != nil {
		c.b.Fatal(err)
	}
	for range processes * (1 + c.behind) {
		<-c.heard
	}
	return time.Since(began)
}

// crowd is fifty processes with twenty waiters each, and an administrator
// beside them.
type crowd struct {
	processes     []*gate.Gates
	administrator *gate.Gates
	store         *committed
	stop          func()
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

func newCrowd(b *testing.B, bus *devbus.Local) *crowd {
	b.Helper()
	if err := bus.CreateTopic(topic, nil); err != nil {
		b.Fatal(err)
	}
	c := &crowd{store: &committed{Store: memory.NewGates(nil)}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var opened []*Signals
	open := func() *gate.Gates {
		s, err := Bus{ConnectionString: bus.ConnectionString()}.OpenSignals(topic, ourStore, nil)
		if err != nil {
			b.Fatal(err)
		}
		opened = append(opened, s)
		g, err := gate.New(c.store, &gate.Options{Signals: s})
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
	for range processes {
		g := open()
		running.Go(func() { g.Run(ctx) })
		c.processes = append(c.processes, g)
	}
	c.administrator = open()
	for _, g := range c.processes {
		for !g.Hears() {
			time.Sleep(time.Millisecond)
		}
	}
	c.stop = func() {
		cancel()
		running.Wait()
		for _, s := range opened {
			s.Close()
		}
	}
	return c
}

// release shuts the gate, has a thousand wait, releases it, and returns how
// long after the store's yes the last has passed.
func (c *crowd) release(b *testing.B) time.Duration {
	b.Helper()
	shut, err := c.administrator.Close(b.Context(), "hounds", gate.Change{By: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	var waiting sync.WaitGroup
	last := make([]time.Time, processes*waiters)
	for i := range last {
		waiting.Go(func() {
			waited, err := c.processes[i/waiters].Wait(b.Context(), "hounds", shut.State.Generation, gate.MaxWait)
			if err != nil || !waited.Passed {
				b.Errorf("waiter %d: %+v, %v", i, waited, err)
			}
			last[i] = time.Now()
		})
	}
	for _, g := range c.processes {
		for w := g.Watched()["hounds"]; w.Waiting < waiters || !w.Signals; w = g.Watched()["hounds"] {
			time.Sleep(time.Millisecond)
		}
	}
	runtime.GC()
	if _, err := c.administrator.Release(b.Context(), "hounds", gate.Change{By: "bench", Reason: "go"}); err != nil {
		b.Fatal(err)
	}
	waiting.Wait()
	return slices.MaxFunc(last, time.Time.Compare).Sub(*c.store.at.Load())
}
