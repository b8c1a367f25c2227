package devbus

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// wire carries the bytes of one connection.
//
// Sending never blocks the broker: send appends to a buffer, which pump writes.
//
// A wire can be frozen, which simulates an unplugged cable. The client's bytes
// are still read, because its operating system would buffer them, but they are
// held back, and so are the broker's. Neither side sees an error. When the wire
// thaws, all held bytes arrive, late.
type wire struct {
	nc      net.Conn
	done    chan struct{} // closed with nc
	wake    chan struct{} // capacity 1: wakes pump after a change
	drained func()        // called by pump if full returned true and the wire has room again

	// mu guards the following fields. It may be locked while Broker.mu is
	// held, but not the reverse.
	mu       sync.Mutex
	out      []byte // bytes to be written
	spare    []byte // a written buffer, for reuse
	writing  int    // bytes that pump is writing
	awaited  bool   // full returned true; pump must call drained
	last     bool   // close the connection after out is written
	flooded  bool   // … because the client does not read
	lastRead time.Time
	frozen   bool
	thawed   chan struct{} // closed when the wire thaws
	held     []byte        // bytes read while frozen
	ended    error         // the error that ended reading while frozen
	dead     bool          // cut while frozen
}

func newWire(nc net.Conn, drained func()) *wire {
	return &wire{
		nc: nc, done: make(chan struct{}), wake: make(chan struct{}, 1), drained: drained,
		lastRead: time.Now(), thawed: make(chan struct{}),
	}
}

const (
	// maxWaiting is how many bytes may wait for the client before links stop
	// sending messages. A message that waits is already locked or deleted.
	maxWaiting = 1 << 20
	// maxBacklog is how many bytes may wait before the connection is cut. It has
	// room for the largest message of the premium tier, 100 MB, so that only a
	// client that sends and does not read is cut.
	maxBacklog = 128 << 20
)

// full reports whether links must wait before they send more messages.
func (w *wire) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaited = w.awaited || len(w.out)+w.writing >= maxWaiting
	return w.awaited
}

// send appends to the bytes to be written. appendTo must append whole frames.
func (w *wire) send(appendTo func(b []byte) []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last {
		return
	}
	w.out = appendTo(w.out)
	if len(w.out) > maxBacklog {
		w.out, w.last, w.flooded = nil, true, true
	}
	w.wakePump()
}

func (w *wire) wakePump() {
	select {
	case w.wake <- struct{}{}:
	default: // pump has not seen the previous wake-up yet
	}
}

// finish ends the connection after all waiting bytes are written.
func (w *wire) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = true
	w.wakePump()
}

// cut ends the connection immediately and drops the waiting bytes. If the wire
// is frozen, the client does not notice until it thaws.
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
	w.lastRead = time.Now()
	if w.dead {
		w.closeLocked()
		return
	}
	w.nc.SetReadDeadline(time.Unix(1, 0)) // makes Read return the held bytes
}

// silence returns the time since bytes last arrived.
func (w *wire) silence() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.lastRead)
}

// pump writes until the connection ends.
func (w *wire) pump() {
	for {
		w.mu.Lock()
		frozen, thawed, last := w.frozen, w.thawed, w.last
		var out []byte
		if !frozen {
			out = w.out
			w.out, w.spare, w.writing = w.spare[:0], nil, len(out)
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
		w.spare, w.writing = out[:0], 0
		drained := w.awaited && len(w.out) < maxWaiting/2
		if drained {
			w.awaited = false
		}
		w.mu.Unlock()
		if drained {
			w.drained()
		}
	}
}

// Read is for one goroutine. It blocks while the wire is frozen.
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

// readMore reads from the connection. If the bytes must not arrive yet, it
// holds them back and returns 0 and no error.
func (w *wire) readMore(p []byte) (int, error) {
	n, err := w.nc.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.nc.SetReadDeadline(time.Time{})
		err = nil // the wire has thawed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.frozen && len(w.held) == 0 {
		w.lastRead = time.Now()
		return n, err
	}
	if !w.dead {
		w.held = append(w.held, p[:n]...)
	}
	w.ended = err
	return 0, nil
}
