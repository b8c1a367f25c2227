package relay_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/relay"
)

// text returns a message with an ID.
func text(id string) *relay.Message {
	return &relay.Message{
		Properties: &azservicebus.AMQPAnnotatedMessageProperties{MessageID: id},
		Body:       azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte(id)}},
	}
}

func inSession(id, session string) *relay.Message {
	m := text(id)
	m.Properties.GroupID = &session
	return m
}

// ids counts messages by ID.
func ids(all []*relay.Message) map[string]int {
	count := make(map[string]int)
	for _, m := range all {
		count[fmt.Sprint(m.Properties.MessageID)]++
	}
	return count
}

var queues = relay.BacklogQueues("kennel", 3)

// atOnce lets an entity fail over at the first failure.
var atOnce = new(time.Duration)

func newSender(t testing.TB, primary, secondary relay.Namespace, queues []string, options *relay.Options) *relay.Sender {
	t.Helper()
	s, err := relay.NewSender(primary, secondary, queues, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newSyphon(t testing.TB, primary, secondary relay.Namespace, queues []string, options *relay.Options) *relay.Syphon {
	t.Helper()
	s, err := relay.NewSyphon(primary, secondary, queues, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pair is a primary with two queues, a secondary, and a sender.
type pair struct {
	*relay.Sender
	t                  *testing.T
	primary, secondary *bus
	events             func() []relay.Event
}

// newPair is called in a bubble. The sender is closed when the bubble's test
// ends, and no connection may be left open then.
func newPair(t *testing.T, options *relay.Options) *pair {
	t.Helper()
	var o relay.Options
	if options != nil {
		o = *options
	}
	p := &pair{t: t, primary: newBus("orders", "other"), secondary: newBus(queues...)}
	var mu sync.Mutex
	var events []relay.Event
	o.OnEvent = func(e relay.Event) { mu.Lock(); events = append(events, e); mu.Unlock() }
	p.events = func() []relay.Event { mu.Lock(); defer mu.Unlock(); return append([]relay.Event(nil), events...) }
	p.Sender = newSender(t, p.primary, p.secondary, queues, &o)
	return p
}

func (p *pair) close(t *testing.T) {
	t.Helper()
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if n, m := p.primary.open, p.secondary.open; n != 0 || m != 0 {
		t.Errorf("%d and %d connections are left open", n, m)
	}
}

// send sends with a deadline and reports where the message is.
func (p *pair) send(within time.Duration, entity string, m *relay.Message) (relay.Receipt, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return p.Send(ctx, entity, m)
}

func header(ttl time.Duration) *azservicebus.AMQPAnnotatedMessageHeader {
	return &azservicebus.AMQPAnnotatedMessageHeader{Priority: 4, TTL: ttl}
}

func TestOptions(t *testing.T) {
	options := &relay.Options{Interval: new(-time.Second)}
	_, err := relay.NewSender(nil, nil, nil, options)
	_, err2 := relay.NewSyphon(nil, nil, nil, options)
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "relay.Options.Interval is -1s") {
			t.Errorf("an interval of -1 s gives %v", err)
		}
	}
}
