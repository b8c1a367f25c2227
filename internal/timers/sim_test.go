package timers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/chance"
	"kennel/internal/control"
	"kennel/internal/memory"
	"kennel/internal/program"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var errBroken = errors.New("broken")

// recorded is the end of a slot in storage.
type recorded struct{ slot, outcome string }

// watched is the storage of all processes. It sees each write that is made,
// whenever it arrives.
type watched struct {
	*memory.Table
	mu   sync.Mutex
	last map[string]string            // the end that the row of a timer has; guarded by mu
	row  map[string]map[string]string // of each timer; guarded by mu
	held map[string]bool              // paused, as an operator was told; guarded by mu
	odd  func(string)                 // takes what no write may do
	all  map[string][]recorded        // guarded by mu
}

func newWatched(misused func(string)) *watched {
	return &watched{
		row: make(map[string]map[string]string), held: make(map[string]bool), odd: misused,
		Table: memory.NewTable(&memory.TableOptions{Options: memory.Options{OnMisuse: misused}}),
		last:  make(map[string]string), all: make(map[string][]recorded),
	}
}

func (w *watched) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	versions, err := w.Table.Submit(ctx, writes...)
	if err != nil {
		return versions, err
	}
	v, name := writes[0].Row.Values, writes[0].Row.Key
	w.mustHold(name, v)
	if end := v["lastSlot"] + v["lastAt"]; end != w.last[name] {
		w.last[name] = end
		w.all[name] = append(w.all[name], recorded{v["lastSlot"], v["lastOutcome"]})
	}
	return versions, nil
}

// mustHold checks that a write begins no slot of a paused timer, and that no
// process forgets a pause. Its caller holds mu.
func (w *watched) mustHold(name string, v map[string]string) {
	old := w.row[name]
	w.row[name] = v
	if takes := v["phase"] == string(working) && (old["phase"] != string(working) || old["owner"] != v["owner"]); takes && old["paused"] != "" && v["slot"] != v["asked"] {
		w.odd("a process takes the slot " + v["slot"] + " of " + name + ", which is paused")
	}
	if v["paused"] == "" && w.held[name] {
		w.odd("the pause of " + name + " is forgotten")
	}
}

// hold sets whether a timer must stay paused.
func (w *watched) hold(name string, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[name] = held
}

// flaky is the way of a process to storage, with faults and pauses.
type flaky struct {
	table.Store
	fault func() memory.Fault
	pause func() time.Duration // of the whole process
	late  *sync.WaitGroup
}

func (f flaky) Get(ctx context.Context, partition, key string) (table.Row, error) {
	return through(ctx, f, func(ctx context.Context) (table.Row, error) { return f.Store.Get(ctx, partition, key) })
}

func (f flaky) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	return through(ctx, f, func(ctx context.Context) ([]string, error) { return f.Store.Submit(ctx, writes...) })
}

func through[T any](ctx context.Context, f flaky, do func(context.Context) (T, error)) (answer T, err error) {
	var none T
	if _, ok := ctx.Deadline(); !ok {
		return none, errors.New("a request without a deadline")
	}
	time.Sleep(f.pause())
	fault := f.fault()
	if err := table.Pause(ctx, fault.Delay); err != nil {
		return none, err
	}
	arrive := func() (T, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return do(ctx)
	}
	switch {
	case fault.Lost && fault.Err == nil:
		<-ctx.Done()
		return none, ctx.Err()
	case fault.Lost:
	case fault.After > 0:
		f.late.Go(func() {
			time.Sleep(fault.After)
			arrive()
		})
	default:
		answer, err = arrive()
	}
	time.Sleep(f.pause())
	if err := table.Pause(ctx, fault.Back); err != nil {
		return none, err
	}
	if fault.Err != nil {
		return none, fault.Err
	}
	return answer, err
}

