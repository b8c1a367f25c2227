package deadletters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kennel/internal/table"
	"kennel/queue"
)

const (
	// parallel is how many letters are moved or deleted at the same time. As
	// many more wait, received together.
	parallel = 32

	// maxHeld is how many letters that stay are remembered, to make them visible
	// again at the end. Others are visible when their lease ends.
	maxHeld = 400

	// callTime is how long a call takes at most. In the last quarter it begins
	// no letter.
	callTime = MaxCall - 3*time.Second

	// closing is how long the requests under way may take after the caller's ctx
	// ended.
	closing = 5 * time.Second

	// leaseBeyond is how much longer than the call the lease of a letter is, so
	// that no letter is received twice in it.
	leaseBeyond = 10 * time.Second
)

// errNotBegun reports a letter for which the call had no time.
var errNotBegun = errors.New("the call ended before the letter's turn")

// call is one call of Redrive or Delete.
type call struct {
	*Letters
	queue, source string
	sel           Selection
	ids           map[string]bool // of the selection; nil: all
	act           func(*call, letter) error

	stop  context.Context // no letter is begun after its end
	halt  func()          // ends stop
	end   context.Context // of the requests that finish a letter
	until time.Time       // the latest end

	// Only the receiving goroutine uses these.
	before time.Time // of the run
	pace   pace
	turns  map[string]*turn // of the letters that matched, by ID
	acting errgroup.Group

	mu      sync.Mutex
	matched int             // guarded by mu
	stayed  int             // of these, letters that certainly stay; guarded by mu
	done    int             // letters that act succeeded for; guarded by mu
	late    bool            // there was no time for a letter that matched; guarded by mu
	left    []Left          // guarded by mu
	held    []queue.Message // that stay; guarded by mu
	failure error           // that ends the call; guarded by mu
}

// turn is the action of a call on one letter.
type turn struct {
	ended chan struct{} // closed after act
	done  bool          // act succeeded; read after ended
}

// run begins a call with prepare, and acts on the selected letters.
func (l *Letters) run(ctx context.Context, queueName string, s Selection, act func(*call, letter) error, prepare func(*call) error) (Result, int, error) {
	source, err := Source(queueName)
	if err == nil {
		s, err = s.checked()
	}
	if err != nil {
		return Result{}, 0, err
	}
	c := &call{Letters: l, queue: queueName, source: source, sel: s, act: act, before: s.Before, turns: make(map[string]*turn)}
	c.acting.SetLimit(parallel)
	c.pace.perSecond = s.PerSecond
	if !s.All {
		c.ids = make(map[string]bool)
		for _, id := range s.IDs {
			c.ids[id] = true
		}
	}
	defer c.limit(ctx)()
	if err := prepare(c); err != nil {
		return Result{}, 0, err
	}
	if s.DryRun {
		r, err := c.try()
		return r, 0, err
	}
	more, err := c.receive()
	c.acting.Wait()
	c.putBack()
	err = cmp.Or(c.failure, err, ctx.Err())
	r := Result{Matched: c.matched, More: more || c.late || err != nil, Before: c.before, Left: c.left}
	if err != nil && c.done > 0 && !errors.Is(err, queue.ErrRefused) {
		if ctx.Err() == nil {
			l.opt.Log.WarnContext(ctx, "call for dead letters ended early", "queue", queueName, "error", err.Error())
		}
		err = nil
	}
	if r.More && c.done > 0 { // else the next call would begin too early
		table.Pause(ctx, min(c.pace.due(), time.Until(c.until)))
	}
	return r, c.done, err
}

// checked returns the selection with its defaults.
func (s Selection) checked() (Selection, error) {
	s.Limit = cmp.Or(s.Limit, MaxLimit)
	var err error
	switch {
	case s.All == (len(s.IDs) > 0):
		err = errors.New("use either all letters or a list of IDs")
	case len(s.IDs) > MaxLimit:
		err = fmt.Errorf("%d IDs: use up to %d", len(s.IDs), MaxLimit)
	case s.Limit < 1 || s.Limit > MaxLimit:
		err = fmt.Errorf("a limit of %d: use 1 to %d", s.Limit, MaxLimit)
	case s.PerSecond != 0 && !(s.PerSecond >= MinRate):
		err = fmt.Errorf("%v letters a second: use %v or more", s.PerSecond, MinRate)
	}
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrSelection, err)
	}
	return s, nil
}

// limit sets the times of the call.
func (c *call) limit(ctx context.Context) (free func()) {
	total := callTime
	if deadline, ok := ctx.Deadline(); ok {
		total = min(total, time.Until(deadline)*9/10) // the caller needs the result before
	}
	c.until = time.Now().Add(total)
	var cancelEnd context.CancelFunc
	c.stop, c.halt = context.WithTimeout(ctx, total*3/4)
	c.end, cancelEnd = context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(total, cancelEnd)
	freeClosing := context.AfterFunc(ctx, func() { timer.Reset(min(closing, time.Until(c.until))) })
	return func() {
		freeClosing()
		timer.Stop()
		cancelEnd()
		c.halt()
	}
}

