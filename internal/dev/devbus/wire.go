package devbus

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// wire is one connection's bytes: those that came in, and those that wait to
// go out.
//
// It never makes the broker wait: what is to be sent goes into a buffer that
// pump empties. It can be frozen, as if a cable were pulled out. Then the
// client's bytes are still taken, since its own system would buffer them, but
// held back, and so is what the broker sends; neither side learns anything.
// When the wire thaws, all of it arrives after all, late.
type wire struct {
	nc   net.Conn
	done chan struct{} // closed with nc
	wake chan struct{} // of size 1: something changed for pump

	// mu guards what follows. It may be taken while Broker.mu is held, not
	// the other way round.
	mu     sync.Mutex
	out    []byte // waits to be written
	spare  []byte // what was written before, for reuse
	last   bool   // nothing comes after out
	heard  time.Time
	frozen bool
	thawed chan struct{} // closed when the wire thaws
	held   []byte        // what came in while it was frozen
	ended  error         // how reading ended while it was frozen
	dead   bool          // cut while it was frozen
}

func newWire(nc net.Conn) *wire {
	return &wire{
		nc: nc, done: make(chan struct{}), wake: make(chan struct{}, 1),
		heard: time.Now(), thawed: make(chan struct{}),
	}
}

// maxBacklog bounds what may wait for a client that does not read. Credit and
// windows keep honest clients far below.
const maxBacklog = 64 << 20

// send appends to what is to be written. A frame is appended as a whole.
func (w *wire) send(appendTo func(b []byte) []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last {
		return
	}
	w.out = appendTo(w.out)
	if len(w.out) > maxBacklog {
		w.out, w.last = nil, true
	}
	w.nudge()
}

func (w *wire) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // pump has yet to see the nudge before
	}
}

// finish has the connection end when all that waits is written.
func (w *wire) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = true
	w.nudge()
}

// cut ends the connection at once, and what waits is lost. Behind a frozen
// wire the client does not notice until it thaws.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen {
		w.dead, w.held = true, nil
		return
	}
	w.closeLocked()
}

// kill ends the connection, frozen or not.
func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeLocked()
}

func (w *wire) closeLocked() {
	select {
	case <-w.done:
	default:
		close(w.done)
		w.nc.Close()
	}
}

func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = true
}

func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.frozen {
		return
	}
	w.frozen = false
	close(w.thawed)
	w.thawed = make(chan struct{})
	w.heard = time.Now()
	if w.dead {
		w.closeLocked()
		return
	}
	w.nc.SetReadDeadline(time.Unix(1, 0)) // Read is to look at what was held
}

// silence is how long nothing has come in.
func (w *wire) silence() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.heard)
}

// pump writes until the connection ends.
func (w *wire) pump() {
	for {
		w.mu.Lock()
		frozen, thawed, last := w.frozen, w.thawed, w.last
		var out []byte
		if !frozen {
			out = w.out
			w.out, w.spare = w.spare[:0], nil
		}
		w.mu.Unlock()

		switch {
		case frozen:
			select {
			case <-thawed:
			case <-w.done:
				return
			}
			continue
		case len(out) > 0:
			if _, err := w.nc.Write(out); err != nil {
				w.cut()
				return
			}
		case last:
			w.cut()
			return
		default:
			select {
			case <-w.wake:
			case <-w.done:
				return
			}
		}
		w.mu.Lock()
		w.spare = out[:0]
		w.mu.Unlock()
	}
}

// Read is for one goroutine. It blocks through a frozen wire.
func (w *wire) Read(p []byte) (int, error) {
	for {
		w.mu.Lock()
		frozen, thawed, ended := w.frozen, w.thawed, w.ended
		if !frozen && len(w.held) > 0 {
			n := copy(p, w.held)
			w.held = w.held[n:]
			w.mu.Unlock()
			return n, nil
		}
		w.mu.Unlock()

		switch {
		case ended == nil:
			if n, err := w.readMore(p); n > 0 || err != nil {
				return n, err
			}
		case !frozen:
			return 0, ended
		default:
			select {
			case <-thawed:
			case <-w.done:
				return 0, ended
			}
		}
	}
}

// readMore returns nothing if what it read is not to arrive yet.
func (w *wire) readMore(p []byte) (int, error) {
	n, err := w.nc.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.nc.SetReadDeadline(time.Time{})
		err = nil // the wire has thawed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.frozen && len(w.held) == 0 {
		w.heard = time.Now()
		return n, err
	}
	if !w.dead {
		w.held = append(w.held, p[:n]...)
	}
	w.ended = err
	return 0, nil
}
