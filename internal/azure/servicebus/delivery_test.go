package servicebus

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/dev/devbus"
	"kennel/relay"
)

// receive returns the messages that arrive within a second.
func receive(t *testing.T, c relay.Connection, n int) []*relay.Delivery {
	t.Helper()
	ds, err := c.Receive(within(t, time.Second), orders, n)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func receiveOne(t *testing.T, c relay.Connection) *relay.Delivery {
	t.Helper()
	ds := receive(t, c, 1)
	if len(ds) != 1 {
		t.Fatalf("received %d messages, want 1", len(ds))
	}
	return ds[0]
}

func wantCounts(t *testing.T, b *devbus.Broker, want devbus.Counts) {
	t.Helper()
	if got, err := b.Counts(orders); err != nil || got != want {
		t.Errorf("counts %+v and error %v, want %+v", got, err, want)
	}
}

// TestSettle: each action works on the connection that received the message,
// and on a new one after that broke.
func TestSettle(t *testing.T) {
	for _, broken := range []bool{false, true} {
		for action, want := range map[relay.Action]devbus.Counts{
			relay.Complete:   {},
			relay.Abandon:    {Ready: 1},
			relay.DeadLetter: {DeadLetters: 1},
		} {
			withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
				c := connect(t, inProcess(b))
				mustSend(t, c)
				d := receiveOne(t, c)
				if broken {
					b.DropConnections()
					synctest.Wait()
				}
				wantCounts(t, b, devbus.Counts{Locked: 1})
				if err := c.Settle(within(t, time.Second), d, relay.Settlement{Action: action, Reason: "why", Description: "what"}); err != nil {
					t.Errorf("action %d, broken %t: %v", action, broken, err)
				}
				wantCounts(t, b, want)
				if action == relay.DeadLetter {
					ds, err := c.Receive(within(t, time.Second), orders+"/$DeadLetterQueue", 1)
					if err != nil || len(ds) != 1 {
						t.Fatalf("received %d dead letters and error %v", len(ds), err)
					}
					if p := ds[0].Message.ApplicationProperties; p["DeadLetterReason"] != "why" || p["DeadLetterErrorDescription"] != "what" {
						t.Errorf("the dead letter has the properties %v", p)
					}
				}
			})
		}
	}
}

// TestLockLost: to settle or renew a message after its lock ended is an error of
// its own, on the connection that received it and on another one.
func TestLockLost(t *testing.T) {
	for _, broken := range []bool{false, true} {
		withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
			c := connect(t, inProcess(b))
			mustSend(t, c)
			d := receiveOne(t, c)
			time.Sleep(time.Minute + time.Second)
			if broken {
				b.DropConnections()
				synctest.Wait()
			}
			wantClass(t, "complete", c.Settle(within(t, time.Second), d, relay.Settlement{Action: relay.Complete}), relay.LockLost)
			wantClass(t, "renew", c.Renew(within(t, time.Second), d), relay.LockLost)
			wantCounts(t, b, devbus.Counts{Ready: 1})
		})
	}
}

// TestRenew: a renewed lock lasts, and its end is by the clock of this process,
// whatever the clock of the bus shows.
func TestRenew(t *testing.T) {
	for _, skew := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
			if skew != 0 {
				b.Fail(devbus.Fault{Kind: devbus.ClockSkew, Delay: skew})
			}
			c := connect(t, inProcess(b))
			mustSend(t, c)
			d := receiveOne(t, c)
			for i := range 4 {
				if left := time.Until(d.LockedUntil); left < time.Minute-time.Second || left > time.Minute {
					t.Errorf("skew %v: the lock lasts for %v, want a minute", skew, left)
				}
				time.Sleep(50 * time.Second)
				if i == 2 {
					b.DropConnections()
					synctest.Wait()
				}
				if err := c.Renew(within(t, time.Second), d); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Settle(within(t, time.Second), d, relay.Settlement{Action: relay.Complete}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReceiveWaits: without messages a receive waits until its context ends, or
// until its line is replaced, and returns neither messages nor an error.
func TestReceiveWaits(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		c := connect(t, inProcess(b))
		for range 3 {
			began := time.Now()
			if ds, err := c.Receive(within(t, time.Minute), orders, 10); len(ds) > 0 || err != nil || time.Since(began) != time.Minute {
				t.Errorf("received %d messages and error %v after %v", len(ds), err, time.Since(began))
			}
		}
		began := time.Now()
		if ds, err := c.Receive(within(t, 5*time.Minute), orders, 10); len(ds) > 0 || err != nil || time.Since(began) != time.Minute {
			t.Errorf("received %d messages and error %v after %v", len(ds), err, time.Since(began))
		}
		time.AfterFunc(10*time.Second, func() { attempt(t, c) })
		if ds, err := c.Receive(within(t, time.Minute), orders, 10); len(ds) != 1 || err != nil {
			t.Errorf("received %d messages and error %v, want 1", len(ds), err)
		}
	})
}

// TestReceiveFails: a receive reports the end of its connection and a missing
// queue, and the next one works.
func TestReceiveFails(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		c := connect(t, inProcess(b))
		time.AfterFunc(10*time.Second, b.DropConnections)
		_, err := c.Receive(within(t, time.Minute), orders, 1)
		wantClass(t, "receive while the connection ends", err, relay.Unavailable)
		mustSend(t, c)
		receiveOne(t, c)
		time.AfterFunc(10*time.Second, func() { b.Delete(orders) })
		_, err = c.Receive(within(t, time.Minute), orders, 1)
		wantClass(t, "receive while the queue is deleted", err, relay.NotFound)
		_, err = c.Receive(within(t, time.Minute), orders, 1)
		wantClass(t, "receive from a missing queue", err, relay.NotFound)
		_, err = c.Peek(within(t, time.Minute), orders, 1, 1)
		wantClass(t, "peek at a missing queue", err, relay.NotFound)
		synctest.Wait() // until the sender has learnt that it was detached: a send before that is unclear
		if err := b.CreateQueue(orders, nil); err != nil {
			t.Fatal(err)
		}
		mustSend(t, c)
		receiveOne(t, c)
	})
}

