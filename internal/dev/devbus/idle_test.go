package devbus

import (
	"testing"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// rest sends heartbeats for a while, and nothing else.
func (c *rawClient) rest(d time.Duration) {
	c.t.Helper()
	for ; d > 0; d -= time.Minute {
		time.Sleep(min(d, time.Minute))
		c.write(amqp.AppendHeartbeat(nil))
	}
}

// wantDetached reads the Detach of a link that was idle, and answers it.
func (c *rawClient) wantDetached(handle uint32, text string) {
	c.t.Helper()
	p := wantBody[*amqp.Detach](c, amqp.CodeDetach)
	if p.Handle != handle || p.Err == nil || p.Err.Condition != amqp.CondDetachForced || p.Err.Description != text {
		c.t.Errorf("got detach of handle %d with %v, want handle %d with %s", p.Handle, p.Err, handle, text)
	}
	c.send(amqp.Detach{Handle: handle})
}

// TestIdleLinks checks that links are detached when they were idle for ten
// minutes, and that the connection is closed five minutes after its last link.
func TestIdleLinks(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		c.sender()
		c.receiver()
		c.send(credit(2, 1)) // a receiver with credit is in use
		c.attach("idle", 3, true, "q", "")
		c.want(amqp.CodeAttach)
		c.attach("named", 4, true, "q", "")
		c.want(amqp.CodeAttach)
		c.ask(20, "q/$management", requestMessage("", opPeek, nil))

		c.rest(9 * time.Minute)
		c.transfer(1, 1, dataMessage(1)) // received on handle 2, which has no credit then
		c.want(amqp.CodeTransfer, amqp.CodeDisposition)
		c.rest(59 * time.Second)
		c.transfer(20, 2, requestMessage("", opPeek, nil, "associated-link-name", "named"))
		c.want(amqp.CodeDisposition)
		c.rest(2 * time.Second)
		c.wantDetached(3, "The link 'idle' is force detached. Code: consumer(link3). Details: AmqpMessageConsumer.IdleTimerExpired: Idle timeout: 00:10:00.")
		c.wantDetached(21, "The link 'replies of q/$management' is force detached. Code: controller(link21). Details: AmqpControlProtocolClient.IdleTimerExpired: Idle timeout: 00:10:00.")
		c.rest(9 * time.Minute)
		c.wantDetached(1, "The link 'sender' is force detached. Code: publisher(link1). Details: AmqpMessagePublisher.IdleTimerExpired: Idle timeout: 00:10:00.")
		c.wantDetached(2, "The link 'receiver' is force detached. Code: consumer(link2). Details: AmqpMessageConsumer.IdleTimerExpired: Idle timeout: 00:10:00.")
		c.send(amqp.Detach{Handle: 20})
		c.want(amqp.CodeDetach)
		c.rest(59 * time.Second)
		c.wantDetached(4, "The link 'named' is force detached. Code: consumer(link4). Details: AmqpMessageConsumer.IdleTimerExpired: Idle timeout: 00:10:00.")
		c.rest(4*time.Minute + 58*time.Second) // the last was detached a second ago
		if b.Connections() != 1 {
			t.Error("the connection ended less than five minutes after its last link")
		}
		time.Sleep(2 * time.Second)
		p := wantBody[*amqp.Close](c, amqp.CodeClose)
		if want := "The connection was closed by container 'devbus' because it did not have any active links in the past 300000 milliseconds."; p.Err == nil || p.Err.Condition != amqp.CondForced || p.Err.Description != want {
			t.Errorf("got close with %v, want %s", p.Err, want)
		}
		c.wantEnd()
	})
	inBubbleRaw(t, func(t *testing.T, _ *Broker, c *rawClient) {
		c.claim("q") // links to $cbs do not count
		time.Sleep(61 * time.Second)
		p := wantBody[*amqp.Close](c, amqp.CodeClose)
		if p.Err == nil || p.Err.Condition != amqp.CondForced {
			t.Errorf("a connection without a link was closed with %v", p.Err)
		}
	})
}
