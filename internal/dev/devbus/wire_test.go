package devbus

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
)

// TestWireKeepsBytesInOrder checks both directions of a wire that freezes and
// thaws many times.
func TestWireKeepsBytesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2)) // the same in every run
		client, server := net.Pipe()
		w := newWire(server, nil)
		sent := make([]byte, 100_000)
		for i := range sent {
			sent[i] = byte(r.Uint32())
		}
		var group sync.WaitGroup
		group.Go(w.pump)
		group.Go(func() { // sends back all that it reads
			if _, err := io.CopyBuffer(wireWriter{w}, w, make([]byte, 700)); err != nil {
				t.Errorf("reading ended with %v, want EOF", err)
			}
			w.finish()
		})
		var got []byte
		group.Go(func() {
			got, _ = io.ReadAll(io.LimitReader(client, int64(len(sent))))
			client.Close()
		})
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(2000))
			switch r.IntN(4) {
			case 0:
				w.freeze()
			case 1:
				w.thaw()
			}
			if _, err := client.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		w.thaw()
		group.Wait()
		if !bytes.Equal(got, sent) {
			t.Errorf("got %d bytes that differ from those sent", len(got))
		}
	})
}

type wireWriter struct{ *wire }

func (w wireWriter) Write(p []byte) (int, error) {
	w.send(func(b []byte) []byte { return append(b, p...) })
	return len(p), nil
}

// TestBacklogIsBounded sends to a client that does not read.
func TestBacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		w := newWire(server, nil)
		w.send(func([]byte) []byte { return make([]byte, maxBacklog+1) })
		w.send(func(b []byte) []byte { return append(b, "more"...) })
		if len(w.out) > 0 {
			t.Errorf("%d bytes wait for a client that does not read", len(w.out))
		}
		w.pump() // returns
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("reading ended with %v, want EOF", err)
		}
	})
}
