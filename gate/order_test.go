package gate

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// explorer takes every choice from every world.
type explorer struct {
	seen  map[[sha256.Size224]byte]bool
	steps []string
	ends  int // worlds in which nothing can happen any more
	fail  func(why string)
	done  bool
}

func (e *explorer) explore(w world) {
	if key := w.key(); e.done || e.seen[key] {
		return
	} else {
		e.seen[key] = true
	}
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
		e.procMoves(&w, i, try)
	}
	for i := range w.admins {
		e.adminMoves(&w, i, try)
	}
	for i, l := range w.late {
		try("late write "+l.op+" arrives", false, func(v *world) {
			v.late = slices.Delete(v.late, i, i+1)
			v.replace(l.old, l.new)
		})
	}
	if w.stored.Version != "" && !w.deleted {
		try("somebody deletes the gate", true, func(v *world) {
			v.stored, v.deleted, v.ops = Flag{}, true, nil // nobody can know of them
			for i := range v.procs {
				p := &v.procs[i]
				p.former = p.life != "" && p.waiter.after != Now
			}
		})
	}
	if !moved {
		e.ends++
		e.safely(func() { e.end(w.clone()) })
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

// end is where nothing happens any more but polls. Whoever waits for a release
// that has happened is left behind.
func (e *explorer) end(w world) {
	for i := range w.procs {
		p := &w.procs[i]
		if w.polls > 0 { // the poll that comes in any case
			f, err := w.load(p.begin())
			p.looked(f, err)
			w.settle(i)
		}
		// What was deleted before anybody could see it is nobody's to see.
		// But whoever has seen the former life knows that this is another.
		generation := int64(0)
		if f, err := w.load(""); err == nil {
			now, _ := parse("start", f.Text)
			generation = now.Generation
		}
		if !p.passed && (p.waiter.after < generation || p.former && generation > 0) {
			panic(violation(fmt.Sprintf("process %d is left behind: it waits for a release after %d, and there were %d", i, p.waiter.after, generation)))
		}
	}
}

// procMoves are what can happen to process i.
func (e *explorer) procMoves(w *world, i int, try func(string, bool, func(*world))) {
	p := &w.procs[i]
	if p.passed {
		return
	}
	name := fmt.Sprintf("process %d ", i)
	if !p.up {
		try(name+"begins to hear signals", false, func(v *world) { v.procs[i].listens(true) })
	} else if !p.deaf {
		try(name+"is cut off from signals", true, func(v *world) {
			v.procs[i].deaf, v.procs[i].signals = true, nil
			v.procs[i].listens(false)
			v.settle(i)
		})
	}
	for k, s := range p.signals {
		what := fmt.Sprintf("signal %d %t", s.Generation, s.Released)
		take := func(v *world) {
			v.procs[i].signals = slices.Delete(v.procs[i].signals, k, k+1)
		}
		hear := func(v *world) { v.procs[i].heard(s); v.settle(i) }
		try(name+"hears "+what, false, func(v *world) { take(v); hear(v) })
		try(name+"loses "+what, true, take)
		try(name+"hears "+what+", and will again", true, hear)
	}
	if p.up {
		for _, s := range []Signal{
			{}, {Gate: "start"},
			{Generation: 9, Released: true, At: w.admins[0].change.at, By: "nobody"},
			{Gate: "other", Generation: 9, Released: true, At: w.admins[0].change.at, By: "nobody"},
		} {
			try(fmt.Sprintf("%shears a signal of nothing: %v", name, s), true, func(v *world) { v.procs[i].heard(s); v.settle(i) })
		}
	}
	switch {
	case !p.looking:
		polls := p.wish() == lookRarely
		if polls && p.poll >= w.polls {
			return
		}
		try(name+"looks", false, func(v *world) {
			if polls {
				v.procs[i].poll++
			}
			v.procs[i].begin()
			v.procs[i].read, v.procs[i].answer, v.procs[i].err = false, Flag{}, nil
		})
	case !p.read:
		answer := func(f Flag, err error) func(v *world) {
			return func(v *world) { v.procs[i].read, v.procs[i].answer, v.procs[i].err = true, f, err }
		}
		f, err := w.load(p.seen)
		try(name+"is answered by the store", false, answer(f, err))
		try(name+"is not answered", true, answer(Flag{}, errLost))
		try(name+"is answered nonsense", true, answer(Flag{Text: `{"version":1,"released":true,"generation":7}`, Version: "x"}, nil))
	default:
		try(name+"hears the answer", false, func(v *world) {
			p := &v.procs[i]
			p.looked(p.answer, p.err)
			v.settle(i)
		})
	}
}

// adminMoves are what can happen to administrator i.
func (e *explorer) adminMoves(w *world, i int, try func(string, bool, func(*world))) {
	a := &w.admins[i]
	name := "administrator " + a.name
	if a.publish != nil {
		try(name+" sends the signal", false, func(v *world) {
			s := *v.admins[i].publish
			v.admins[i].publish = nil
			for k := range v.procs {
				if p := &v.procs[k]; p.up && !p.passed {
					p.signals = append(p.signals, s)
				}
			}
		})
		try(name+" cannot send the signal", true, func(v *world) { v.admins[i].publish = nil })
		return
	}
	if len(a.todo) == 0 {
		return
	}
	for _, way := range []string{"", "refused", "unheard", "delayed", "denied"} {
		try(strings.TrimSpace(fmt.Sprintf("%s goes on to %s: %s", name, a.todo[0], way)), way != "", func(v *world) { v.step(i, way) })
	}
}

// step makes the next request of administrator i.
func (w *world) step(i int, way string) {
	a := &w.admins[i]
	old, new, write, err := a.change.request()
	if err != nil {
		panic(violation("the change fails: " + err.Error()))
	}
	var did verdict
	if !write {
		f, err := w.load("")
		if way != "" {
			f, err = Flag{}, errLost
		}
		if did, err = a.change.loaded(f, err); err != nil {
			panic(violation("the change fails: " + err.Error()))
		}
	} else {
		f, err := Flag{}, errLost
		switch way {
		case "":
			f, err = w.replace(old, new)
		case "unheard":
			w.replace(old, new)
		case "delayed":
			w.late = append(w.late, lateWrite{old, new, a.change.op})
		case "denied":
			err = ErrChanged
		}
		did = a.change.replaced(f, err)
	}
	if did != changed && did != asItWas {
		return
	}
	if done := slices.Contains(w.ops, a.change.op); done != (did == changed) {
		panic(violation(fmt.Sprintf("%s is told that %s was made: %t, and it was: %t", a.name, a.change.op, did == changed, done)))
	}
	if s, ok := a.change.signal(did); ok {
		a.publish = &s
	}
	if a.todo = a.todo[1:]; len(a.todo) > 0 {
		a.begin()
	}
}

// TestEveryOrder drives two waiters and two administrators through every order
// of what they do: beginning to hear signals, looking, being answered, hearing
// signals, reading, writing, sending signals; undisturbed, and with a fault at
// every place. (With more faults one waiter has to do: waiters of different
// processes do not know of each other.)
//
// Undisturbed, processes make no poll once they rely on signals: nobody may
// need one. With faults everybody gets one poll at the very end.
func TestEveryOrder(t *testing.T) {
	worlds, broken := 0, 0
	for _, test := range []struct {
		start   string
		after   []int64
		scripts [2][]string
		faults  int
		large   bool // too much for the race detector, which has nothing to find here
	}{
		{"", []int64{Now, Now}, [2][]string{{"release"}, {"release"}}, 0, false},
		{"", []int64{0, 0}, [2][]string{{"release"}, {}}, 1, true},
		{"release", []int64{Now, 1}, [2][]string{{"close"}, {"release"}}, 0, true},
		{"release close", []int64{1, 1}, [2][]string{{"release"}, {"close"}}, 0, true},
		{"", []int64{0}, [2][]string{{"release", "close"}, {"release", "close"}}, 0, false},
		{"", []int64{Now}, [2][]string{{"release"}, {"release"}}, 2, true},
		{"release", []int64{1}, [2][]string{{"close"}, {"release"}}, 1, true},
		{"release", []int64{Now}, [2][]string{{"close"}, {"release"}}, 1, false},
		{"release close", []int64{0}, [2][]string{{"release", "close"}, {}}, 2, true},
	} {
		if test.large && RaceDetector {
			continue
		}
		name := fmt.Sprintf("%s, seen %d, %v, %d faults", test.start, test.after, test.scripts, test.faults)
		t.Run(strings.ReplaceAll(strings.TrimPrefix(name, ", "), " ", "_"), func(t *testing.T) {
			e := explorer{seen: make(map[[sha256.Size224]byte]bool), fail: func(why string) { broken++; t.Error(why) }}
			e.explore(begun(test.start, test.after, test.scripts, test.faults, test.faults))
			worlds += len(e.seen)
			t.Logf("%d different worlds, %d of them ends", len(e.seen), e.ends)
			if !e.done && (len(e.seen) < 1000 || e.ends == 0) {
				t.Errorf("saw %d worlds and %d ends: too few to have been everywhere", len(e.seen), e.ends)
			}
		})
	}
	t.Logf("figure: false starts and waiters left behind in every order (%d states) | %d | 0", worlds, broken)
}
