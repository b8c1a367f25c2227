package relay_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

// sendsOnly is a fault of sends, while pings and peeks work.
func sendsOnly(f fault) func(op, entity string) fault {
	return func(op, _ string) fault {
		if op == "send" {
			return f
		}
		return none
	}
}

// A primary that answers pings and no sends delays one send in two pings. All
// others go to the backlog without a delay, and sessions keep their order.
func TestTrialDelaysOneSendInTwoPings(t *testing.T) {
	const producers, outage, ping = 4, time.Minute, 5 * time.Second
	for _, f := range []fault{hang, storeHang, storeDrop, internal} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, relay.Options{Interval: atOnce}.WithTimes(0, ping))
				defer p.close(t)
				s := p.syphon(nil)
				ctx, stop := context.WithCancel(t.Context())
				var syphon, all sync.WaitGroup
				syphon.Go(func() { s.Run(ctx) })
				var delayed atomic.Int64
				sent := make([]int, producers)
				began := time.Now()
				for i := range producers {
					all.Go(func() {
						for time.Since(began) < outage+30*time.Second {
							m := text(fmt.Sprintf("%d-%04d", i, sent[i]))
							if i%2 == 0 {
								m = inSession(fmt.Sprintf("%d-%04d", i, sent[i]), fmt.Sprint(i))
							}
							since := time.Now()
							_, err := p.send([]time.Duration{time.Minute, 4 * time.Second}[i%2], "orders", m)
							took := time.Since(since)
							if err == nil {
								sent[i]++
							}
							if since.Sub(began) > 10*time.Second { // the first failover is over
								if err != nil || took > 5*time.Second+50*time.Millisecond {
									t.Errorf("message %d of producer %d took %v: %v", sent[i], i, took, err)
								}
								if took > 50*time.Millisecond {
									delayed.Add(1)
								}
							}
							time.Sleep(400 * time.Millisecond)
						}
					})
				}
				time.Sleep(time.Second)
				p.primary.set(sendsOnly(f))
				time.Sleep(outage)
				p.primary.set(nil)
				all.Wait()
				time.Sleep(time.Minute)
				stop()
				syphon.Wait()
				s.Close(t.Context())
				if most := int64(outage/(2*ping*9/10)) + 1; delayed.Load() > most {
					t.Errorf("%d sends were delayed, more than %d", delayed.Load(), most)
				}
				if state := p.Status()[0].State; state != relay.Healthy {
					t.Errorf("the entity is %v", state)
				}
				for i := range producers {
					n, ok := inOrder(p.primary.got("orders"), fmt.Sprintf("%d-", i))
					if n != sent[i] || i%2 == 0 && !ok {
						t.Errorf("producer %d: %d of %d messages arrived, in order: %v", i, n, sent[i], ok)
					}
				}
			})
		})
	}
}

// Ten senders that start during an outage and begin on trial hold no send for
// longer than an attempt and a second.
func TestStartDuringAnOutage(t *testing.T) {
	for _, f := range []fault{hang, storeHang, storeDrop, internal} {
		synctest.Test(t, func(t *testing.T) {
			var all sync.WaitGroup
			var slow atomic.Int64
			for range 10 {
				p := newPair(t, nil)
				defer p.close(t)
				p.primary.set(always(f))
				p.BeginOnTrial("orders")
				for i := range 40 {
					all.Go(func() {
						time.Sleep(time.Duration(i) * 250 * time.Millisecond)
						began := time.Now()
						receipt, err := p.send(30*time.Second, "orders", text(fmt.Sprint(i)))
						took := time.Since(began)
						if err != nil || !receipt.Backlog || took > 6*time.Second {
							t.Errorf("%v: a send took %v, to the backlog %v: %v", f, took, receipt.Backlog, err)
						}
						if took > time.Second {
							slow.Add(1)
						}
					})
				}
			}
			all.Wait()
			if slow.Load() > 10 {
				t.Errorf("%v: %d sends waited for the primary, want one of each sender", f, slow.Load())
			}
		})
	}
}