// world is what the processes of a simulation did.
type world struct {
	*storetest.Simulation
	store *watched
	late  sync.WaitGroup

	mu      sync.Mutex
	calm    bool
	running map[string]context.Context // the attempts whose contexts have not ended, by slot; guarded by mu
	done    map[string]bool            // slots of which an attempt returned nil; guarded by mu
	broken  map[string]bool            // or an error; guarded by mu
	asked   map[string]int             // runs that were requested, by timer; guarded by mu
	unsure  map[string]int             // the same without an answer; guarded by mu

	operator map[string]*sync.Mutex // one changes a timer at a time
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// work is an attempt: it lasts for up to three minutes, fails, and may ignore
// the end of its context.
func (w *world) work(p *storetest.Process, c *chance.Source) attempt.Work {
	return func(ctx context.Context) error {
		a, _ := attempt.Current(ctx)
		key := a.Timer + " " + table.FormatTime(a.Slot)
		w.mu.Lock()
		if other := w.running[key]; other != nil && other.Err() == nil {
			w.Errorf("an attempt of %s begins, while another one has its lease", key)
		}
		w.running[key] = ctx
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.running[key] == ctx {
				delete(w.running, key)
			}
		}()
		w.Count("attempts", 1)
		long := 20 * time.Second
		if c.Below(4) == 0 {
			long = 3 * time.Minute
		}
		over := time.NewTimer(c.UpTo(long))
		defer over.Stop()
		if ignores := c.Below(3) == 0; ignores {
			select {
			case <-over.C:
			case <-p.Context().Done():
				return errBroken
			}
		} else {
			select {
			case <-over.C:
			case <-p.Context().Done():
				return errBroken
			case <-ctx.Done():
				if cause := context.Cause(ctx); errors.Is(cause, attempt.ErrLeaseLost) {
					w.Count("lost", 1)
				}
				return ctx.Err()
			}
		}
		kind := c.Below(8)
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.calm && kind < 3 {
			w.broken[key] = true
			return []error{errBroken, attempt.RetryAfter(time.Second, nil), attempt.Snooze(2 * time.Second)}[kind]
		}
		w.done[key] = true
		return nil
	}
}

// The timers of a simulation.
const (
	catching = "catching" // with CatchUp
	newest   = "newest"
)

func (w *world) open(p *storetest.Process, c *chance.Source, mishaps *memory.Mishaps, hosted bool) *Timers {
	d := &program.Declared{Name: "shop"}
	for _, name := range []string{catching, newest} {
		d.Timers = append(d.Timers, &program.Timer{
			Name: name, Schedule: "@every 5m", CatchUp: name == catching, Timeout: 4 * time.Minute, MaxAttempts: 100, Work: w.work(p, c),
			Retry: func(int, error) time.Duration { return 5 * time.Second },
		})
	}
	store := flaky{p.Table(w.store), func() memory.Fault {
		if w.isCalm() {
			return memory.Fault{}
		}
		return mishaps.Draw(c)
	}, func() time.Duration {
		if !w.isCalm() && c.Below(60) == 0 {
			w.Count("pauses", 1)
			return c.UpTo(4 * time.Minute)
		}
		return 0
	}, &w.late}
	rows, err := table.New(store)
	if err != nil {
		w.Fatal(err)
	}
	t, err := New(d, rows, &Options{Hosted: hosted, Drain: c.UpTo(10 * time.Second)})
	if err != nil {
		w.Fatal(err)
	}
	return t
}

// live runs a process until ctx ends. The ticks of a host, and operators, wake
// it.
func (w *world) live(ctx context.Context, p *storetest.Process, t *Timers, c *chance.Source, hosted bool) {
	var all sync.WaitGroup
	skew := c.UpTo(4*time.Second) - 2*time.Second
	ctx = attempt.WithClock(ctx, func() time.Time { return time.Now().Add(skew) })
	all.Go(func() { t.Run(ctx) })
	for _, one := range t.all {
		all.Go(func() {
			for hosted && ctx.Err() == nil {
				table.Pause(ctx, time.Until(one.claim.slots.Next(time.Now()).Add(2*time.Second)))
				if w.isCalm() || c.Below(3) > 0 {
					tick, cancel := context.WithTimeout(ctx, 4*time.Minute)
					t.Tick(tick, one.Name)
					cancel()
				}
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			table.Pause(ctx, c.UpTo(20*time.Minute))
			if w.isCalm() || ctx.Err() != nil {
				return
			}
			name := []string{catching, newest}[c.Below(2)]
			if c.Below(3) == 0 {
				w.pause(ctx, t, name, c)
				continue
			}
			limited, cancel := context.WithTimeout(ctx, 30*time.Second)
			_, err := t.Start(limited, name)
			cancel()
			w.mu.Lock()
			switch {
			case err == nil:
				w.asked[name]++
			case !errors.Is(err, ErrRunning):
				w.unsure[name]++
			}
			w.mu.Unlock()
		}
	})
	all.Wait()
	p.Die() // it has exited
}

// pause pauses a timer for a while. A process that is killed meanwhile leaves it
// paused.
func (w *world) pause(ctx context.Context, t *Timers, name string, c *chance.Source) {
	if !w.operator[name].TryLock() {
		return
	}
	defer w.operator[name].Unlock()
	change := func(do func(ctx context.Context) (State, error)) bool {
		limited, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		_, err := do(limited)
		return err == nil
	}
	if change(func(ctx context.Context) (State, error) { return t.Pause(ctx, name, control.Pause{}) }) {
		w.store.hold(name, true)
		w.Count("paused", 1)
	}
	table.Pause(ctx, c.UpTo(8*time.Minute))
	w.store.hold(name, false)
	for ctx.Err() == nil && !change(func(ctx context.Context) (State, error) { return t.Resume(ctx, name) }) {
		table.Pause(ctx, 10*time.Second)
	}
}

// check compares what is recorded with what was done.
func (w *world) check(began time.Time) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range []string{catching, newest} {
		ends := make(map[string]bool)
		runs := 0
		var last time.Time
		for _, r := range w.store.all[name] {
			key := name + " " + r.slot
			switch at, err := time.Parse(time.RFC3339Nano, r.slot); {
			case err != nil:
				w.Error(err)
			case ends[r.slot]:
				w.Errorf("%s is recorded twice", key)
			case r.outcome == outcomeDone && !w.done[key]:
				w.Errorf("%s is recorded as done, and no attempt was", key)
			case r.outcome == outcomeFailed && name == catching && !w.broken[key]:
				w.Errorf("%s is recorded as failed, and no attempt was", key)
			case at.Nanosecond() > 0:
				runs++
			case !at.After(last):
				w.Errorf("%s is recorded after %v", key, last)
			default:
				last = at
			}
			ends[r.slot] = true
			w.Count(name+" "+r.outcome, 1)
		}
		first := began.Truncate(5 * time.Minute).Add(5 * time.Minute)
		for at := first.Add(10 * time.Minute); name == catching && !at.After(last); at = at.Add(5 * time.Minute) {
			if !ends[table.FormatTime(at)] {
				w.Errorf("the slot %v of %s is lost", at, name)
			}
		}
		if late := time.Since(last); late > 9*time.Minute {
			w.Errorf("the last slot of %s that is recorded is of %v ago", name, late)
		}
		if runs < w.asked[name] || runs > w.asked[name]+w.unsure[name] {
			w.Errorf("%d runs of %s are recorded, of %d that were requested and %d that may have been", runs, name, w.asked[name], w.unsure[name])
		}
		w.Count("runs", runs)
	}
}

