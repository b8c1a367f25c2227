package scale

import (
	"math"
	"time"
)

// margin is by how much more than the need is added at once, so that errors of
// the forecast do not need a change each.
const margin = 1.1

// settled is the share of the recent need that is still needed when instances
// are removed. While the need falls faster, one change later is worth more than
// several now.
const settled = 0.75

// Advice is the number of instances that a worker needs, and why.
type Advice struct {
	Instances int
	Reason    string        // one sentence
	Queues    []QueueAdvice // in the order of the samples
}

// QueueAdvice is the number of hands that each instance of the worker should
// use for a queue.
type QueueAdvice struct {
	Queue             string
	Hands             int     // of each instance
	Reason            string  // one sentence
	ArrivalsPerSecond float64 // estimated
}

// Advise returns the advice for a reading, and the state for the next one.
func Advise(rules Rules, before State, reading Reading) (Advice, State) {
	t, r := rules.table(), reading.sane()
	past := before.kept.since(r.At)
	if past.At.IsZero() {
		past.Instances = r.Instances
	}
	demand, k := measure(t, past, r)
	c := choice{demand: demand, kept: k, now: r.At}
	c.kept.Instances = min(c.kept.Instances, t.Instances.Max) // an operator may have lowered it
	c.lower = t.floor(r.At, 0)
	advice := Advice{}
	advice.Instances, advice.Reason = c.choose()
	for i := range demand.loads {
		advice.Queues = append(advice.Queues, demand.advise(&demand.loads[i]))
	}
	return advice, State{c.kept}
}

// floor returns the minimum of instances that the rules require at a time or
// soon after it, whatever the queues have.
func (t *ruleTable) floor(at time.Time, soon time.Duration) int {
	n := t.Instances.Min
	for i := range t.Windows {
		if w := &t.Windows[i]; w.Instances > n && w.opens(at, soon) {
			n = w.Instances
		}
	}
	return n
}

// choice is how many instances to advise.
type choice struct {
	demand
	kept  kept // with the instances that were advised before
	now   time.Time
	lower int // that the rules require now
	need  float64
	rows  int // that rows of the rules require
	begin int // while it is unknown how fast they are
}

// choose returns the instances and the reason, and keeps them.
func (c *choice) choose() (instances int, reason string) {
	c.need = c.instances()
	c.rows, c.begin = c.byRows(), c.bootstrap()
	was := c.kept.Instances
	wanted := max(c.lower, c.rows, c.begin, int(math.Ceil(c.need)))
	wanted = min(wanted, c.rules.Instances.Max)
	enough := max(wanted, int(math.Ceil(c.busyInstances())))
	c.kept.Needed = append(c.kept.Needed, needed{c.now, enough})
	most, whole := c.kept.most(c.now, time.Duration(c.rules.CoolDown))
	if wanted > was {
		return c.add(was, wanted)
	}
	return c.remove(was, enough, most, whole)
}

// byRows returns how many instances the rows of the rules require. An operator
// writes a row for the count that is shown, so it counts without confirmation.
func (c *choice) byRows() (n int) {
	for i := range c.loads {
		if l := &c.loads[i]; l.counts() {
			n = max(n, find(c.rules.Depth, float64(l.Ready)).Instances, find(c.rules.AgeSeconds, l.OldestSeconds).Instances)
		}
	}
	return n
}

// bootstrap returns how many instances to begin with while it is unknown how
// fast they are.
func (c *choice) bootstrap() int {
	n := 0
	for i := range c.loads {
		l := &c.loads[i]
		switch {
		case !l.counts() || l.ready == 0:
		case l.seconds == 0 && c.old(l.Sample):
			n = max(n, c.rules.Instances.Min+c.rules.Instances.Step)
		default:
			n = max(n, 1)
		}
	}
	return n
}

