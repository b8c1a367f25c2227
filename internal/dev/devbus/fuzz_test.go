package devbus

import (
	"testing"
	"testing/synctest"
	"time"
)

// FuzzConnection has a client say anything at all after a proper beginning. It
// must harm nobody: the broker does not panic, ends the connection in its own
// time, and serves the next client.
func FuzzConnection(f *testing.F) {
	frame := func(p body, payload []byte) []byte { return appendFrame(nil, frameAMQP, 0, p, payload) }
	f.Add(frame(endFrame{}, nil))
	f.Add(frame(rawFlow{window: 5, handle: 2, credit: 1 << 31, drain: true, echo: true}, nil))
	f.Add(frame(transferFrame{handle: 1, hasID: true, deliveryID: 7}, dataMessage(10)))
	f.Add(frame(dispositionFrame{receives: true, last: 1<<32 - 1, state: outcome{code: codeModified}}, nil))
	f.Add(frame(attachFrame{name: "x", handle: 5, receives: true, source: terminus{true, "q/$management"}}, nil))
	f.Add(append(frame(detachFrame{handle: 2}, nil), frame(closeFrame{}, nil)...))
	f.Add(frame(transferFrame{handle: 8, hasID: true, deliveryID: 1}, (&rawClient{}).request("my-replies", "put-token")))
	for _, operation := range []string{opRenewLock, opSettle, opPeek, opSchedule, opCancelScheduled, opReceiveDeferred, opRenewSession, opSetState, opListSessions} {
		f.Add(frame(transferFrame{handle: 3, hasID: true, deliveryID: 1}, (&rawClient{}).request("management", operation)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		inBubbleRaw(t, func(t *testing.T, broker *Broker, c *rawClient) {
			c.sender()
			c.receiver()
			c.attach("requests", 3, false, "", "q/$management")
			c.want(codeAttach)
			c.want(codeFlow)
			c.attach("replies", 4, true, "q/$management", "management")
			c.want(codeAttach)
			c.send(rawFlow{next: 1, window: 100, handle: 2, credit: 10})
			c.send(rawFlow{next: 1, window: 100, handle: 4, credit: 10})
			c.transfer(1, 1, dataMessage(10))
			c.want(codeTransfer)

			read := make(chan struct{})
			go func() {
				defer close(read)
				for _, err := c.r.next(); err == nil; _, err = c.r.next() {
				}
			}()
			c.nc.SetWriteDeadline(time.Now().Add(time.Minute))
			c.nc.Write(b) // which the broker may not want to the end
			synctest.Wait()
			c.nc.Close()
			<-read

			next := dialRaw(t, broker)
			defer next.nc.Close()
			next.handshake()
			next.send(openFrame{container: "next"})
			next.want(codeOpen)
		})
	})
}