// TestSimulations: processes that are killed, stopped and paused, with clocks
// that differ, and storage whose replies are lost or late. No slot is recorded
// twice, none of a timer with CatchUp is lost, and no attempt begins while
// another one of its slot has its lease.
func TestSimulations(t *testing.T) {
	all := storetest.Simulate(t, storetest.Scale(20, 1000), func(s *storetest.Simulation) {
		w := &world{
			Simulation: s, store: newWatched(s.Misused), running: make(map[string]context.Context), done: make(map[string]bool), broken: make(map[string]bool),
			asked: make(map[string]int), unsure: make(map[string]int),
			operator: map[string]*sync.Mutex{catching: {}, newest: {}},
		}
		mishaps := &memory.Mishaps{Each: 30, Trip: 200 * time.Millisecond, Lost: errors.New("connection reset"), After: 3 * time.Minute, Slow: 15 * time.Second}
		began := time.Now()
		var lives sync.WaitGroup
		for i := range 3 {
			c := s.Chance("process", i)
			lives.Go(func() {
				for range 6 {
					p := storetest.NewProcess(nil)
					hosted := c.Below(3) == 0
					until, stop := context.WithTimeout(p.Context(), c.UpTo(15*time.Minute))
					if c.Below(2) == 0 {
						killed := time.AfterFunc(c.UpTo(15*time.Minute), p.Die)
						defer killed.Stop()
					}
					w.live(until, p, w.open(p, c, mishaps, hosted), c, hosted)
					stop()
					time.Sleep(c.UpTo(time.Minute))
				}
			})
		}
		lives.Wait()
		w.late.Wait()
		w.mu.Lock()
		w.calm = true
		w.mu.Unlock()
		p, c := storetest.NewProcess(nil), s.Chance("last", 0)
		until, stop := context.WithTimeout(p.Context(), 40*time.Minute)
		defer stop()
		hosted := c.Below(2) == 0
		t := w.open(p, c, mishaps, hosted)
		for _, name := range []string{catching, newest} {
			if _, err := t.Resume(until, name); err != nil {
				w.Error(err)
			}
		}
		w.live(until, p, t, c, hosted)
		w.check(began)
	})
	for what, perRun := range map[string]float64{"catching done": 10, "newest done": 5, "newest failed": 0.2, "runs": 1, "lost": 0.2, "pauses": 1, "paused": 1} {
		if storetest.Proving() || what != "lost" { // a sample may have few
			all.Want(what, perRun)
		}
	}
	t.Logf("figure: slots recorded twice or lost in simulations (%d runs, %d slots, %d attempts) | 0 | 0", all.Runs, all.Of("catching done")+all.Of("catching failed"), all.Of("attempts"))
	t.Log(fmt.Sprint("lost ", all.Of("lost"), ", pauses ", all.Of("pauses"), ", runs ", all.Of("runs"), ", newest ", all.Of("newest done"), "/", all.Of("newest failed"), ", catching failed ", all.Of("catching failed")))
}
