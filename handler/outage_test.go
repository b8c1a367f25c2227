package main

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// outage is a TCP proxy that refuses to serve until it is ended: storage that
// is down and comes back.
type outage struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	over     bool
}

func newOutage(t *testing.T, targetURL string) *outage {
	u, err := url.Parse(targetURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &outage{listener: listener, target: u.Host}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { o.pass(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
	})
	return o
}

func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
}

func (o *outage) pass(conn net.Conn) {
	defer conn.Close()
	o.mu.Lock()
	over := o.over
	o.mu.Unlock()
	if !over {
		return
	}
	target, err := net.Dial("tcp4", o.target)
	if err != nil {
		return
	}
	defer target.Close()
	go func() {
		io.Copy(target, conn)
		target.Close()
	}()
	io.Copy(conn, target)
}

// connectionString leads the blob service through the outage.
func (o *outage) connectionString(direct, blobURL string) string {
	u, _ := url.Parse(blobURL)
	return strings.Replace(direct, u.Host, o.listener.Addr().String(), 1)
}