// receive receives letters and begins to act on those of the selection. It
// reports whether there may be more.
func (c *call) receive() (more bool, err error) {
	missed := false // letters may be leased to a receive without an answer
	for first := c.before.IsZero(); ; first = false {
		n, more := c.wanted()
		if n == 0 && more {
			_ = c.acting.Wait() // of those under way, some may stay; they return no error
			n, more = c.wanted()
		}
		if n == 0 {
			return more || missed, nil
		}
		// In whole seconds, so that the time of the answer can be calculated.
		lease := queue.WholeSeconds(time.Until(c.until) + leaseBeyond)
		var messages []queue.Message
		unclear, err := request(c.stop, c.end, func(ctx context.Context) (err error) {
			messages, err = c.store.Receive(ctx, c.queue, n, lease)
			return err
		})
		missed = missed || unclear
		switch {
		case err != nil && !unclear && c.stop.Err() != nil:
			return true, nil // nothing was sent
		case err != nil:
			return true, err
		case len(messages) == 0:
			return missed, nil
		}
		if first {
			// The run begins now, by the clock of the queue that it empties. A
			// letter that it causes is put later, so not in an earlier second.
			c.before = messages[0].NextVisible.Add(-lease).UTC()
		}
		for _, m := range messages {
			x := decode(c.source, m)
			if (c.ids == nil || c.ids[x.id]) && (first || x.Inserted.Before(c.before)) {
				c.take(x)
			} else {
				c.hold(x)
			}
		}
	}
}

// wanted returns how many letters to receive, and if that is none, whether
// there may be more.
func (c *call) wanted() (n int, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ids != nil && len(c.turns) == len(c.ids):
		return 0, false
	case c.stop.Err() != nil:
		return 0, true
	}
	return min(queue.MaxReceive, c.sel.Limit-c.matched+c.stayed, c.pace.soon()), true
}

// take begins to act on a letter that is selected. It blocks while many letters
// are under way.
func (c *call) take(x letter) {
	if t := c.turns[x.id]; t != nil {
		c.acting.Go(func() error {
			<-t.ended // its letter began before, so it does not wait for this one
			if t.done {
				c.remove(x)
			} else {
				c.hold(x)
			}
			return nil
		})
		return
	}
	c.mu.Lock()
	c.matched++
	c.mu.Unlock()
	if c.pace.wait(c.stop) != nil {
		c.finish(x, errNotBegun)
		return
	}
	t := &turn{ended: make(chan struct{})}
	c.turns[x.id] = t
	c.acting.Go(func() error {
		defer close(t.ended)
		err := c.act(c, x)
		t.done = err == nil
		c.finish(x, err)
		return nil
	})
}

// finish records the result of act for a letter.
func (c *call) finish(x letter, err error) {
	if err != nil {
		c.hold(x)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.done++
	case errors.Is(err, errNotBegun):
		c.matched--
		c.late = true
	default:
		if !errors.Is(err, unconfirmed) {
			c.stayed++
		}
		if len(c.left) < MaxLeft {
			c.left = append(c.left, Left{x.id, err.Error()})
		}
	}
}

// hold keeps a letter until the end of the call.
func (c *call) hold(x letter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) < maxHeld {
		c.held = append(c.held, x.Message)
	}
}

// putBack makes the letters visible again that stay.
func (c *call) putBack() {
	var updating errgroup.Group
	updating.SetLimit(parallel)
	var failed error // guarded by mu
	for _, m := range c.held {
		updating.Go(func() error {
			_, err := request(c.end, c.end, func(ctx context.Context) error {
				_, err := c.store.Update(ctx, c.queue, m, 0)
				return err
			})
			if err != nil && !errors.Is(err, queue.ErrLeaseLost) {
				c.mu.Lock()
				failed = err
				c.mu.Unlock()
			}
			return nil
		})
	}
	updating.Wait()
	if failed != nil {
		c.opt.Log.WarnContext(c.end, "dead letters stay hidden until their lease ends", "queue", c.queue, "error", failed.Error())
	}
}

// fail ends the call: no letter is begun any more.
func (c *call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = cmp.Or(c.failure, err)
	c.halt()
}

// try counts the letters of the selection without receiving any.
func (c *call) try() (r Result, err error) {
	messages, err := c.peek(c.stop, c.queue)
	var count int64
	if err == nil {
		count, err = c.count(c.stop, c.queue)
	}
	if err != nil {
		return r, err
	}
	matched := 0
	for _, x := range distinct(c.source, messages) {
		if (c.ids == nil || c.ids[x.id]) && (c.sel.Before.IsZero() || x.Inserted.Before(c.sel.Before)) {
			matched++
		}
	}
	unseen := count > int64(len(messages))
	if c.ids == nil && len(messages) == queue.MaxReceive { // else the others cannot be received now
		matched = max(matched, int(count))
	}
	return Result{
		Matched: min(matched, c.sel.Limit),
		More:    matched > c.sel.Limit || unseen && matched < len(c.ids),
		Before:  c.sel.Before,
	}, nil
}
