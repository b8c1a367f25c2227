package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
)

// A day of outage, with a message a second.
func TestDayOfOutage(t *testing.T) {
	storetest.OnlyInProve(t)
	synctest.Test(t, func(t *testing.T) {
		const sessions = 10
		messages := int(24 * time.Hour / time.Second)
		p := newPair(t, nil)
		defer p.close(t)
		p.primary.set(always(hang))
		var worst time.Duration
		for i := range messages {
			id := fmt.Sprintf("%02d-%05d", i%sessions, i)
			m := inSession(id, id[:2])
			if i%2 == 0 {
				m = text(id)
			}
			began := time.Now()
			if _, err := p.send(time.Minute, "orders", m); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			if i > 60 {
				worst = max(worst, time.Since(began))
			}
			time.Sleep(time.Until(began.Add(time.Second)))
		}
		p.primary.set(nil)
		s := p.syphon(nil)
		defer s.Close(t.Context())
		began := time.Now()
		r := drain(t, s)
		took := time.Since(began)
		got := p.primary.got("orders")
		if n := len(ids(got)); n != messages || r.More {
			t.Errorf("%d of %d messages arrived, %+v", n, messages, r)
		}
		for i := 1; i < sessions; i += 2 {
			if _, ok := inOrder(got, fmt.Sprintf("%02d-", i)); !ok {
				t.Errorf("session %d lost its order", i)
			}
		}
		copies, bound := len(got)-messages, p.Stats().Ambiguous+r.Ambiguous+r.Unsettled
		if int64(copies) > bound || p.Stats().Failovers != 1 {
			t.Errorf("%d copies, %d reported, %+v", copies, bound, p.Stats())
		}
		t.Logf("figure: 24 h of outage, messages of %d lost | %d | 0", messages, messages-len(ids(got)))
		t.Logf("figure: 24 h of outage, copies beyond the first | %d | ≤ %d reported", copies, bound)
		t.Logf("figure: 24 h of outage, the slowest send while failed over | %v | ≤ 60ms", worst)
		if worst > 2*busLatency+50*time.Millisecond {
			t.Errorf("a send took %v", worst)
		}
		t.Logf("drained in %v of virtual time", took)
	})
}
