package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kennel/table"
)

// What callers branch on, beside ErrOwned, ErrNoCondition, ErrCorrupt and
// ErrMessage. Check for ErrUnclear first: the call may have changed something,
// or may still change it. Without ErrUnclear, an error means that the call
// changed nothing that a caller can see.
//
// ErrRefused is for what a retry does not change: a missing permission, a
// disabled account.
var (
	ErrNotFound = table.ErrNotFound
	ErrChanged  = table.ErrChanged
	ErrRefused  = table.ErrRefused
	ErrUnclear  = table.ErrUnclear
)

// ErrOwned reports that a channel of this name belongs to another owner.
var ErrOwned = errors.New("the channel belongs to another owner")

// Outbox puts messages into the queue whose messages come back to
// [Channels.Handle], at least once each and in any order. Both methods are
// called concurrently; the store does not retry.
type Outbox interface {
	// Put adds a message that nobody receives before delay is over. After an
	// error other than ErrRefused the message may exist all the same.
	Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error)

	// Delete removes a message that was not received since it was put, and
	// returns an error if it was.
	Delete(ctx context.Context, receipt string) error
}

// Channel is a channel that exists.
type Channel struct {
	Name        string    `json:"channel"`
	Owner       string    `json:"owner"`
	Incarnation string    `json:"incarnation"` // differs between channels that had the same name one after the other
	CreatedAt   time.Time `json:"createdAt"`
}

// List is a page of a list. Only an empty Continuation is the end: a page may
// be shorter than requested, even empty.
type List[T any] struct {
	Items        []T    `json:"items"`
	Continuation string `json:"continuation,omitempty"`
}

// Options are the optional settings of [Channels]; nil and zero fields mean the
// defaults.
type Options struct {
	// AcceptFor is how long Delete itself may spend on the blogs; default 5 s,
	// none if negative. Handle deletes the rest.
	AcceptFor time.Duration

	// MessageDelay is how long after an accepted deletion its message is
	// delivered, unless the deletion is done by then; default 2 s above
	// AcceptFor. Much above, a deletion that Delete does not finish waits that
	// long; below, Delete and Handle work at the same time.
	MessageDelay time.Duration

	// HandleFor is how long one Handle works before it puts a message to
	// continue; default 4 min, below the five that every function plan allows.
	// It stops before its ctx ends in any case.
	HandleFor time.Duration

	Parallel int // transactions of one deletion in flight at once; default 4

	StalledAfter time.Duration // Sweep restarts a deletion without progress for so long; default 15 min
	OrphanAfter  time.Duration // Sweep gives up a creation that is unfinished for so long; default 1 h
	KeepRecords  time.Duration // how long a deletion's record is kept; default 30 days, at least 8
}

// minKeepRecords is above the seven days that a message lives: one that
// outlives its record would look like a message that was never valid.
const minKeepRecords = 8 * 24 * time.Hour

func (o *Options) withDefaults() (Options, error) {
	var f Options
	if o != nil {
		f = *o
	}
	f.AcceptFor = cmp.Or(f.AcceptFor, 5*time.Second)
	f.MessageDelay = cmp.Or(f.MessageDelay, max(f.AcceptFor, 0)+2*time.Second)
	f.HandleFor = cmp.Or(f.HandleFor, 4*time.Minute)
	f.Parallel = cmp.Or(f.Parallel, 4)
	f.StalledAfter = cmp.Or(f.StalledAfter, 15*time.Minute)
	f.OrphanAfter = cmp.Or(f.OrphanAfter, time.Hour)
	f.KeepRecords = cmp.Or(f.KeepRecords, 30*24*time.Hour)
	switch {
	case min(f.MessageDelay, f.HandleFor, f.StalledAfter, f.OrphanAfter) < 0:
		return f, errors.New("option MessageDelay, HandleFor, StalledAfter or OrphanAfter is negative")
	case f.Parallel < 0:
		return f, fmt.Errorf("option Parallel is %d, which is negative", f.Parallel)
	case f.KeepRecords < minKeepRecords:
		return f, fmt.Errorf("option KeepRecords is %v, which is less than %v", f.KeepRecords, minKeepRecords)
	}
	return f, nil
}

// Channels are the channels and blogs in two tables. All methods may be called
// concurrently, by any number of processes.
type Channels struct {
	channels, blogs *table.Table
	outbox          Outbox
	opt             Options

	mu   sync.Mutex
	last time.Time // of the last blog created here; guarded by mu
}

// New checks its arguments and makes no request. The tables must not be the
// same.
func New(channels, blogs table.Store, outbox Outbox, o *Options) (*Channels, error) {
	opt, err := o.withDefaults()
	if outbox == nil {
		err = cmp.Or(err, errors.New("the outbox is nil"))
	}
	channelTable, noChannels := table.New(channels)
	blogTable, noBlogs := table.New(blogs)
	if err = cmp.Or(err, noChannels, noBlogs); err != nil {
		return nil, fmt.Errorf("new channels: %w", err)
	}
	return &Channels{channels: channelTable, blogs: blogTable, outbox: outbox, opt: opt}, nil
}

// Read returns a channel, or ErrNotFound, also for one whose deletion has
// begun.
func (c *Channels) Read(ctx context.Context, name string) (Channel, error) {
	ch, err := c.find(ctx, name)
	return ch.public(), err
}

// List returns up to top channels in the order of their names, from the place
// that continuation names; "" is the beginning.
func (c *Channels) List(ctx context.Context, top int, continuation string) (List[Channel], error) {
	return list(ctx, c.channels, "channels", table.Query{Key: nameKey, Top: top}, continuation, func(row table.Row) (Channel, error) {
		ch, err := readName(row)
		return ch.public(), err
	})
}

// find is for callers that got the name from outside.
func (c *Channels) find(ctx context.Context, name string) (record, error) {
	if err := checkName(name); err != nil {
		return record{}, err
	}
	ch, err := c.named(ctx, name)
	if err != nil {
		return record{}, fmt.Errorf("channel %q: %w", name, err)
	}
	return ch, nil
}

// named returns the incarnation that has the name now.
func (c *Channels) named(ctx context.Context, name string) (record, error) {
	row, err := c.channels.Get(ctx, channelPartition(name), nameKey)
	if err != nil {
		return record{}, err
	}
	return readName(row)
}

// record returns an incarnation's row.
func (c *Channels) record(ctx context.Context, name, incarnation string) (record, error) {
	row, err := c.channels.Get(ctx, channelPartition(name), incarnation)
	if err != nil {
		return record{}, err
	}
	return readRecord(row)
}

// recordAfter returns an incarnation's row after a write to it failed.
func (c *Channels) recordAfter(ctx context.Context, write error, name, incarnation string) (record, error) {
	row, found, err := c.channels.ReadBack(ctx, write, channelPartition(name), incarnation)
	switch {
	case err != nil:
		return record{}, err
	case !found:
		return record{}, fmt.Errorf("%v; its row: %w", write, ErrNotFound)
	}
	return readRecord(row)
}

func (r record) public() Channel {
	return Channel{Name: r.channel, Owner: r.owner, Incarnation: r.incarnation, CreatedAt: r.createdAt}
}
