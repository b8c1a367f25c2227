package scale

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// settle is how long it takes until a reading shows the work of a new
	// instance.
	settle = time.Minute

	// busyShare is the share of the hands of an instance that are at work when it
	// has as much to do as it can: some are kept for queues that are empty.
	busyShare = 0.75
)

// load is a queue with its requirements.
type load struct {
	Sample
	fault    string        // of the sample, which then does not count
	stuck    time.Duration // for how long it has completed nothing while others did; 0: it is not stuck
	ready    float64       // messages that the facts confirm
	arrivals float64       // per second
	seconds  float64       // for which a message keeps a hand; 0: unknown
	left     time.Duration // until its messages must be done
}

// counts reports whether the messages of the queue call for instances.
func (l *load) counts() bool { return l.fault == "" && !l.Held && l.stuck == 0 }

// work returns the time that hands need for the messages that are ready.
func (l *load) work() float64 { return l.ready * l.seconds }

// demand is the sum of what the queues require.
type demand struct {
	rules   *ruleTable
	reading Reading
	loads   []load
	hands   float64 // that an instance has shown
	busy    bool    // as many hands are at work as can be
	stalled bool    // messages wait, and no queue completes any
}

// measure derives the demand from a reading, and the facts to keep of it.
func measure(rules *ruleTable, k kept, r Reading) (demand, kept) {
	d := demand{rules: rules, reading: r}
	passed := max(r.At.Sub(k.At), 0)
	if r.Hands > 0 {
		k.Hands = r.Hands
	}
	if k.Hands == 0 {
		k.Hands = rules.Depth[len(rules.Depth)-1].Hands
	}
	working, most := 0.0, float64(k.Hands*r.Instances)
	deep := false // hands are at work all the time
	for _, s := range r.Samples {
		if q := k.Queues[s.Queue]; s.fault() == "" {
			working += float64(s.Working)
			deep = deep || q.Full && s.full() && !s.Held && s.CompletionsPerSecond > 0 && float64(s.Ready)*q.Seconds > most*settle.Seconds()
		}
	}
	if deep && working > 0 && r.Instances > 0 && r.Instances == k.Running {
		shown := working / float64(r.Instances)
		if k.Shown > 0 {
			shown = smooth(k.Shown, shown, passed)
		}
		k.Shown = shown
	}
	d.hands = float64(k.Hands)
	if k.Shown > 0 {
		d.hands = max(1, min(d.hands, k.Shown))
	}
	d.busy = r.Instances > 0 && working >= busyShare*d.hands*float64(r.Instances)
	queues := make(map[string]seen, len(r.Samples))
	moving := false
	for _, s := range r.Samples {
		l, q := load{Sample: s, fault: s.fault()}, k.Queues[s.Queue]
		if l.fault == "" {
			l.ready = d.confirmed(s, q)
			q = q.next(s, r.At, passed)
			l.left = d.left(s, q.Seconds)
			l.arrivals, l.seconds = max(0, q.Arrivals), q.Seconds
			moving = moving || s.CompletionsPerSecond > 0
		}
		queues[s.Queue] = q
		d.loads = append(d.loads, l)
	}
	d.finishLoads(queues, moving)
	k.Queues, k.Running, k.At = queues, r.Instances, r.At
	return d, k
}

// next returns the facts to keep of a queue.
func (q seen) next(s Sample, at time.Time, passed time.Duration) seen {
	switch {
	case q.Moved.IsZero():
		q.Arrivals, q.Moved = s.CompletionsPerSecond, at
	case passed > 0:
		q.Arrivals = smooth(q.Arrivals, s.CompletionsPerSecond+(s.all()-q.All)/passed.Seconds(), passed)
	}
	if s.CompletionsPerSecond > 0 && s.ResponseSeconds > 0 {
		if q.Seconds == 0 {
			q.Seconds = s.ResponseSeconds
		}
		q.Seconds = smooth(q.Seconds, s.ResponseSeconds, passed)
	}
	if s.CompletionsPerSecond > 0 || s.Ready == 0 || s.Held {
		q.Moved = at
	}
	q.All, q.Full = s.all(), s.full()
	return q
}

