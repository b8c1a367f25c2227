package queue

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// maxAhead is how many messages of one queue are received at most before a hand
// is free for them: one batch for each poller, and one to work on.
const maxAhead = (maxPollers + 1) * MaxReceive

// rulesEvery is how long a change of the rules for hands waits at most.
const rulesEvery = time.Minute

// partition is one queue of a listener.
type partition struct {
	*engine
	queue string
	lane  *lane
	nudge chan struct{} // something changed for run; size 1

	unfinished atomic.Int64 // messages received whose delivery has not ended
	counters

	mu   sync.Mutex
	news arrived // signals since run last checked; guarded by mu

	// Only run touches these.
	poll       poll
	width      width
	asked      int       // messages of the receives under way
	endedThen  int64     // messages that had left a hand at the last count
	oldest     time.Time // when the oldest message of the last receive was put
	announced  time.Time
	announceIn time.Duration // not before this long after announced
	answers    chan func(now time.Time)
}

// arrived is what signals have reported.
type arrived struct {
	listens     []bool
	work, awake bool
}

func newPartition(e *engine, queue string, lane *lane) *partition {
	return &partition{
		engine: e, queue: queue, lane: lane,
		nudge:   make(chan struct{}, 1),
		answers: make(chan func(time.Time)),
		poll:    poll{maxIdle: e.opt.MaxIdle, lease: e.opt.Lease, safety: safetyPoll, random: rand.Float64},
	}
}

// signal records a signal.
func (p *partition) signal(change func(*arrived)) {
	p.mu.Lock()
	change(&p.news)
	p.mu.Unlock()
	notify(p.nudge)
}

// finish records that the delivery of a message ended.
func (p *partition) finish() {
	p.unfinished.Add(-1)
	notify(p.nudge)
}

// received is what is known of a message beside itself.
type received struct {
	began    time.Time // when its lease began
	answered time.Time
	share    float64 // of the request
	turn     *turn   // nil: it has a hand
}

// run polls the queue until ctx ends, and then until the last request ends. It
// passes each message to deliver.
func (p *partition) run(ctx context.Context, deliver func(Message, received)) {
	p.poll.start(time.Now())
	var requests sync.WaitGroup
	defer requests.Wait()
	timer := time.NewTimer(rulesEvery)
	defer timer.Stop()
	stopped := ctx.Done()
	for {
		now := time.Now()
		p.applySignals(now)
		wait := rulesEvery
		var gate <-chan struct{}
		if ctx.Err() != nil {
			if p.poll.under == 0 && !p.poll.counting {
				return
			}
			stopped = nil
		} else {
			if p.opt.Admit != nil {
				var open bool
				open, gate = p.opt.Admit(p.queue)
				p.poll.admits(now, open)
			}
			room, batch := p.room(now)
			need, at := p.poll.needs(now, room, batch, int(p.unfinished.Load()))
			switch {
			case need == receive:
				p.beginReceive(&requests, min(room, MaxReceive), deliver)
				continue
			case need == count:
				p.beginCount(&requests)
				continue
			case !at.IsZero():
				wait = min(wait, at.Sub(now))
			}
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-p.nudge:
		case <-gate:
		case take := <-p.answers:
			take(time.Now())
		case <-stopped:
		}
	}
}

// applySignals takes the signals that have arrived.
func (p *partition) applySignals(now time.Time) {
	p.mu.Lock()
	news := p.news
	p.news = arrived{}
	p.mu.Unlock()
	for _, up := range news.listens {
		p.poll.listens(now, up)
	}
	if news.work {
		p.poll.signalled(now)
	}
	if news.awake {
		p.announced = now // by a listener, perhaps this one
	}
}

// room updates the queue's concurrency limit, by the rule for its depth and by
// measured throughput. It returns how many more messages to receive, and how
// many to wait for while many are there.
//
// Messages are received before a hand is free only as far as the hands work
// them off in a quarter of a lease, by the time that one took so far.
func (p *partition) room(now time.Time) (room, batch int) {
	load, unfinished := p.lane.load(), int(p.unfinished.Load())
	messages := int64(unfinished)
	if p.poll.hot {
		messages = max(messages, p.poll.depth-(load.ended-p.endedThen))
	}
	age := time.Duration(0)
	if messages > 0 && !p.oldest.IsZero() {
		age = max(now.Sub(p.oldest), 0) // the clock may be another one
	}
	limit := min(max(p.opt.HandsFor(messages, age), 1), p.opt.Hands)
	limit = p.width.of(now, limit, p.poll.hot, load.ended)
	p.lane.setLimit(limit)
	ahead := maxAhead
	if load.perHand > 0 {
		ahead = int(min(maxAhead, float64(limit)*float64(p.opt.Lease/4)/float64(load.perHand)))
	}
	if !load.measured {
		ahead = min(ahead, max(min(MaxReceive, p.opt.Hands)-limit, 0)) // one receive measures the queue
	}
	target := limit + ahead
	return target - unfinished - p.asked, min(max(ahead, 1), MaxReceive)
}

