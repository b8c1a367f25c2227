package gate

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// explorer takes every choice from every world.
type explorer struct {
	seen  map[[sha256.Size224]byte]bool
	steps []string
	ends  int // worlds in which nothing can happen any more
	fail  func(why string)
	done  bool
}

// move is a choice: what it is called, whether it is a fault, and what it does.
type move func(name string, fault bool, do func(*world))

func (e *explorer) explore(w world) {
	key := w.key()
	if e.done || e.seen[key] {
		return
	}
	e.seen[key] = true
	moved := false
	try := func(name string, fault bool, do func(v *world)) {
		if e.done || fault && w.faults == 0 {
			return
		}
		moved = moved || !fault
		v := w.clone()
		if fault {
			v.faults--
			name += " (fault)"
		}
		e.steps = append(e.steps, name)
		if e.safely(func() { do(&v) }) {
			e.explore(v)
		}
		e.steps = e.steps[:len(e.steps)-1]
	}
	for i := range w.procs {
		w.procMoves(i, try)
	}
	for i := range w.admins {
		w.adminMoves(i, try)
	}
	for i, l := range w.late {
		try("late write "+l.op+" arrives", false, func(v *world) {
			v.late = slices.Delete(v.late, i, i+1)
			v.replace(l.old, l.new)
		})
	}
	if w.stored.Version != "" && !w.deleted {
		try("an operator deletes the gate", true, func(v *world) {
			v.stored, v.deleted, v.clock, v.known = Value{}, true, time.UnixMilli(1000), len(v.made)
		})
	}
	if !moved {
		e.ends++
		e.safely(func() { w.clone().end() })
	}
}

// safely reports whether do kept every promise.
func (e *explorer) safely(do func()) (kept bool) {
	defer func() {
		if broken, ok := recover().(violation); ok {
			e.done = true
			e.fail(string(broken) + ", after:\n" + strings.Join(e.steps, "\n"))
		}
	}()
	do()
	return !e.done
}

// end is where nothing happens any more but polls. A waiter for a release that
// has happened is left behind then.
func (w world) end() {
	now, _ := StateOf("start", w.stored)
	for i := range w.procs {
		p := &w.procs[i]
		if w.polls > 0 { // the poll that comes in any case
			f, err := w.load(p.begin())
			w.settle(i, p.afterRead(f, err))
		}
		if !p.passed && p.waiter.after < now.Generation {
			panic(violation(fmt.Sprintf("process %d is left behind: it waits for a release after %d, and there was %d", i, p.waiter.after, now.Generation)))
		}
	}
}

// procMoves are what can happen to process i.
func (w *world) procMoves(i int, try move) {
	p := &w.procs[i]
	if p.passed {
		return
	}
	name := fmt.Sprintf("process %d ", i)
	if !p.receiving {
		try(name+"begins to receive signals", false, func(v *world) { v.procs[i].listens(true) })
	} else {
		if !p.cut {
			try(name+"is cut off", true, func(v *world) {
				v.procs[i].listens(false)
				v.procs[i].cut, v.procs[i].signals = true, 0
			})
		}
		if !p.signalled {
			try(name+"receives a forged signal", true, func(v *world) { v.procs[i].signalled = true })
		}
	}
	if p.signals > 0 {
		try(name+"receives a signal", false, func(v *world) {
			v.procs[i].signals--
			v.procs[i].signalled = true
		})
		try(name+"loses a signal", true, func(v *world) { v.procs[i].signals-- })
	}
	switch {
	case !p.reading:
		polls := p.covered && p.lastErr == nil && !p.wanted && !p.signalled
		if polls && p.poll >= w.polls {
			return
		}
		try(name+"reads", false, func(v *world) {
			p := &v.procs[i]
			if polls {
				p.poll++
			}
			p.begin()
			p.answered, p.answer, p.err = false, Value{}, nil
		})
	case !p.answered:
		answer := func(f Value, err error) func(v *world) {
			return func(v *world) { v.procs[i].answered, v.procs[i].answer, v.procs[i].err = true, f, err }
		}
		f, err := w.load(p.watch.version)
		try(name+"is answered by the store", false, answer(f, err))
		try(name+"is not answered", true, answer(Value{}, errReset))
		try(name+"is answered with a corrupt document", true, answer(Value{Text: `{"version":2,"released":true,"generation":9000}`, Version: "x"}, nil))
	default:
		try(name+"receives the answer", false, func(v *world) {
			p := &v.procs[i]
			v.settle(i, p.afterRead(p.answer, p.err))
			p.answered, p.answer, p.err = false, Value{}, nil
		})
	}
}

