package relay_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
	"kennel/relay"
)

// A sender is killed at each of its requests. What it accepted arrives.
func TestFailureMode10SenderKilled(t *testing.T) { killAtEachRequest(t, "sender") }

// A syphon is killed at each of its requests. What it sent and did not complete
// is sent once more.
func TestFailureMode11SyphonKilled(t *testing.T) { killAtEachRequest(t, "syphon") }

// killAtEachRequest lets a sender and a syphon go through an outage, and kills
// one of them before or after the effect of each request in turn. Another
// process continues. Nothing is lost, the messages of a session that one sender
// sent keep their order, and there are no more duplicates than reported.
func killAtEachRequest(t *testing.T, who string) {
	// What refuse leaves unclear is due to the kill alone, so it shows the most.
	for f, step := range map[fault]int{refuse: 12, storeDrop: 40, hang: 40} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			kills, copies, allowed := 0, 0, int64(0)
			for request, killed := 1, true; killed; request += storetest.Scale(step, 1) {
				for _, before := range []bool{true, false} {
					synctest.Test(t, func(t *testing.T) {
						k := &killedRun{who: who, process: &process{left: request, before: before, killed: make(chan struct{})}, fault: f}
						k.run(t)
						killed = k.process.left <= 0
						if killed {
							kills, copies, allowed = kills+1, copies+k.copies, allowed+k.allowed.Load()
						}
					})
				}
			}
			t.Logf("figure: copies beyond the first, %d kills of a %s while the primary does %v | %d | ≤ %d reported", kills, who, f, copies, allowed)
		})
	}
}

// killedRun is one run with one kill.
type killedRun struct {
	who                string
	process            *process
	fault              fault
	primary, secondary *bus
	lives              [][]string // IDs that each life of the sender sent
	copies             int
	allowed            atomic.Int64
}

const killedMessages = 12

func (k *killedRun) run(t *testing.T) {
	k.primary, k.secondary = newBus("orders"), newBus(queues...)
	ctx, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { k.syphons(t, ctx) })
	time.AfterFunc(2500*time.Millisecond, func() { k.primary.set(always(k.fault)) })
	time.AfterFunc(20*time.Second, func() { k.primary.set(nil) })
	k.senders(t)
	time.Sleep(3 * time.Minute) // locks of a killed syphon end
	stop()
	background.Wait()
	k.check(t)
}

// next returns the process that lives first, and then one that is not killed.
func (k *killedRun) next(who string, life int) *process {
	if who == k.who && life == 0 {
		return k.process
	}
	return nil
}

// until returns a context that ends when a process is killed.
func until(ctx context.Context, p *process) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if p != nil {
		go func() {
			select {
			case <-p.killed:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

func (k *killedRun) senders(t *testing.T) {
	next := 0
	for life := 0; next < killedMessages; life++ {
		p := k.next("sender", life)
		ctx, cancel := until(t.Context(), p)
		x := newSender(t, view{k.primary, p}, view{k.secondary, p}, queues[:2], relay.Options{Interval: new(3 * time.Second)}.WithTimes(0, 3*time.Second))
		k.lives = append(k.lives, nil)
		for next < killedMessages && ctx.Err() == nil {
			id := fmt.Sprintf("%02d", next)
			m := text(id)
			if next%3 > 0 {
				m = inSession(id, "s")
			}
			bounded, end := context.WithTimeout(ctx, 30*time.Second)
			_, err := x.Send(bounded, "orders", m)
			end()
			if err == nil {
				k.lives[life] = append(k.lives[life], id)
				next++
			}
			time.Sleep(time.Second)
		}
		x.Close(context.Background())
		cancel()
		k.allowed.Add(x.Stats().Ambiguous)
	}
}

func (k *killedRun) syphons(t *testing.T, ctx context.Context) {
	for life := 0; ctx.Err() == nil; life++ {
		p := k.next("syphon", life)
		alive, cancel := until(ctx, p)
		s := newSyphon(t, view{k.primary, p}, view{k.secondary, p}, queues[:2], nil)
		for alive.Err() == nil {
			r, _ := s.Pass(alive)
			k.allowed.Add(r.Ambiguous + r.Unsettled)
			select {
			case <-time.After(2 * time.Second):
			case <-alive.Done():
			}
		}
		s.Close(context.Background())
		cancel()
	}
}

func (k *killedRun) check(t *testing.T) {
	what := fmt.Sprintf("%s killed, before %v, %d requests left", k.who, k.process.before, k.process.left)
	got := k.primary.got("orders")
	seen := ids(got)
	k.copies = len(got) - len(seen)
	if len(seen) != killedMessages {
		t.Errorf("%s: %d messages arrived, want %d", what, len(seen), killedMessages)
	}
	if int64(k.copies) > k.allowed.Load() {
		t.Errorf("%s: %d duplicates, %d were reported", what, k.copies, k.allowed.Load())
	}
	for _, q := range queues {
		if active, dead := k.secondary.left(q); active+dead > 0 {
			t.Errorf("%s: %s holds %d messages and %d dead letters", what, q, active, dead)
		}
	}
	// The barrier of a sender ends with its process.
	for _, sent := range k.lives {
		last, first := "", make(map[string]bool)
		for _, m := range got {
			id := m.Properties.MessageID.(string)
			if m.Properties.GroupID == nil || first[id] || !slices.Contains(sent, id) {
				continue
			}
			first[id] = true
			if id < last {
				t.Errorf("%s: message %s of the session came after %s", what, id, last)
			}
			last = id
		}
	}
}
