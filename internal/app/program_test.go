package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/config"
	"kennel/internal/instances"
	"kennel/internal/observe"
)

// diary is what the parts of a program did, in order.
type diary struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (d *diary) add(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// noted is a part that notes in a diary how it ends.
type noted struct {
	name  string
	diary *diary
	takes time.Duration // until its work has ended
	fails error         // of its work, after a minute; nil: it works until it is stopped
	stuck error         // of its close
}

func (n noted) Run(ctx context.Context) error {
	<-ctx.Done()
	n.diary.add("loop of " + n.name)
	return nil
}

func (n noted) Work(ctx context.Context) error {
	if n.fails != nil {
		time.Sleep(time.Minute)
		return n.fails
	}
	<-ctx.Done()
	time.Sleep(n.takes)
	n.diary.add("work of " + n.name)
	return nil
}

func (n noted) Close(context.Context) error {
	n.diary.add("close " + n.name)
	return n.stuck
}

// newNoted returns a program of parts that are declared in another order than
// that of their stages.
func newNoted(t *testing.T, d *diary, edit func(*noted)) *Program {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	var parts []Part
	for name, closes := range map[string]stage{"numbers": GivesBack, "gates": releases, "row": Leaves, "bill": Accounts, "bus": Disconnects} {
		n := noted{name: name, diary: d}
		edit(&n)
		parts = append(parts, Part{Runs: n, Closes: closes})
	}
	p, err := New(config.Config{InvocationTimeout: time.Minute, Drain: time.Second}, observe.NewMembers(nil, instances.Worker, time.Now(), log), &observe.Meter{}, parts, log)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStagesOfTheStop: a worker ends its work first, then its loops, and then it
// closes its parts stage by stage, whatever the order in which they were declared
// and although some cannot be closed: numbers go back before the process leaves
// the table of instances.
func TestStagesOfTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		stuck := errors.New("storage does not answer")
		p := newNoted(t, d, func(n *noted) {
			n.takes = time.Duration(len(n.name)) * time.Second
			if n.name == "numbers" {
				n.stuck = stuck
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		stopping := 0
		ended := make(chan error, 1)
		go func() {
			err := p.Work(ctx, func() { stopping++ }, func(ctx context.Context) error { <-ctx.Done(); d.add("probes"); return nil })
			ended <- errors.Join(err, p.Close(context.WithoutCancel(ctx)))
		}()
		time.Sleep(time.Hour)
		stop()
		if err := <-ended; !errors.Is(err, stuck) || stopping != 1 {
			t.Errorf("ended with %v, reported %d times that it stops", err, stopping)
		}
		stage := func(line string) int {
			return slices.IndexFunc([]string{"work of", "", "close numbers", "close gates", "close row", "close bill", "close bus"}, func(s string) bool {
				return s == "" && !strings.HasPrefix(line, "work") && !strings.HasPrefix(line, "close") || s != "" && strings.HasPrefix(line, s)
			})
		}
		if len(d.lines) != 16 || !slices.IsSortedFunc(d.lines, func(a, b string) int { return stage(a) - stage(b) }) {
			t.Errorf("the stop was %q", d.lines)
		}
	})
}

// TestFailedPartStopsTheProgram: a part that fails stops the others in order.
func TestFailedPartStopsTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		failed := errors.New("no rights")
		p := newNoted(t, d, func(n *noted) {
			if n.name == "gates" {
				n.fails = failed
			}
		})
		if err := p.Work(t.Context(), func() {}); !errors.Is(err, failed) {
			t.Errorf("ended with %v, want the error of the part", err)
		}
		if n := len(d.lines); n != 9 { // the work of four, and five loops
			t.Errorf("%d parts ended: %s", n, fmt.Sprint(d.lines))
		}
	})
}
