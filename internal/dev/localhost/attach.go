package localhost

import (
	"context"
	"net"
	"strconv"
	"time"

	"kennel/internal/customhandler"
)

// attach serves with processes that another program starts at a port, one after
// the other, until work ends.
func (s *supervisor) attach(work context.Context) error {
	for {
		p := &process{
			port: s.attached, client: customhandler.NewClient("http://127.0.0.1:" + strconv.Itoa(s.attached)),
			done: make(chan struct{}), replaced: make(chan struct{}),
		}
		if err := p.client.Ready(work); err != nil {
			return nil // work has ended
		}
		s.say("A process answers at port %d.", p.port)
		s.publish(p)
		p.awaitEnd(work)
		p.code = -1
		close(p.done)
		s.publish(nil)
		if work.Err() != nil {
			return nil
		}
		s.say("The process at port %d has ended; waiting for the next one.", p.port)
	}
}

// awaitEnd returns once no process listens at the port. One that a debugger
// has stopped still does.
func (p *process) awaitEnd(ctx context.Context) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.replaced: // a function has exceeded its timeout
			return
		case <-ticker.C:
		}
		conn, err := net.DialTimeout("tcp", "127.0.0.1:"+strconv.Itoa(p.port), time.Second)
		if err != nil {
			return
		}
		conn.Close()
	}
}

// HandlerEnvironment returns the environment of a handler at a port.
func (h *Host) HandlerEnvironment(port int) map[string]string {
	if h.handler == nil {
		return nil
	}
	return h.handler.launcher.environment(port)
}
