package devbus

import (
	"bytes"
	"testing"
	"testing/synctest"

	"kennel/internal/dev/devbus/amqp"
)

// TestSlowReader grants credit for many large messages and does not read. Only
// as many are locked as the wire may hold. When the client reads, it receives
// all of them before its credit is taken back.
func TestSlowReader(t *testing.T) {
	const messages, size = 30, 200_000
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		for range messages {
			m, err := parseMessage(dataMessage(size))
			if err != nil {
				t.Fatal(err)
			}
			b.mu.Lock()
			b.queues["q"].accept([]*content{m})
			b.mu.Unlock()
		}
		c.claim("q")
		c.receiver()
		grant := credit(2, 1000)
		grant.IncomingWindow, grant.Drain = 5000, true
		c.send(grant)
		synctest.Wait()
		if n, _ := b.Counts("q"); n.Locked == 0 || n.Locked > maxWaiting/size+1 {
			t.Errorf("%d messages are locked for a client that does not read", n.Locked)
		}
		for arrived := 0; arrived < messages; {
			f := c.want(amqp.CodeTransfer)
			arrived += bytes.Count(f.Payload, dataMessage(size)[:8])
		}
		for f := c.next(); f.Code != amqp.CodeFlow; f = c.next() {
			if f.Code != amqp.CodeTransfer { // the rest of the last message
				t.Fatalf("got performative %#02x, want a flow", f.Code)
			}
		}
		if n, _ := b.Counts("q"); n != (Counts{Locked: messages}) {
			t.Errorf("after all messages arrived, the counts are %+v", n)
		}
	})
}
