package servicebus

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// TestNothingLostInAnyFault sends 2,000 messages, or a sample of a third, while the bus has each kind of
// fault in turn, and the queue is deleted and created again. Every message that
// Send accepted arrives, although a fault may come at any point of a send; but
// for those that arrived in a queue that was deleted before they were received.
func TestNothingLostInAnyFault(t *testing.T) {
	sends := storetest.Scale(400, 2000)
	faults := []devbus.Fault{
		{Kind: devbus.Release}, {Kind: devbus.Modify},
		{Kind: devbus.Reject}, {Kind: devbus.Full},
		{Kind: devbus.CloseBefore}, {Kind: devbus.CloseAfter},
		{Kind: devbus.Silent}, {Kind: devbus.SilentAfter}, {Kind: devbus.Slow, Delay: 8 * time.Second},
		{Kind: devbus.Detach}, {Kind: devbus.DetachAfter}, {Kind: devbus.RefuseAttach},
		{Kind: devbus.Disconnect}, {Kind: devbus.ExpireTokens}, {Kind: devbus.CBS},
		{Kind: devbus.RefuseDial}, {Kind: devbus.BlackHole}, {Kind: devbus.Freeze}, {Kind: devbus.DropHeartbeats},
		{Kind: devbus.Admin}, {Kind: devbus.ClockSkew, Delay: time.Minute},
		{Kind: devbus.DeleteEntity, Entity: orders},
	}
	withPair(t, nil, func(t *testing.T, p *pair) {
		p.syphon(t)
		s := p.sender(t)
		accepted, sent, created := make(map[string]bool), 0, 0
		drain := func(then func()) { // receives all that arrived
			c, err := p.p.connector.newClient(noRetry)
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			r, err := c.NewReceiverForQueue(orders, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close(t.Context())
			for ready(t, p.primary) > 0 {
				received, err := r.ReceiveMessages(within(t, time.Minute), 100, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range received {
					delete(accepted, m.MessageID)
				}
			}
			then()
		}
		for i := range sends {
			if i%5 == 0 {
				p.primary.Heal()
				if p.primary.CreateQueue(orders, nil) == nil {
					created++ // it was deleted
				}
				if i%10 == 0 {
					time.Sleep(25 * time.Second) // back at the primary
				}
				f := faults[i/10%len(faults)]
				if f.Kind == devbus.DeleteEntity { // with the messages in it
					drain(func() { p.primary.Fail(f) })
				} else {
					p.primary.Fail(f)
				}
			}
			id := fmt.Sprint("m", i)
			m := text(id)
			m.Properties = &azservicebus.AMQPAnnotatedMessageProperties{MessageID: id}
			if _, err := s.Send(within(t, 30*time.Second), orders, m); err == nil {
				accepted[id] = true
				sent++
			}
		}
		p.primary.Heal()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		drain(func() {})
		if sent < sends*3/4 || created < sends/400 || len(accepted) > 0 {
			t.Errorf("%d messages of %d accepted ones are lost", len(accepted), sent)
		}
		t.Logf("%d of %d sends were accepted, and %d of these lost", sent, sends, len(accepted))
	})
}
