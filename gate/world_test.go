package gate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// world is one stored gate, processes with a waiter each, two administrators,
// and what is on its way between them. Every choice is taken from a copy. The
// store's clock stops, except during a deletion, which takes a second:
// generations are 1, 2, 3 before it, and 1000, 1001 after it.
type world struct {
	stored   Value
	version  int
	clock    time.Time
	deleted  bool         // at most once
	releases int          // ever made
	highest  int64        // generation ever released
	made     []Transition // all changes ever made
	known    int          // those before were made to the gate that was deleted
	late     []lateWrite

	procs  []proc
	admins [2]admin

	faults int // that may still happen
	polls  int // that each process may still make while it relies on signals
}

// proc is a process with one waiter.
type proc struct {
	watch
	waiter *waiter
	seen   int64 // the generation that the waiter came with
	came   int   // releases before it came
	open   bool  // the gate was released when it came
	passed bool

	answered bool // the read under way was answered, with this
	answer   Value
	err      error
	signals  int  // on their way here
	cut      bool // it was cut off, at most once
	poll     int  // polls made while it relies on signals
}

// admin makes changes one after the other. The first administrator uses the
// first process, the second a process without waiters.
type admin struct {
	name    string
	todo    []string // "release" or "close", the first under way
	count   int
	change  change
	publish bool // its signal is to be sent before the next change
}

type lateWrite struct {
	old, new Value
	op       string
}

// violation is thrown where a promise is broken.
type violation string

var errReset = errors.New("connection reset")

// newWorld returns a world in which nothing but the changes in start happened.
func newWorld(start string, after []int64, scripts [2]string, faults int) world {
	w := world{clock: time.UnixMilli(0), faults: faults, polls: faults}
	before := admin{name: "before", todo: strings.Fields(start)}
	for before.begin() {
		for w.step(&before, "") == false {
		}
	}
	s, _ := StateOf("start", w.stored)
	w.procs = make([]proc, len(after))
	for i := range w.procs {
		p := &w.procs[i]
		p.watch = watch{gate: "start", waiting: make(map[*waiter]struct{}), state: State{Gate: "start"}}
		p.waiter, p.seen, p.came, p.open = &waiter{after: after[i]}, after[i], w.releases, s.Released
		p.arrive(p.waiter)
	}
	for i := range w.admins {
		w.admins[i] = admin{name: string(rune('a' + i)), todo: strings.Fields(scripts[i])}
		w.admins[i].begin()
	}
	return w
}

// begin starts the next change, if there is one.
func (a *admin) begin() bool {
	if len(a.todo) == 0 {
		return false
	}
	a.count++
	a.change = change{gate: "start", to: a.todo[0], by: a.name, reason: strconv.Itoa(a.count), op: a.name + strconv.Itoa(a.count)}
	return true
}

func (w world) clone() world {
	w.made = slices.Clone(w.made)
	w.late = slices.Clone(w.late)
	w.procs = slices.Clone(w.procs)
	for i := range w.procs {
		p := &w.procs[i]
		own := *p.waiter
		p.waiter, p.waiting = &own, make(map[*waiter]struct{})
		if !p.passed {
			p.waiting[p.waiter] = struct{}{}
		}
	}
	return w // a pending write of an administrator is replaced, never changed
}

// key identifies a world by what can affect its future, whatever its past.
func (w *world) key() [sha256.Size224]byte {
	b := make([]byte, 0, 512)
	b = appendInts(b, int64(w.version), w.highest, bits(w.deleted, w.stored.Version != ""), int64(w.faults))
	for _, l := range w.late {
		b = append(append(b, l.old.Version...), l.op...)
	}
	for i := range w.admins {
		a := &w.admins[i]
		c := &a.change
		b = appendInts(b, int64(len(a.todo)), bits(a.publish, c.known, c.pending != nil, w.did(c.op)), c.held.ReadAt.UnixMilli())
		b = append(append(b, c.held.Version...), ' ')
		if c.pending != nil {
			b = append(appendInts(b, c.base.ReadAt.UnixMilli()), c.base.Version...)
		}
	}
	for i := range w.procs {
		p := &w.procs[i]
		b = append(b, '|')
		if p.passed {
			continue
		}
		b = appendInts(b, p.waiter.after, p.state.age(), int64(p.poll), int64(p.signals), bits(
			p.waiter.unread, p.waiter.reads == p.reads, p.known, p.parseErr != nil, p.lastErr != nil, p.reads > 0, p.reading, p.overtaken,
			p.wanted, p.signalled, p.receiving, p.since, p.covered, p.cut, p.answered, p.err != nil))
		b = append(append(append(b, p.watch.version...), ' '), p.answer.Version...)
	}
	return sha256.Sum224(b)
}

