package queue

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"kennel/devstore/internal/rest"
)

// ticks are times in steps of 100 ns since 1970.
type ticks int64

const (
	second ticks = 1e7

	// never is the time at which a message without a time to live expires.
	never ticks = math.MaxInt64
)

func ticksOf(t time.Time) ticks { return ticks(t.Unix())*second + ticks(t.Nanosecond()/100) }

// lastDate is how Azure shows that a message does not expire.
var lastDate = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

func (t ticks) time() time.Time {
	if t >= ticksOf(lastDate) {
		return lastDate
	}
	return time.Unix(int64(t/second), int64(t%second)*100)
}

// after returns the time some seconds later. It does not overflow.
func (t ticks) after(seconds int64) ticks {
	if seconds > int64((never-t)/second) {
		return never
	}
	return t + ticks(seconds)*second
}

// A message is one message of a queue.
type message struct {
	id       [16]byte
	text     string
	sequence uint64 // the order of arrival
	place    uint64 // the order among visible messages
	inserted ticks
	expires  ticks
	visible  ticks
	receipt  ticks // changes with each receive and update
	count    int64 // how often it was received

	hidden     bool  // it is in the heap of hidden messages
	slot       int32 // in the heap of hidden or of waiting messages
	expirySlot int32
}

// A queue is a queue with its messages. Each message is in byID, in one of
// waiting and hidden, and in expiring if it expires.
type queue struct {
	metadata map[string]string
	policies []rest.Policy

	byID     map[[16]byte]*message
	peak     int  // of messages in byID since it was made
	waiting  heap // visible messages by place
	hidden   heap // by the time at which they become visible
	expiring heap // by the time at which they expire
}

func newQueue() *queue {
	slot := func(m *message) *int32 { return &m.slot }
	q := &queue{
		waiting: heap{slot: slot, less: func(a, b *message) bool {
			return a.place < b.place || a.place == b.place && a.sequence < b.sequence
		}},
		hidden: heap{slot: slot, less: func(a, b *message) bool {
			return a.visible < b.visible || a.visible == b.visible && a.sequence < b.sequence
		}},
		expiring: heap{slot: func(m *message) *int32 { return &m.expirySlot }, less: func(a, b *message) bool {
			return a.expires < b.expires || a.expires == b.expires && a.sequence < b.sequence
		}},
	}
	q.clear()
	return q
}

// advance removes what has expired and shows what has become visible.
func (q *queue) advance(now ticks) {
	for m := q.expiring.first(); m != nil && m.expires <= now; m = q.expiring.first() {
		q.remove(m)
	}
	for m := q.hidden.first(); m != nil && m.visible <= now; m = q.hidden.first() {
		q.hidden.remove(m)
		m.hidden = false
		q.waiting.push(m)
	}
}

// add adds a message, as hidden: advance shows it when its time has come.
func (q *queue) add(m *message) {
	q.byID[m.id] = m
	q.peak = max(q.peak, len(q.byID))
	m.hidden = true
	q.hidden.push(m)
	if m.expires != never {
		q.expiring.push(m)
	}
}

// hide sets the time from which a message is visible.
func (q *queue) hide(m *message, visible ticks) {
	if m.hidden {
		q.hidden.remove(m)
	} else {
		q.waiting.remove(m)
	}
	m.visible, m.hidden = visible, true
	q.hidden.push(m)
}

func (q *queue) remove(m *message) {
	if m.hidden {
		q.hidden.remove(m)
	} else {
		q.waiting.remove(m)
	}
	if m.expires != never {
		q.expiring.remove(m)
	}
	delete(q.byID, m.id)
	if len(q.byID) == 0 && q.peak > 1024 {
		q.byID, q.peak = make(map[[16]byte]*message), 0 // a map keeps the memory of its largest size
	}
}

// clear removes all messages.
func (q *queue) clear() {
	q.byID, q.peak = make(map[[16]byte]*message), 0
	q.waiting.items, q.hidden.items, q.expiring.items = nil, nil, nil
}

// next returns the first visible messages, which stay.
func (q *queue) next(count int) []*message {
	var messages []*message
	for m := q.waiting.first(); m != nil && len(messages) < count; m = q.waiting.first() {
		q.waiting.remove(m)
		messages = append(messages, m)
	}
	for _, m := range messages {
		q.waiting.push(m)
	}
	return messages
}

// An account holds the queues of an account.
type account struct {
	queues map[string]*queue
	names  []string // sorted
}

func newAccount() *account { return &account{queues: make(map[string]*queue)} }

func (a *account) put(name string, q *queue) {
	if i, found := slices.BinarySearch(a.names, name); !found {
		a.names = slices.Insert(a.names, i, strings.Clone(name))
	}
	a.queues[name] = q
}

func (a *account) remove(name string) {
	if i, found := slices.BinarySearch(a.names, name); found {
		a.names = slices.Delete(a.names, i, i+1)
	}
	delete(a.queues, name)
}

// window is how many places a message may be behind its turn in a shuffled
// order. It is bounded, so that no message waits for ever.
const window = 64

// place returns the place of a message among visible messages.
func place(seed, sequence uint64) uint64 {
	if seed == 0 {
		return sequence
	}
	return sequence + rand.New(rand.NewPCG(seed, sequence)).Uint64N(window)
}

// newID returns the id of a message that arrived at a time that no other
// message has.
func newID(seed uint64, stamp ticks) [16]byte {
	random := rand.NewPCG(seed, uint64(stamp))
	var id [16]byte
	for i, word := range []uint64{random.Uint64(), random.Uint64()} {
		for j := range 8 {
			id[8*i+j] = byte(word >> (8 * j))
		}
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