// beginReceive receives up to max messages.
func (p *partition) beginReceive(requests *sync.WaitGroup, max int, deliver func(Message, received)) {
	version := p.poll.begin()
	p.asked += max
	requests.Go(func() {
		ctx, cancel := context.WithTimeout(p.end, callTimeout)
		defer cancel()
		began := time.Now()
		p.receives.Add(1)
		messages, err := p.store.Receive(ctx, p.queue, max, p.opt.Lease)
		p.answers <- func(now time.Time) {
			p.asked -= max
			p.poll.received(now, version, max, len(messages), err)
			p.received.Add(int64(len(messages)))
			p.unfinished.Add(int64(len(messages)))
			for i, m := range messages {
				if i == 0 || m.Inserted.Before(p.oldest) {
					p.oldest = m.Inserted
				}
				p.ages.Add(m.Inserted)
				deliver(m, received{began, now, 1 / float64(len(messages)), p.lane.wait()}) // in the order of the answer
			}
			switch {
			case err != nil:
				p.failed.Add(1)
				p.opt.Log.WarnContext(ctx, "cannot receive messages; trying again later", "queue", p.queue, "error", err.Error(),
					"failures", p.poll.failures, "in", p.poll.next.Sub(now).String())
			case len(messages) == 0:
				p.empty.Add(1)
			default:
				p.announce(now)
			}
		}
	})
}

// beginCount counts the messages.
func (p *partition) beginCount(requests *sync.WaitGroup) {
	version := p.poll.beginCount(int(p.unfinished.Load()))
	ended := p.lane.load().ended
	requests.Go(func() {
		ctx, cancel := context.WithTimeout(p.end, callTimeout)
		defer cancel()
		p.counts.Add(1)
		messages, err := p.store.Count(ctx, p.queue)
		p.answers <- func(now time.Time) {
			p.poll.countedAs(now, version, messages, err)
			if err != nil {
				p.opt.Log.WarnContext(ctx, "cannot count messages; polling goes on", "queue", p.queue, "error", err.Error())
				return
			}
			p.endedThen = ended
		}
	})
}

// announce signals that this listener is awake, unless it or another one did
// that within the last second or so, or signals are not received anyway.
func (p *partition) announce(now time.Time) {
	if !p.poll.push || now.Sub(p.announced) < p.announceIn {
		return
	}
	p.announced = now
	p.announceIn = signalEvery*7/10 + rand.N(signalEvery/5) // so that two listeners do not announce together
	p.delivered.Go(func() {
		ctx, cancel := context.WithTimeout(p.end, signalEvery) // later it is useless
		defer cancel()
		_ = p.opt.Signals.Publish(ctx, Signal{Queue: p.queue, Kind: Awake}) // without it publishers signal more often
	})
}

func (p *partition) state() QueueState {
	repeated := p.repeated.Load()
	var lastDone time.Time
	if at := p.lastDone.Load(); at != 0 {
		lastDone = time.Unix(0, at)
	}
	return QueueState{
		LastDone: lastDone,
		Queue:    p.queue, Hands: p.lane.load().working, Pool: p.opt.Hands,
		Receives: p.receives.Load(), EmptyReceives: p.empty.Load(), FailedReceives: p.failed.Load(),
		Received: p.received.Load(), Done: p.done.Load() + repeated, Repeated: repeated, Retried: p.retried.Load(),
		Returned: p.returned.Load(), DeadLetters: p.deadLetters.Load(), LeasesLost: p.lost.Load(),
		Ages: p.ages.Counts(), AgeSeconds: p.ages.Seconds(),
		HandSeconds: time.Duration(p.handTime.Load()).Seconds(), Latencies: p.latencies.Counts(),
		Requests: map[string]int64{
			"receive": p.receives.Load(), "count": p.counts.Load(), "update": p.updates.Load(),
			"delete": p.deletes.Load(), "put": p.puts.Load(),
		},
	}
}
