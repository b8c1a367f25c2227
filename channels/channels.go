package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kennel/internal/table"
)

// Errors of package table that callers check for, besides ErrOwned,
// ErrNoCondition, ErrCorrupt and ErrMessage. Check for ErrUnclear first: the
// call may have changed something, or may still change it. Without ErrUnclear,
// an error means that the call changed nothing that a caller can see.
//
// ErrRefused reports a condition that a retry does not change: a missing
// permission or a disabled account.
var (
	ErrNotFound = table.ErrNotFound
	ErrChanged  = table.ErrChanged
	ErrRefused  = table.ErrRefused
	ErrUnclear  = table.ErrUnclear
)

// ErrOwned reports that a channel of this name belongs to another owner.
var ErrOwned = errors.New("the channel belongs to another owner")

// Outbox puts messages into the queue that feeds [Channels.Handle]: each
// message at least once, and in any order. Both methods are called
// concurrently. The store does not retry.
type Outbox interface {
	// Put adds a message that is not delivered before delay is over. After an
	// error other than ErrRefused the message may exist.
	Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error)

	// Delete removes a message that was not delivered yet. It returns an error
	// if it was.
	Delete(ctx context.Context, receipt string) error
}

// Channel is a channel that exists.
type Channel struct {
	Name        string    `json:"channel"`
	Owner       string    `json:"owner"`
	Incarnation string    `json:"incarnation"` // differs between successive channels of the same name
	CreatedAt   time.Time `json:"createdAt"`
}

// List is a page of a list. A page may be shorter than requested, or even
// empty; only an empty Continuation marks the end.
type List[T any] struct {
	Items        []T    `json:"items"`
	Continuation string `json:"continuation,omitempty"`

	// LeftOut counts the rows of the page that are invalid or have another
	// format, so that one of them does not hide all others. Problem is the
	// ErrCorrupt of the first one.
	LeftOut int   `json:"leftOut,omitzero"`
	Problem error `json:"-"`
}

// Options are the optional settings of [Channels]; nil and zero fields mean the
// defaults.
type Options struct {
	// AcceptFor is how long Delete itself may delete blogs. Handle deletes the
	// rest. Default 5 s; if negative, Delete deletes none.
	AcceptFor time.Duration

	// MessageDelay is the time from accepting a deletion to the delivery of its
	// message, unless the deletion is done by then. If it is much longer than
	// AcceptFor, a deletion that Delete does not finish waits that long. If it
	// is shorter, Delete and Handle work at the same time. Default 2 s more
	// than AcceptFor.
	MessageDelay time.Duration

	// HandleFor is how long one Handle works before it puts a message to
	// continue. Handle always stops before its ctx ends. Default 4 min, because
	// every function plan allows 5 min.
	HandleFor time.Duration

	Parallel int // maximum of concurrent transactions of one deletion; default 4

	StalledAfter time.Duration // Sweep restarts a deletion without progress for this long; default 15 min
	OrphanAfter  time.Duration // Sweep gives up a creation that is unfinished for this long; default 1 h
	KeepRecords  time.Duration // how long a deletion's record is kept; default 30 days, at least 8
}

// minKeepRecords is longer than the seven days that a message lives. A message
// that outlives its record would be treated as an invalid one.
const minKeepRecords = 8 * 24 * time.Hour

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.AcceptFor = cmp.Or(opt.AcceptFor, 5*time.Second)
	opt.MessageDelay = cmp.Or(opt.MessageDelay, max(opt.AcceptFor, 0)+2*time.Second)
	opt.HandleFor = cmp.Or(opt.HandleFor, 4*time.Minute)
	opt.Parallel = cmp.Or(opt.Parallel, 4)
	opt.StalledAfter = cmp.Or(opt.StalledAfter, 15*time.Minute)
	opt.OrphanAfter = cmp.Or(opt.OrphanAfter, time.Hour)
	opt.KeepRecords = cmp.Or(opt.KeepRecords, 30*24*time.Hour)
	switch {
	case opt.MessageDelay < 0:
		return opt, fmt.Errorf("channels.Options.MessageDelay is %v: use a positive duration", opt.MessageDelay)
	case opt.HandleFor < 0:
		return opt, fmt.Errorf("channels.Options.HandleFor is %v: use a positive duration", opt.HandleFor)
	case opt.Parallel < 0:
		return opt, fmt.Errorf("channels.Options.Parallel is %d: use at least 1", opt.Parallel)
	case opt.StalledAfter < 0:
		return opt, fmt.Errorf("channels.Options.StalledAfter is %v: use a positive duration", opt.StalledAfter)
	case opt.OrphanAfter < 0:
		return opt, fmt.Errorf("channels.Options.OrphanAfter is %v: use a positive duration", opt.OrphanAfter)
	case opt.KeepRecords < minKeepRecords:
		return opt, fmt.Errorf("channels.Options.KeepRecords is %v: use at least %v", opt.KeepRecords, minKeepRecords)
	}
	return opt, nil
}

// Channels manages the channels and blogs in two tables. All methods may be
// called concurrently, by any number of processes.
type Channels struct {
	channels, blogs *table.Table
	outbox          Outbox
	opt             Options

	mu   sync.Mutex
	last time.Time // of the last blog created here; guarded by mu
}

// New returns the channels in two different tables. It makes no request.
func New(channels, blogs table.Store, outbox Outbox, options *Options) (*Channels, error) {
	opt, err := options.withDefaults()
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

// Read returns a channel. ErrNotFound reports that it does not exist or that
// its deletion began.
func (c *Channels) Read(ctx context.Context, name string) (Channel, error) {
	ch, err := c.find(ctx, name)
	return ch.public(), err
}

// List returns up to top channels, ordered by name. The continuation is that of
// the page before, or "" for the first page.
func (c *Channels) List(ctx context.Context, top int, continuation string) (List[Channel], error) {
	return list(ctx, c.channels, "channels", table.Query{Key: nameKey, Top: top}, continuation, func(row table.Row) (Channel, error) {
		ch, err := readName(row)
		return ch.public(), err
	})
}

// find is named for an unchecked name.
func (c *Channels) find(ctx context.Context, name string) (record, error) {
	if err := CheckName(name); err != nil {
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
		return record{}, fmt.Errorf("%v; read the row back: %w", write, ErrNotFound)
	}
	return readRecord(row)
}

func (r record) public() Channel {
	return Channel{Name: r.channel, Owner: r.owner, Incarnation: r.incarnation, CreatedAt: r.createdAt}
}