// TestReceiveCompetes: concurrent receives, on one connection and on several,
// share the messages.
func TestReceiveCompetes(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		one, two := connect(t, inProcess(b)), connect(t, inProcess(b))
		for range 100 {
			mustSend(t, one)
		}
		results := make(chan int)
		for i := range 4 {
			go func() {
				n := 0
				for range 10 {
					ds, err := []relay.Connection{one, two}[i%2].Receive(within(t, 100*time.Millisecond), orders, 10)
					if err != nil {
						t.Error(err)
					}
					n += len(ds)
				}
				results <- n
			}()
		}
		sum := 0
		for range 4 {
			sum += <-results
		}
		if sum != 100 {
			t.Errorf("received %d messages, want 100", sum)
		}
	})
}

// TestPeek: a peek returns messages in order from a number, also locked ones.
func TestPeekOrder(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		c := connect(t, inProcess(b))
		for range 5 {
			mustSend(t, c)
			time.Sleep(time.Second)
		}
		receive(t, c, 2)
		for from, want := range map[int64][]int64{1: {1, 2, 3}, 4: {4, 5}, 6: nil} {
			ds, err := c.Peek(within(t, time.Second), orders, from, 3)
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, d := range ds {
				got = append(got, d.Sequence)
			}
			if !slices.Equal(got, want) {
				t.Errorf("from %d: %v, want %v", from, got, want)
			}
			if from == 4 && ds[1].Enqueued.Sub(ds[0].Enqueued) != time.Second {
				t.Errorf("enqueued at %v and %v, want a second between", ds[0].Enqueued, ds[1].Enqueued)
			}
		}
	})
}

// TestUnreadable: a message on which the SDK panics is reported, and does not
// stop the others if they are received one at a time.
func TestUnreadable(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		c := connect(t, inProcess(b))
		for i := range 5 {
			m := text(fmt.Sprint(i))
			if i == 2 {
				m.ApplicationProperties = map[string]any{"DeadLetterReason": int64(5)}
			}
			if err := c.Send(within(t, time.Second), orders, m); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.Receive(within(t, time.Second), orders, 5)
		wantClass(t, "receive", err, relay.Unreadable)
		_, err = c.Peek(within(t, time.Second), orders, 1, 5)
		wantClass(t, "peek", err, relay.Unreadable)
		time.Sleep(time.Minute + time.Second)
		var got []string
		for range 6 {
			ds, err := c.Receive(within(t, time.Second), orders, 1)
			if err != nil {
				wantClass(t, "receive", err, relay.Unreadable)
			}
			for _, d := range ds {
				got = append(got, string(d.Message.Body.Data[0]))
				if err := c.Settle(within(t, time.Second), d, relay.Settlement{Action: relay.Complete}); err != nil {
					t.Error(err)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"0", "1", "3", "4"}) {
			t.Errorf("received %v, want all but the third", got)
		}
	})
}

// TestSettleUnderFaults: a settlement without an answer ends in time.
func TestSettleUnderFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		fault devbus.Fault
		want  relay.Class
		after time.Duration
	}{
		"no answer":         {devbus.Fault{Kind: devbus.Silent, On: devbus.OnSettle}, relay.Unavailable, settleTimeout},
		"internal error":    {devbus.Fault{Kind: devbus.Reject, On: devbus.OnSettle}, relay.Unavailable, settleTimeout},
		"connection closed": {devbus.Fault{Kind: devbus.CloseBefore, On: devbus.OnSettle}, relay.Unavailable, 0},
		"frozen":            {devbus.Fault{Kind: devbus.Freeze}, relay.Unavailable, settleTimeout},
		"lock lost":         {devbus.Fault{Kind: devbus.Reject, On: devbus.OnSettle, Condition: "com.microsoft:message-lock-lost"}, relay.LockLost, 0},
	} {
		withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
			c := connect(t, inProcess(b))
			mustSend(t, c)
			d := receiveOne(t, c)
			b.Fail(tt.fault)
			began := time.Now()
			wantClass(t, name, c.Settle(within(t, 10*time.Second), d, relay.Settlement{Action: relay.Complete}), tt.want)
			if took := time.Since(began); took < tt.after || took > tt.after+100*time.Millisecond {
				t.Errorf("%s: it took %v, want %v", name, took, tt.after)
			}
			b.Heal()
			if tt.want == relay.Unavailable && tt.fault.Kind != devbus.Freeze {
				if err := c.Settle(within(t, 2*time.Second), d, relay.Settlement{Action: relay.Complete}); err != nil {
					t.Errorf("%s: settle again: %v", name, err)
				}
			}
		})
	}
}

// TestForeignHandle: a delivery of another kind of connection is refused.
func TestForeignHandle(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		c := connect(t, inProcess(b))
		wantClass(t, "settle", c.Settle(t.Context(), &relay.Delivery{}, relay.Settlement{Action: relay.Complete}), relay.Invalid)
		wantClass(t, "renew", c.Renew(t.Context(), &relay.Delivery{Handle: &azservicebus.ReceivedMessage{}}), relay.Invalid)
	})
}
