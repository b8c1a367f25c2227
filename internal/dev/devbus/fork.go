package devbus

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

// firstWords is how long a client may take to say the first four bytes.
const firstWords = 10 * time.Second

// fork divides the connections of a listener by how they begin: those that
// speak AMQP, and all others. So one address serves a bus and its
// administration, as that of a namespace does. Closing either branch closes
// the listener.
func fork(l net.Listener) (messages, other net.Listener) {
	gone := make(chan struct{})
	hang := sync.OnceFunc(func() {
		l.Close()
		close(gone)
	})
	a := &branch{addr: l.Addr(), conns: make(chan net.Conn), gone: gone, hang: hang}
	b := &branch{addr: l.Addr(), conns: make(chan net.Conn), gone: gone, hang: hang}
	go func() { // ends with the listener, which both branches close
		defer hang()
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // too many open files, say: that passes
				select {
				case <-time.After(10 * time.Millisecond):
					continue
				case <-gone:
					return
				}
			}
			go handOn(conn, a, b) // ends after the first bytes
		}
	}()
	return a, b
}

// handOn reads how a connection begins, and gives it to its branch.
func handOn(conn net.Conn, messages, other *branch) {
	conn.SetReadDeadline(time.Now().Add(firstWords))
	reader := bufio.NewReader(conn)
	heard := make(chan struct{})
	go func() { // ends with the first bytes, or ends the wait for them
		select {
		case <-heard:
		case <-other.gone:
			conn.Close()
		}
	}()
	begin, err := reader.Peek(4)
	close(heard)
	conn.SetReadDeadline(time.Time{})
	to := other
	if string(begin) == "AMQP" {
		to = messages
	}
	if err != nil {
		conn.Close()
		return
	}
	select {
	case to.conns <- begun{conn, reader}:
	case <-to.gone:
		conn.Close()
	}
}

// begun is a connection whose beginning has been read.
type begun struct {
	net.Conn
	reader *bufio.Reader
}

func (b begun) Read(p []byte) (int, error) { return b.reader.Read(p) }

// branch is a net.Listener for a part of the connections.
type branch struct {
	addr  net.Addr
	conns chan net.Conn
	gone  <-chan struct{}
	hang  func()
}

func (b *branch) Accept() (net.Conn, error) {
	select {
	case conn := <-b.conns:
		return conn, nil
	case <-b.gone:
		return nil, net.ErrClosed
	}
}

func (b *branch) Close() error {
	b.hang()
	return nil
}

func (b *branch) Addr() net.Addr { return b.addr }