// confirmed returns how many messages are ready beyond doubt. A count far above
// a full peek is believed if hands are busy with them, if they are old, or if
// the peek before was full too.
func (d *demand) confirmed(s Sample, before seen) float64 {
	if !s.full() {
		return float64(s.Ready)
	}
	if d.busy || before.Full || d.old(s) {
		return float64(max(s.Ready-max(0, s.Working-s.InFlight), maxPeek)) // the count includes the messages that hands have
	}
	return maxPeek
}

// old reports whether messages of the queue have waited for a considerable part
// of the latency target, or were done late.
func (d *demand) old(s Sample) bool {
	target := d.reading.LatencyTarget.Seconds()
	return s.OldestSeconds > d.rules.Finish*target/2 || s.P95LatencySeconds > target
}

// left returns how much time there is to begin the messages of a queue, if half
// of them take longer than a number of seconds. Those that are late already are
// not worth all instances: they have half the time of new ones. Instances that
// are added for less time than they need to start would be too late.
func (d *demand) left(s Sample, takes float64) time.Duration {
	target := d.rules.Finish * d.reading.LatencyTarget.Seconds()
	left := target - 1.5*takes - s.OldestSeconds
	if s.OldestSeconds > d.reading.LatencyTarget.Seconds() {
		left = target / 2
	}
	return max(seconds(left), time.Duration(d.rules.StartUp)+2*settle)
}

// finishLoads adds the facts that follow from all queues together.
func (d *demand) finishLoads(queues map[string]seen, moving bool) {
	known, n := 0.0, 0
	for i := range d.loads {
		l := &d.loads[i]
		if l.seconds > 0 {
			known, n = known+l.seconds, n+1
		}
		// Long work may take longer than the cool-down without being stuck.
		patience := max(time.Duration(d.rules.CoolDown), time.Duration(min(3*l.seconds, 1e6)*float64(time.Second)))
		idle := d.reading.At.Sub(queues[l.Queue].Moved)
		if l.fault != "" || l.Held || idle < patience {
			continue
		}
		if moving {
			l.stuck = idle
		} else {
			d.stalled = true
		}
	}
	for i := range d.loads { // a queue that was not yet worked on is taken for like the others
		if l := &d.loads[i]; l.seconds == 0 && n > 0 {
			l.seconds = known / float64(n)
		}
	}
}

// instances returns how many instances finish the messages in time, as a
// fraction. Messages that arrive later may also be done later, so each deadline
// is compared with the work that is due until then.
func (d *demand) instances() (need float64) {
	loads := slices.DeleteFunc(slices.Clone(d.loads), func(l load) bool { return !l.counts() })
	slices.SortStableFunc(loads, func(a, b load) int { return cmp.Compare(a.left, b.left) })
	work, now := 0.0, float64(d.reading.Instances)
	startUp := (time.Duration(d.rules.StartUp) + settle/2).Seconds()
	for _, l := range loads {
		work += l.work()
		left := l.left.Seconds()
		n := work / (d.hands * left)
		if n > now { // those that run begin at once, the others after they started
			n = max(now, (work/d.hands-now*startUp)/(left-startUp))
		}
		need = max(need, n)
	}
	return min(need, maxInstances)
}

// busyInstances returns how many instances must stay for the present work.
func (d *demand) busyInstances() float64 {
	hands, cpu := 0.0, 0.0
	for _, l := range d.loads {
		if l.counts() {
			hands += float64(l.Working)
			cpu = max(cpu, l.CPU)
		}
	}
	return min(max(hands/d.hands, cpu/d.rules.CPU*float64(d.reading.Instances)), float64(d.reading.Instances))
}

// finish returns when a number of instances will have done all messages that
// are ready, or false if the speed is unknown.
func (d *demand) finish(instances int) (time.Duration, bool) {
	work := 0.0
	for _, l := range d.loads {
		if l.counts() {
			if l.ready > 0 && l.seconds == 0 {
				return 0, false
			}
			work += l.work()
		}
	}
	if work > 0 && instances == 0 {
		return 0, false
	}
	seconds := work / (d.hands * float64(max(instances, 1)))
	return time.Duration(min(seconds, math.MaxInt32) * float64(time.Second)), true
}
