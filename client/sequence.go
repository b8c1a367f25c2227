package client

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// ErrClosed reports that a [Sequence] is closed.
var ErrClosed = errors.New("the sequence is closed")

const (
	// maxPiece is the most numbers that the app gives out at once.
	maxPiece = 10_000

	// pieceGrowth is how many times larger than the last piece one may be:
	// a burst does not predict the demand of the next second.
	pieceGrowth = 4

	// returnTimeout bounds the return of numbers in Close.
	returnTimeout = 5 * time.Second
)

// SequenceOptions configure a [Sequence]. Nil and zero fields mean the defaults.
type SequenceOptions struct {
	// Lasts is for how long one piece of numbers should last. The numbers of one
	// and a half pieces are lost if the program ends without Close. The default
	// is a second. Pieces that are older than ten minutes do not go back.
	Lasts time.Duration
}

func (o *SequenceOptions) withDefaults() (SequenceOptions, error) {
	var opt SequenceOptions
	if o != nil {
		opt = *o
	}
	opt.Lasts = cmp.Or(opt.Lasts, time.Second)
	if opt.Lasts < 0 {
		return opt, invalidf("client.SequenceOptions.Lasts is %v: use more than 0", opt.Lasts)
	}
	return opt, nil
}

// Sequence draws numbers of a sequence one by one. It requests them in pieces
// that no other caller gets, so most calls need no request.
//
// The first piece is one number. The next ones follow the demand of this
// program, up to 10,000 numbers, and shrink when it ends. Before a piece is used
// up, the next one is requested, one at a time.
//
// Close returns the numbers that were not used to the app, which gives them to
// other callers. It takes them in the process that gave them out, within ten
// minutes: with several instances, the request for that may reach another one,
// and then they are lost, which leaves a gap. So are those of a program that
// ends without Close, of up to one and a half times SequenceOptions.Lasts, and
// a piece that was on its way at Close. Numbers need not ascend: a piece can
// come from another instance of the app than the one before, or from another
// program that did not use it. A number that was reserved before a call of
// [Client.RaiseSequence] can be below the minimum of that call.
//
// A Sequence may be used by several goroutines at once.
type Sequence struct {
	c     *Client
	name  string
	lasts time.Duration

	running context.Context // ends with Close
	stop    context.CancelFunc
	refills sync.WaitGroup

	mu        sync.Mutex
	closed    bool          // guarded by mu, as all below
	pieces    []piece       // the one in use, and the one after it; without the numbers that were issued
	low       int64         // the piece in use is half used up when it has so many left
	refilling bool          // a request is under way
	waiting   int           // callers
	arrived   chan struct{} // closed when a request has ended
	failed    error         // of that request

	size   int64     // of the newest piece
	issued int64     // since it was requested
	since  time.Time // when it was requested
	waited bool      // a caller waited since then
}

// Sequence returns a [Sequence], which draws numbers in pieces. It sends no
// request. Close it after use.
func (c *Client) Sequence(name string, options *SequenceOptions) (*Sequence, error) {
	if err := checkName("sequence", name); err != nil {
		return nil, err
	}
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Sequence{c: c, name: name, lasts: opt.Lasts, arrived: make(chan struct{})}
	s.running, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Next returns the next number. No other caller gets it. It waits for the app
// only if no number is left, at most until ctx ends; a number that arrives later
// is for the next call. An error of the app is as that of [Client.Next], and
// the next call tries again. After Close it is [ErrClosed].
func (s *Sequence) Next(ctx context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, ErrClosed
		case ctx.Err() != nil: // before a number is taken, which would be lost
			return 0, ctx.Err()
		case len(s.pieces) > 0:
			n := s.take()
			if len(s.pieces) == 1 && s.pieces[0].Count <= s.low && s.failed == nil {
				s.refill() // after an error only a caller that needs a number tries again
			}
			return n, nil
		}
		s.refill()
		if err := s.wait(ctx); err != nil {
			return 0, err
		}
	}
}

// take returns the next number of the pieces. The caller holds mu.
func (s *Sequence) take() int64 {
	p := &s.pieces[0]
	n := p.First
	p.First++
	p.Count--
	s.issued++
	if p.Count == 0 {
		s.pieces = s.pieces[1:]
		s.low = s.half()
	}
	return n
}

// half returns how many numbers the piece in use has left when the next one is
// requested. The caller holds mu.
func (s *Sequence) half() int64 {
	if len(s.pieces) == 0 {
		return 0
	}
	return s.pieces[0].Count / 2
}

// wait waits for the end of the request that is under way. The caller holds mu.
func (s *Sequence) wait(ctx context.Context) error {
	arrived := s.arrived
	s.waiting++
	s.waited = true
	s.mu.Unlock()
	select {
	case <-arrived:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.waiting--
	if arrived != s.arrived && len(s.pieces) == 0 && !s.closed && ctx.Err() == nil {
		return s.failed
	}
	return nil
}

// refill begins to request a piece, unless that is under way. The caller holds
// mu.
func (s *Sequence) refill() {
	if s.refilling {
		return
	}
	s.refilling = true
	now := time.Now()
	size := s.next(now)
	s.size, s.issued, s.since, s.waited = size, 0, now, false
	s.refills.Go(func() {
		p, err := s.draw(int(size))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refilling, s.failed = false, err
		if err == nil {
			s.pieces = append(s.pieces, p)
			if len(s.pieces) == 1 {
				s.low = s.half()
			}
		}
		close(s.arrived)
		s.arrived = make(chan struct{})
	})
}

// draw requests a piece. A single number has no lease: a caller waits for it.
func (s *Sequence) draw(size int) (piece, error) {
	query := ""
	if size > 1 {
		query = "&lease=true"
	}
	return s.c.draw(s.running, s.name, size, query)
}

// next returns the size of the next piece: the demand since the last one was
// requested, for as long as a piece should last. If callers had to wait, they
// would have used more. The caller holds mu.
func (s *Sequence) next(now time.Time) int64 {
	if s.size == 0 {
		return 1
	}
	period := max(now.Sub(s.since), time.Microsecond)
	wanted := float64(s.issued+int64(s.waiting)) / period.Seconds() * s.lasts.Seconds()
	if s.waited && period < s.lasts {
		wanted = max(wanted, float64(2*s.size))
	}
	most := float64(min(max(pieceGrowth*s.size, int64(s.waiting)), maxPiece))
	return int64(math.Ceil(min(max(wanted, 1), most)))
}

// Close ends the sequence, waits until its request has ended and returns the
// numbers that were not used, for at most five seconds. After an error they are
// lost.
func (s *Sequence) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.refills.Wait()

	s.mu.Lock()
	unused := s.pieces
	s.pieces = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), returnTimeout)
	defer cancel()
	for _, p := range unused {
		if p.Lease != "" {
			s.c.giveBack(ctx, p)
		}
	}
}
