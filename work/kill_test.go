package work_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/storetest"
	"kennel/work"
)

// shapes are batches that differ in what happens to them.
var shapes = map[string]func() []item{
	"one item":    func() []item { return someItems("i", 1, small) },
	"one parcel":  func() []item { return someItems("i", 5, small) },
	"100 items":   func() []item { return someItems("i", 100, small) },
	"3 parcels":   func() []item { return someItems("i", 3, aParcel) },
	"11 parcels":  func() []item { return someItems("i", 11, aParcel) },
	"with claims": func() []item { return someItems("i", 2, claimed) },
	"failing": func() []item {
		items := someItems("i", 4, halfParcel)
		items[0].Fails, items[1].Fails = 1, 2
		items[3].Fails, items[3].Panics = 1, true
		return items
	},
	"failed": func() []item { items := someItems("i", 3, small); items[1].Fails = always; return items },
	"rejected": func() []item {
		items := someItems("i", 4, halfParcel)
		items[0].Bad, items[3].Bad = true, true
		return items
	},
	"all bad": func() []item {
		items := someItems("i", 2, small)
		items[0].Bad, items[1].Bad = true, true
		return items
	},
	"a claim that fails": func() []item {
		items := someItems("i", 2, claimed)
		items[0].Fails = 1
		return items
	},
}

// TestKilledThroughout kills the process before and after each request of
// the life of a batch: submission, processing, collection, report, removal. A
// new process carries on, with and without the caller, and beside another
// process.
func TestKilledThroughout(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	t.Run("shapes", func(t *testing.T) {
		for name, items := range shapes {
			step := storetest.Scale(900, 1)
			if name == "11 parcels" {
				step = storetest.Scale(3000, 2)
			}
			for _, how := range []killed{{key: "k"}, {}, {beside: true}} {
				t.Run(name+how.String(), func(t *testing.T) {
					t.Parallel()
					ran := storetest.KillAtEachRequest(t, step, func(t *testing.T, kill *storetest.Killer) { runKilled(t, items(), how, kill) })
					runs.Add(int64(ran))
				})
			}
		}
	})
	t.Logf("figure: items without one result, and what is left, a process killed before and after each request of the life of a batch (%d runs) | 0 | 0", runs.Load())
}

// TestToldKilled kills the process before and after each request of the life of a
// batch whose processor fails when it is told of the end.
func TestToldKilled(t *testing.T) {
	t.Parallel()
	ran := storetest.KillAtEachRequest(t, storetest.Scale(5, 1), func(t *testing.T, kill *storetest.Killer) {
		runKilled(t, shapes["one item"](), killed{key: "k", untold: true}, kill)
	})
	t.Logf("figure: batches of which the processor was not told after a call that failed, a process killed before and after each request (%d runs) | 0 | 0", ran)
}

// killed is what else happens.
type killed struct {
	key    string // the caller repeats the submission with this key
	beside bool   // another process works as well
	untold bool   // the processor fails when it is told of the end for the first time
}

func (k killed) String() string {
	switch {
	case k.beside:
		return ", beside another process"
	case k.key != "":
		return ", repeated with a key"
	}
	return ", not repeated"
}

func runKilled(t *testing.T, items []item, how killed, kill *storetest.Killer) {
	w := newWorld(t, 0, nil)
	w.sums.atEnd = w.readable
	if how.untold {
		w.sums.atEnd = func(ctx context.Context, b work.Batch, try int) error {
			if err := w.readable(ctx, b, try); err != nil || w.sums.ends(b.ID) > 1 {
				return err
			}
			return errors.New("broken")
		}
	}
	o := &order{name: "n", key: how.key, items: items}
	p := w.start(nil, kill)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var others sync.WaitGroup
	if how.beside {
		others.Go(func() { w.start(nil, nil).live(ctx, 8, nil) })
	}
	submit := func(p *process) {
		if _, _, err := o.submit(p.Context(), p); err != nil && !p.Dead() {
			t.Errorf("submit: %v", err)
		}
	}
	submit(p)
	for lives := 0; lives < 3; lives++ {
		if p.Dead() {
			p = w.start(nil, nil)
			if how.key != "" && !o.returned() {
				submit(p)
			}
		}
		life, end := context.WithCancel(p.Context())
		var living sync.WaitGroup
		living.Go(func() { p.live(life, 8, nil) })
		w.await(p.Context(), 4*time.Hour)
		end()
		living.Wait()
		if !p.Dead() {
			break
		}
	}
	stop()
	others.Wait()
	w.wait()
	claims := 0
	if kill.Struck() {
		claims = 1 << 30 // a killed process leaves claims until they expire
	}
	w.check([]*order{o}, claims)
	for id := range o.ids {
		if n := w.sums.ends(id); how.untold && n < 2 {
			t.Errorf("after a call that failed, there are %d of the end of batch %s", n, id)
		}
	}
	if how.key != "" && !o.returned() {
		t.Error("the submission was not confirmed")
	}
	if !kill.Struck() {
		w.checkStaging(t)
	}
	w.checkRetention(p)
}
