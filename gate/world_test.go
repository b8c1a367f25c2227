package gate

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// world is everything there is: one stored gate, two processes with a waiter
// each, two administrators, and what is on its way between them. Every choice
// is taken from a copy.
type world struct {
	stored   Flag // no version: absent
	version  int
	life     string       // of what is stored
	releases int64        // how many there ever were
	deleted  bool         // by a person: once is enough
	ops      []string     // all changes ever made
	made     []Transition // the same, also of a gate that was deleted since
	late     []lateWrite

	procs  []proc
	admins [2]admin

	faults int // how many more may happen
	polls  int // how many more polls each process may make while signals are heard
}

// proc is a process with one waiter.
type proc struct {
	watch
	waiter *waiter
	came   int64 // how many releases the waiter has seen
	open   bool  // the gate was released then
	passed bool

	read    bool // the look under way has been answered …
	answer  Flag // … with this
	err     error
	signals []Signal // on their way here
	deaf    bool     // has been cut off: once is enough
	former  bool     // waits for what comes after a generation of the gate that was deleted
	poll    int      // polls made while signals are heard
}

// admin makes changes one after the other.
type admin struct {
	name    string
	todo    []string // "release" or "close", the first under way
	count   int
	change  change
	publish *Signal // to be sent before the next change
}

type lateWrite struct {
	old, new Flag
	op       string
}

var errLost = errors.New("connection reset")

func (a *admin) begin() {
	a.count++
	a.change = change{
		gate: "start", to: a.todo[0], by: a.name, reason: strconv.Itoa(a.count), op: a.name + strconv.Itoa(a.count),
		at: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
	}
}

func (w world) clone() world {
	w.ops = slices.Clone(w.ops)
	w.made = slices.Clone(w.made)
	w.late = slices.Clone(w.late)
	w.procs = slices.Clone(w.procs)
	for i := range w.procs {
		p := &w.procs[i]
		p.signals = slices.Clone(p.signals)
		own := *p.waiter
		if len(p.waiting) > 0 {
			p.waiting = []*waiter{&own}
		}
		p.waiter = &own
	}
	for i := range w.admins {
		if p := w.admins[i].change.pending; p != nil {
			own := *p
			w.admins[i].change.pending = &own
		}
	}
	return w
}

// key tells worlds apart by what can change what happens next: not by how it
// came about, nor by which of two processes that are alike is called first.
func (w *world) key() [sha256.Size224]byte {
	parts := make([]string, len(w.procs))
	for i := range w.procs {
		parts[i] = w.procs[i].key()
	}
	slices.Sort(parts)
	b := make([]byte, 0, 512)
	b = appendInts(b, int64(w.version), w.releases, bits(w.deleted, w.stored.Version != ""), int64(w.faults), int64(len(w.late)))
	b = append(b, w.life...)
	for _, l := range w.late {
		b = append(append(b, l.old.Version...), l.op...)
	}
	for i := range w.admins {
		a := &w.admins[i]
		c := &a.change
		b = append(appendInts(b, int64(len(a.todo)), bits(a.publish != nil, c.known, c.corrupt != nil, c.pending != nil, slices.Contains(w.ops, c.op))), c.held.Version...)
		if c.pending != nil {
			b = append(append(b, ' '), c.base.Version...)
		}
		if a.publish != nil {
			b = append(appendInts(b, a.publish.Generation), a.publish.Life...)
		}
	}
	for _, part := range parts {
		b = append(append(b, '|'), part...)
	}
	return sha256.Sum224(b)
}

func (p *proc) key() string {
	if p.passed {
		return "passed"
	}
	b := make([]byte, 0, 128)
	b = appendInts(b, p.waiter.after, p.state.age(), p.stored.age(), p.peak, p.shown, p.came, int64(p.poll), bits(
		p.waiter.fresh, p.waiter.ahead, p.open, p.former, p.nonsense != nil, p.trouble != nil, p.failed > 0, p.begun, p.known, p.asked, p.hearsay,
		p.up, p.covered, p.looking, p.coverer, p.doubted, p.deaf, p.read && p.looking, p.err != nil))
	for _, text := range []string{p.seen, p.answer.Version, p.life, p.stored.life} {
		b = append(append(b, text...), ' ')
	}
	for _, s := range sorted(p.signals) {
		b = append(appendInts(b, State{Generation: s.Generation, Released: s.Released}.age()), s.Life...)
	}
	return string(b)
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

func sorted(signals []Signal) []Signal {
	signals = slices.Clone(signals)
	slices.SortFunc(signals, func(a, b Signal) int {
		return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(bits(a.Released), bits(b.Released)), cmp.Compare(a.Life, b.Life))
	})
	return signals
}