// adminMoves are what can happen to administrator i.
func (w *world) adminMoves(i int, try move) {
	a := &w.admins[i]
	name := "administrator " + a.name
	if a.publish {
		try(name+" sends the signal", false, func(v *world) {
			v.admins[i].publish = false
			for k := range v.procs {
				if p := &v.procs[k]; p.receiving && !p.passed {
					p.signals++
				}
			}
		})
		try(name+" cannot send the signal", true, func(v *world) { v.admins[i].publish = false })
		return
	}
	if len(a.todo) == 0 {
		return
	}
	for _, way := range []string{"", "refused", "reply lost", "delayed", "false conflict"} {
		try(strings.TrimSpace(fmt.Sprintf("%s goes on to %s: %s", name, a.todo[0], way)), way != "", func(v *world) { v.step(&v.admins[i], way) })
	}
}

// TestEveryOrder drives waiters and administrators through every order of what
// they do: beginning to receive signals, reading, being answered, receiving
// signals, writing, sending signals; undisturbed, and with a fault at every
// place. (With more faults one waiter is enough: waiters of different
// processes do not affect each other.)
//
// Undisturbed, processes make no poll once they rely on signals: no waiter may
// need one. With faults each process gets one poll at the very end.
func TestEveryOrder(t *testing.T) {
	t.Parallel()
	proving := os.Getenv("KENNEL_PROVE") != "" // storetest imports this package
	worlds, broken := 0, 0
	for _, tt := range []struct {
		start   string
		after   []int64
		scripts [2]string
		faults  int
		large   bool // left to make prove
	}{
		{"", []int64{Now, Now}, [2]string{"release", "release"}, 0, true},
		{"", []int64{0, 0}, [2]string{"", "release"}, 1, true},
		{"release", []int64{Now, 1}, [2]string{"close", "release"}, 0, true},
		{"release close", []int64{1, 1}, [2]string{"release", "close"}, 0, true},
		{"", []int64{0}, [2]string{"release close", "release close"}, 0, false},
		{"", []int64{Now}, [2]string{"", "release close"}, 0, false},
		{"", []int64{Now}, [2]string{"release", "release"}, 2, true},
		{"", []int64{Now}, [2]string{"", "release"}, 2, true},
		{"release", []int64{1}, [2]string{"close", "release"}, 1, true},
		{"release", []int64{Now}, [2]string{"close", "release"}, 1, true},
		{"release close", []int64{0}, [2]string{"", "release close"}, 2, true},
		{"release close", []int64{1}, [2]string{"release close release", ""}, 2, false},
	} {
		if tt.large && !proving {
			continue
		}
		name := fmt.Sprintf("%s, seen %d, %q, %d faults", tt.start, tt.after, tt.scripts, tt.faults)
		t.Run(strings.TrimPrefix(name, ", "), func(t *testing.T) {
			e := explorer{seen: make(map[[sha256.Size224]byte]bool), fail: func(why string) { broken++; t.Error(why) }}
			e.explore(newWorld(tt.start, tt.after, tt.scripts, tt.faults))
			worlds += len(e.seen)
			t.Logf("%d different worlds, %d of them ends", len(e.seen), e.ends)
			if !e.done && (len(e.seen) < 200 || e.ends == 0) {
				t.Errorf("%d worlds and %d ends are too few to have been everywhere", len(e.seen), e.ends)
			}
		})
	}
	t.Logf("figure: waiters that pass falsely or are left behind, in every order of events of two waiters and two administrators (%d states) | %d | 0", worlds, broken)
}