// add adds instances if it may.
func (c *choice) add(was, wanted int) (int, string) {
	required, why := max(c.lower, c.rows), c.because(was)
	if c.stalled && was >= max(required, 1) {
		return was, c.sentence(was, was, "no queue completes anything, so more instances would not help")
	}
	if c.now.Sub(c.kept.lastOf(false)) < time.Duration(c.rules.CoolDown) {
		return was, c.sentence(was, was, "%s; %d would be needed, but some were removed less than %s ago", why, wanted, short(time.Duration(c.rules.CoolDown)))
	}
	allowed := maxOthers
	if finish, known := c.finish(was); !known || finish > c.slack() || wanted <= required || was == 0 {
		allowed = maxChanges
	}
	if len(c.kept.Changes) >= allowed {
		return was, c.sentence(was, was, "%s; %d would be needed, but there were %d changes within the last hour", why, wanted, len(c.kept.Changes))
	}
	if c.now.Sub(c.kept.lastOf(true)) < time.Duration(c.rules.StartUp)+settle {
		return was, c.sentence(was, was, "%s; %d would be needed, but the last ones are still starting", why, wanted)
	}
	n := max(wanted, int(math.Ceil(c.need*margin)))
	if c.stalled {
		n = max(required, 1)
	}
	n = min(n, was+c.rules.Instances.Step, c.rules.Instances.Max)
	c.change(n)
	return n, c.sentence(was, n, "%s", why)
}

// slack is how long it may take until the messages that are ready are done
// without any of them being late.
func (c *choice) slack() time.Duration {
	slack := c.reading.LatencyTarget
	for i := range c.loads {
		if l := &c.loads[i]; l.counts() && l.ready > 0 {
			slack = min(slack, c.reading.LatencyTarget-seconds(l.OldestSeconds))
		}
	}
	return slack
}

// remove removes instances if fewer were enough for the whole cool-down.
func (c *choice) remove(was, enough, most int, whole bool) (int, string) {
	coolDown := time.Duration(c.rules.CoolDown)
	n := max(most, c.rules.floor(c.now, coolDown)) // not shortly before a window adds them again
	switch why := c.because(was); {
	case enough >= was:
		return was, c.sentence(was, was, "%s", why)
	case most >= was:
		return was, c.sentence(was, was, "%s; %d would be enough, but more were needed less than %s ago", why, enough, short(coolDown))
	case n >= was:
		return was, c.sentence(was, was, "%s; %d would be enough, but a window of the rules begins soon", why, most)
	}
	stay := func(why string, args ...any) (int, string) {
		return was, c.sentence(was, was, "%d would be enough, but "+why, append([]any{n}, args...)...)
	}
	changes := len(c.kept.Changes)
	switch busy := c.unfit(); {
	case busy != "":
		return stay("%s", busy)
	case !whole || c.now.Sub(c.kept.lastChange()) < coolDown:
		return stay("not yet for %s", short(coolDown))
	case float64(enough) < settled*float64(most):
		return stay("the need still falls")
	case changes >= maxOf(was, n):
		return stay("there were %d changes within the last hour", changes)
	}
	c.change(n)
	return n, c.sentence(was, n, "no more were needed for %s, and no queue has %d messages ready", short(coolDown), maxPeek)
}

// maxOf returns how many changes within the last hour forbid another one that
// removes instances. A change that removes few of them is worth less than one
// that may be needed later.
func maxOf(was, n int) int {
	switch {
	case 2*n <= was:
		return maxChanges - 1
	case 5*n <= 4*was:
		return maxChanges - 2
	}
	return maxChanges - 3
}

// unfit returns why no instance may be removed, or "".
func (c *choice) unfit() string {
	for i := range c.loads {
		l := &c.loads[i]
		switch {
		case l.fault != "":
			return "the sample of " + l.Queue + " cannot be used"
		case l.counts() && l.full():
			return l.Queue + " has " + plural(float64(l.Ready), "message") + " ready"
		}
	}
	if c.busy {
		return "their hands are busy"
	}
	return ""
}

// change keeps a change of the instances.
func (c *choice) change(n int) {
	c.kept.Changes = append(c.kept.Changes, change{c.now, n - c.kept.Instances})
	c.kept.Instances = n
}
