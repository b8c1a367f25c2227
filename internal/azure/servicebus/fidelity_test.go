package servicebus

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
	"kennel/relay"
)

// TestBacklogKeepsMessages sends random messages with all sections and types of
// AMQP during an outage, lets a syphon move them home, and compares what arrives
// there, and when, with what was sent.
func TestBacklogKeepsMessages(t *testing.T) {
	random := randomMessage{rand.New(rand.NewPCG(storetest.Seed(t), 1))}
	for range storetest.Scale(1, 20) {
		withPair(t, nil, func(t *testing.T, p *pair) { p.keeps(t, random) })
	}
}

// outing is a message that goes through the backlog.
type outing struct {
	message   *relay.Message
	sent      time.Time
	scheduled time.Time
}

func (p *pair) keeps(t *testing.T, random randomMessage) {
	s, primary := p.sender(t), connect(t, inProcess(p.primary))
	p.primary.Fail(devbus.Fault{Kind: devbus.RefuseDial})
	var sent []outing
	for len(sent) < 50 {
		o := random.outing(int64(len(sent)))
		receipt, err := s.Send(within(t, 10*time.Second), orders, o.message)
		if err != nil || !receipt.Backlog {
			t.Fatalf("sent to the backlog %t, error %v", receipt.Backlog, err)
		}
		sent = append(sent, o)
	}
	time.Sleep(time.Duration(random.Int64N(int64(30 * time.Minute))))
	p.primary.Heal()
	syphon := newSyphon(t, p.p, p.s, p.queues, nil)
	moved := time.Now()
	if result, err := syphon.Pass(t.Context()); result.Moved != int64(len(sent)) || err != nil {
		t.Fatalf("moved %+v, error %v", result, err)
	}
	syphon.Close(context.Background())

	for left := len(sent); left > 0; {
		ds, err := primary.Receive(within(t, time.Hour), orders, 1)
		if err != nil || time.Since(moved) > 2*time.Hour {
			t.Fatalf("%d messages did not arrive, error %v", left, err)
		}
		if len(ds) == 0 {
			continue // a receive may end early
		}
		o := sent[ds[0].Message.ApplicationProperties["number"].(int64)]
		if err := primary.Settle(within(t, time.Second), ds[0], relay.Settlement{Action: relay.Complete}); err != nil {
			t.Fatal(err)
		}
		left--
		o.compare(t, ds[0].Message, moved)
	}
}

// outing returns a message that relay accepts, with a time to live and a
// schedule or without.
func (r randomMessage) outing(number int64) outing {
	o := outing{message: r.message(), sent: time.Now()}
	m := o.message
	if id, ok := m.Properties.MessageID.([]byte); ok {
		m.Properties.MessageID = id[:min(len(id), 128)]
	}
	if m.Properties.AbsoluteExpiryTime != nil {
		m.Properties.AbsoluteExpiryTime = to.Ptr(o.sent.Add(24 * time.Hour).Truncate(time.Millisecond).UTC())
	}
	if m.ApplicationProperties == nil {
		m.ApplicationProperties = make(map[string]any)
	}
	m.ApplicationProperties["number"] = number
	if r.IntN(3) == 0 {
		o.scheduled = o.sent.Add(time.Duration(r.IntN(120)-30) * time.Minute).Truncate(time.Millisecond).UTC()
		if m.MessageAnnotations == nil {
			m.MessageAnnotations = make(map[any]any)
		}
		m.MessageAnnotations["x-opt-scheduled-enqueue-time"] = o.scheduled
	}
	return o
}

// compare reports how a message that arrived differs from the one that was sent.
func (o *outing) compare(t *testing.T, got *relay.Message, moved time.Time) {
	t.Helper()
	want := normalized(o.message)
	want.MessageAnnotations = forwardable(want).MessageAnnotations // without the schedule
	ahead := o.scheduled.After(moved)
	if early := time.Until(o.scheduled); ahead && (early > time.Second || early < -time.Second) {
		t.Errorf("a message scheduled for %v arrived %v before", o.scheduled, early)
	}
	if ttl := want.Header.TTL; ttl > 0 {
		begins := o.sent
		if o.scheduled.After(begins) {
			begins = o.scheduled
		}
		if !ahead {
			ttl -= moved.Sub(begins)
		}
		if off := got.Header.TTL - ttl; off > time.Second || off < -time.Second {
			t.Errorf("the time to live is %v, want %v", got.Header.TTL, ttl)
		}
		want.Header.TTL = got.Header.TTL
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(relay.Message{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the message differs (-sent +arrived):\n%s", diff)
	}
}