// replace is the store: it compares and swaps, and keeps the books.
func (w *world) replace(old, new Flag) (Flag, error) {
	if w.stored.Version != old.Version {
		return Flag{}, ErrChanged
	}
	before, after := State{}, State{}
	var err error
	if old.Version != "" {
		if before, err = parse("start", w.stored.Text); err != nil {
			panic(violation("a document that was unreadable is replaced without force"))
		}
	}
	if after, err = parse("start", new.Text); err != nil {
		panic(violation("an unreadable document is written: " + err.Error()))
	}
	entry := after.History[len(after.History)-1]
	switch {
	case len(after.History) != len(before.History)+1 || !slices.Equal(after.History[:len(before.History)], before.History):
		panic(violation("the history is not continued"))
	case after.Released == before.Released:
		panic(violation("a change is made that changes nothing"))
	case slices.Contains(w.ops, entry.Operation):
		panic(violation("operation " + entry.Operation + " is done twice"))
	}
	w.ops = append(w.ops, entry.Operation)
	w.made = append(w.made, entry)
	w.life = after.life
	if after.Released {
		w.releases++
	}
	w.version++
	w.stored = Flag{Text: new.Text, Version: strconv.Itoa(w.version)}
	return w.stored, nil
}

// violation is thrown where a promise is broken.
type violation string

func (w *world) load(seen string) (Flag, error) {
	switch {
	case w.stored.Version == "":
		return Flag{}, ErrNotFound
	case w.stored.Version == seen:
		return Flag{}, ErrUnchanged
	}
	return w.stored, nil
}

// settle notes who passes, and whether they may.
func (w *world) settle(i int) {
	p := &w.procs[i]
	for range p.pass() {
		p.passed = true
		if !slices.ContainsFunc(w.made, func(t Transition) bool {
			return t.By == p.state.By && t.Reason == p.state.Reason && t.At.Equal(p.state.ChangedAt) &&
				t.Generation == p.state.Generation && (t.Change == released) == p.state.Released
		}) {
			panic(violation(fmt.Sprintf("process %d passes with a state that never was: %+v", i, p.state)))
		}
		if w.releases <= p.came && !p.open {
			panic(violation(fmt.Sprintf("process %d starts falsely: has seen %d releases, and there were no more", i, p.came)))
		}
	}
}

// begun returns a world in which nothing has happened yet.
func begun(start string, after []int64, scripts [2][]string, faults, polls int) world {
	w := world{faults: faults, polls: polls}
	var s State
	for i, c := range strings.Fields(start) {
		t := Transition{Change: c, Generation: s.Generation, By: "before", Operation: "BEFORE" + strconv.Itoa(i), At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		if c == released {
			t.Generation++
		}
		d := next(s, t)
		s = d.state("start")
		w.version++
		w.stored = Flag{Text: d.encode(), Version: strconv.Itoa(w.version)}
		w.releases = s.Generation
		w.made = append(w.made, t)
	}
	w.procs = make([]proc, len(after))
	for i := range w.procs {
		p := &w.procs[i]
		p.watch = watch{gate: "start", state: State{Gate: "start"}, stored: State{Gate: "start"}}
		p.waiter = &waiter{after: after[i]}
		p.came, p.open = w.releases, s.Released
		if after[i] != Now {
			p.came, p.open = after[i], false
		}
		p.watch.came(p.waiter)
	}
	for i := range w.admins {
		w.admins[i] = admin{name: string(rune('a' + i)), todo: scripts[i]}
		if len(scripts[i]) > 0 {
			w.admins[i].begin()
		}
	}
	return w
}
