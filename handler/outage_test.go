package main

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// gate is a TCP proxy that refuses to serve until it is opened: storage that
// is down and comes back.
type gate struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	opened   bool
}

func newGate(t *testing.T, targetURL string) *gate {
	u, err := url.Parse(targetURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: listener, target: u.Host}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { g.pass(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
	})
	return g
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = true
}

func (g *gate) pass(conn net.Conn) {
	defer conn.Close()
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if !opened {
		return
	}
	target, err := net.Dial("tcp4", g.target)
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

// connectionString leads the blob service through the gate.
func (g *gate) connectionString(direct, blobURL string) string {
	u, _ := url.Parse(blobURL)
	return strings.Replace(direct, u.Host, g.listener.Addr().String(), 1)
}
