package channels

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrOwned says that a channel of that name belongs to somebody else.
var ErrOwned = errors.New("the channel belongs to another owner")

// Channel is a channel that is there.
type Channel struct {
	Name        string    `json:"channel"`
	Owner       string    `json:"owner"`
	Incarnation string    `json:"incarnation"` // tells channels apart that had the same name one after the other
	CreatedAt   time.Time `json:"createdAt"`
}

// List is a page of a list. Only an empty Continuation is the end: a page may
// be shorter than asked for, even empty.
type List[T any] struct {
	Items        []T    `json:"items"`
	Continuation string `json:"continuation,omitempty"`
}

// Options are the optional parts of [Channels]; nil and zero mean the defaults.
type Options struct {
	// AcceptFor is how long Delete itself may spend on the blogs; default 5 s,
	// none if negative. What is left is done by Handle.
	AcceptFor time.Duration

	// MessageDelay is how long after an accepted deletion its message is
	// delivered, unless the deletion is done by then; default 2 s above
	// AcceptFor. Much above, and a deletion that Delete does not end stands
	// still for so long; below, and two work at the same.
	MessageDelay time.Duration

	// HandleFor is how long one Handle works before it puts a message to go
	// on; default 4 min, below the five that a function has at least. It stops
	// before its ctx ends in any case.
	HandleFor time.Duration

	Parallel int // transactions of one deletion under way at once; default 4

	StalledAfter time.Duration // without progress for so long, Sweep restarts a deletion; default 15 min
	OrphanAfter  time.Duration // a creation that has not come to its end for so long is given up by Sweep; default 1 h
	KeepRecords  time.Duration // how long a deletion's record is kept; default 30 days, at least 8

	// Step, if set, is called with each of [Steps] when that step is done and
	// before the next begins, by the goroutine that does them.
	Step func(name string)
}

func (o *Options) filled() Options {
	var f Options
	if o != nil {
		f = *o
	}
	if f.AcceptFor == 0 {
		f.AcceptFor = 5 * time.Second
	}
	f.MessageDelay = orDefault(f.MessageDelay, max(f.AcceptFor, 0)+2*time.Second)
	f.HandleFor = orDefault(f.HandleFor, 4*time.Minute)
	f.Parallel = orDefault(f.Parallel, 4)
	f.StalledAfter = orDefault(f.StalledAfter, 15*time.Minute)
	f.OrphanAfter = orDefault(f.OrphanAfter, time.Hour)
	// A message lives for seven days; one that outlives its record could not
	// be told from nonsense.
	f.KeepRecords = max(orDefault(f.KeepRecords, 30*24*time.Hour), 8*24*time.Hour)
	if f.Step == nil {
		f.Step = func(string) {}
	}
	return f
}

func orDefault[T time.Duration | int](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Channels are the channels and blogs in two tables. All methods may be called
// concurrently, by any number of processes.
type Channels struct {
	channels, blogs patient
	outbox          Outbox
	opt             Options

	mu   sync.Mutex
	last time.Time // of the last blog created here; guarded by mu
}

// New makes no request. The tables must not be the same.
func New(channels, blogs Table, outbox Outbox, o *Options) *Channels {
	return &Channels{channels: patient{channels}, blogs: patient{blogs}, outbox: outbox, opt: o.filled()}
}

// Read returns a channel, or ErrNotFound, also for one whose deletion has
// begun.
func (c *Channels) Read(ctx context.Context, name string) (Channel, error) {
	ch, err := c.find(ctx, name)
	return ch.public(), err
}

// List returns up to top channels in the order of their names, starting where
// continuation says; "" is the beginning.
func (c *Channels) List(ctx context.Context, top int, continuation string) (List[Channel], error) {
	return list(ctx, c.channels, "channels", Query{Key: nameKey, Top: top}, continuation, func(row Row) (Channel, error) {
		ch, err := readName(row)
		return ch.public(), err
	})
}

// find is for callers that were given the name from outside.
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

// named returns what a name stands for now.
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

func (r record) public() Channel {
	return Channel{Name: r.channel, Owner: r.owner, Incarnation: r.incarnation, CreatedAt: r.createdAt}
}