func bits(flags ...bool) (n int64) {
	for _, f := range flags {
		n <<= 1
		if f {
			n++
		}
	}
	return n
}

func appendInts(b []byte, values ...int64) []byte {
	for _, v := range values {
		b = append(strconv.AppendInt(b, v, 36), ' ')
	}
	return b
}

// did reports whether an operation was done, as far as can be known.
func (w *world) did(op string) bool {
	return slices.ContainsFunc(w.made[w.known:], func(t Transition) bool { return t.Operation == op })
}

func (w *world) load(seen string) (Value, error) {
	if seen != "" && w.stored.Version == seen {
		return Value{}, ErrUnchanged
	}
	f := w.stored
	f.ReadAt = w.clock
	return f, nil
}

// replace compares and swaps, and checks what is written.
func (w *world) replace(old, new Value) (Value, error) {
	if w.stored.Version != old.Version {
		return Value{}, ErrChanged
	}
	before, err := StateOf("start", w.stored)
	if err != nil {
		panic(violation("an unreadable document is replaced without force"))
	}
	after, err := parse("start", new.Text)
	if err != nil {
		panic(violation("an unreadable document is written: " + err.Error()))
	}
	entry := after.History[len(after.History)-1]
	switch {
	case len(after.History) != len(before.History)+1 || !slices.Equal(after.History[:len(before.History)], before.History):
		panic(violation("the history is not continued"))
	case after.Released == before.Released:
		panic(violation("a change is made that changes nothing"))
	case w.did(entry.Operation):
		panic(violation("operation " + entry.Operation + " is done twice"))
	case after.Released && after.Generation <= w.highest && old.ReadAt.Equal(w.clock):
		panic(violation(fmt.Sprintf("generation %d is released after %d", after.Generation, w.highest)))
	}
	w.made = append(w.made, entry)
	if after.Released {
		w.releases++
		w.highest = max(w.highest, after.Generation)
	}
	w.version++
	w.stored = Value{Text: new.Text, Version: strconv.Itoa(w.version)}
	return w.stored, nil
}

// settle notes whether the waiter of process i passes, and checks whether it
// may.
func (w *world) settle(i int, passing []*waiter) {
	if len(passing) == 0 {
		return
	}
	p := &w.procs[i]
	p.passed = true
	if !slices.ContainsFunc(w.made, func(t Transition) bool {
		return t.By == p.state.By && t.Reason == p.state.Reason && t.Generation == p.state.Generation && (t.Change == released) == p.state.Released
	}) {
		panic(violation(fmt.Sprintf("process %d passes with a state that never was: %+v", i, p.state)))
	}
	if p.seen != Now && w.highest <= p.seen || p.seen == Now && w.releases <= p.came && !p.open {
		panic(violation(fmt.Sprintf("process %d starts falsely: it came with generation %d, and %d was the highest", i, p.seen, w.highest)))
	}
}

// step makes the next request of an administrator, and reports whether its
// change is done.
func (w *world) step(a *admin, way string) (done bool) {
	old, new, write, err := a.change.request()
	if err != nil {
		panic(violation("the change fails: " + err.Error()))
	}
	var did verdict
	if !write {
		f, err := w.load("")
		if way != "" {
			f, err = Value{}, errReset
		}
		if did, err = a.change.loaded(f, err); err != nil {
			panic(violation("the change fails: " + err.Error()))
		}
	} else {
		f, err := Value{}, errReset
		switch way {
		case "":
			f, err = w.replace(old, new)
		case "reply lost":
			w.replace(old, new)
		case "delayed":
			w.late = append(w.late, lateWrite{old, new, a.change.op})
		case "false conflict":
			err = ErrChanged
		}
		did = a.change.replaced(f, err)
	}
	if did != changed && did != asItWas {
		return false
	}
	if done := w.did(a.change.op); done != (did == changed) {
		panic(violation(fmt.Sprintf("the change of %s, %s, is reported as made: %t, and it was: %t", a.name, a.change.op, did == changed, done)))
	}
	if a == &w.admins[0] {
		w.settle(0, w.procs[0].learn(a.change.held.Version, a.change.state))
	}
	a.publish = did == changed || a.todo[0] == released
	a.todo = a.todo[1:]
	a.begin()
	return true
}
