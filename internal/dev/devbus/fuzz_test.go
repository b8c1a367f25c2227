package devbus

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/dev/devbus/amqp"
)

// FuzzConnection sends arbitrary bytes after a valid start of a connection. The
// broker must not panic, and must serve the next client.
func FuzzConnection(f *testing.F) {
	frame := func(p amqp.Performative, payload []byte) []byte {
		return amqp.AppendFrame(nil, amqp.KindAMQP, 0, p, payload)
	}
	flow := credit(2, 1<<31)
	flow.Drain, flow.Echo = true, true
	f.Add(frame(flow, nil))
	f.Add(frame(amqp.End{}, nil))
	f.Add(frame(amqp.Transfer{Handle: 1, HasID: true, DeliveryID: 7}, dataMessage(10)))
	f.Add(append(frame(amqp.Transfer{Handle: 1, HasID: true, More: true}, dataMessage(10)), frame(amqp.Transfer{Handle: 1, Aborted: true}, nil)...))
	f.Add(frame(amqp.Disposition{Receiver: true, Last: 1<<32 - 1, State: amqp.Outcome{Code: amqp.CodeModified}}, nil))
	f.Add(frame(amqp.Attach{Name: "x", Handle: 5, Receiver: true, Source: &amqp.Source{Address: "q/$management"}}, nil))
	f.Add(append(frame(amqp.Detach{Handle: 2}, nil), frame(amqp.Close{}, nil)...))
	f.Add(frame(amqp.Transfer{Handle: 8, HasID: true, DeliveryID: 1}, requestMessage("my-replies", "put-token", nil)))
	for _, operation := range []string{opRenewLock, opSettle, opPeek, opSchedule, opCancelScheduled, opReceiveDeferred, opRenewSession, opSetState, opListSessions} {
		f.Add(frame(amqp.Transfer{Handle: 3, HasID: true, DeliveryID: 1}, requestMessage("management", operation, nil)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		inBubbleRaw(t, func(t *testing.T, broker *Broker, c *rawClient) {
			c.sender()
			c.receiver()
			c.attach("requests", 3, false, "", "q/$management")
			c.want(amqp.CodeAttach, amqp.CodeFlow)
			c.attach("replies", 4, true, "q/$management", "management")
			c.want(amqp.CodeAttach)
			c.send(credit(2, 10))
			c.send(credit(4, 10))
			c.transfer(1, 1, dataMessage(10))
			c.want(amqp.CodeTransfer)

			read := make(chan struct{})
			go func() {
				defer close(read)
				for _, err := c.r.Next(); err == nil; _, err = c.r.Next() {
				}
			}()
			c.nc.SetWriteDeadline(time.Now().Add(time.Minute))
			c.nc.Write(b) // the broker may stop reading before the end
			synctest.Wait()
			c.nc.Close()
			<-read

			next := newRawClient(t, broker.Dial())
			defer next.nc.Close()
			next.handshake()
			next.send(amqp.Open{Container: "next"})
			next.want(amqp.CodeOpen)
		})
	})
}

// FuzzMessage checks that a message leaves the broker unchanged, except for the
// properties that the broker sets.
func FuzzMessage(f *testing.F) {
	f.Add(uint32(0), dataMessage(3))
	f.Add(uint32(0), section(dataMessage(3), amqp.SectionFooter, amqp.Map{amqp.Symbol("f"), "x"}))
	f.Add(uint32(0), section(nil, amqp.SectionApplication, amqp.Map{"a", int64(1), "a", "twice"}))
	f.Add(uint32(0), section(nil, amqp.SectionProperties, []any{"id", nil, nil, nil, nil, nil, nil, nil, nil, nil, "group"}))
	f.Add(uint32(0), section(nil, amqp.SectionAnnotations, amqp.Map{amqp.Symbol(annotationScheduled), time.Unix(1, 0), amqp.Symbol(annotationState), "odd"}))
	f.Add(uint32(formatBatch), section(nil, amqp.SectionData, dataMessage(3)))
	f.Fuzz(func(t *testing.T, format uint32, b []byte) {
		batch, err := parseTransfer(format, b)
		if err != nil {
			return
		}
		for _, c := range batch {
			m := &message{content: c.with([]property{{"added", int32(1)}, {"a", "changed"}}), state: stateLocked}
			again, err := parseMessage(m.render(nil, true))
			if err != nil {
				t.Fatalf("cannot parse a rendered message: %v", err)
			}
			if !bytes.Equal(again.properties, c.properties) || !bytes.Equal(again.body, c.body) || !cmp.Equal(again.id, c.id) {
				t.Errorf("the message changed: got %+v, want %+v", again, c)
			}
			_, value, _ := amqp.DecodeDescriptor(again.app)
			v, _, err := amqp.Decode(value)
			if got, _ := v.(amqp.Map); err == nil && (got.Get("added") != int32(1) || got.Get("a") != "changed") {
				t.Errorf("got properties %v, want the added one and the changed one", got)
			}
		}
	})
}
