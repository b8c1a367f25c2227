package scale

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// sentence returns the reason for instances as one sentence.
func (c *choice) sentence(was, n int, format string, args ...any) string {
	why := fmt.Sprintf(format, args...)
	head := plural(float64(n), "instance")
	switch {
	case n > was:
		head += fmt.Sprintf(", %d more than before, because ", n-was)
	case n < was:
		head += fmt.Sprintf(", %d fewer than before, because ", was-n)
	default:
		head += " as before: "
	}
	return head + why + c.leftOut() + "."
}

// leftOut returns which queues do not count, as a part of a sentence.
func (c *choice) leftOut() string {
	var parts []string
	for i := range c.loads {
		l := &c.loads[i]
		switch {
		case l.fault != "":
			parts = append(parts, fmt.Sprintf("%s does not count, because in its sample %s", l.Queue, l.fault))
		case l.Held && l.Ready > 0:
			parts = append(parts, fmt.Sprintf("%s is held at its gate", l.Queue))
		case l.stuck > 0:
			parts = append(parts, fmt.Sprintf("%s is stuck, because it completed none of %s for %s while other queues did", l.Queue, plural(float64(l.Ready), "message"), short(l.stuck)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, "; ")
}

// because returns the numbers that decide how many instances are needed.
func (c *choice) because(instances int) string {
	if why := c.required(instances); why != "" {
		return why
	}
	ready, all, left, queues := 0.0, 0.0, time.Duration(math.MaxInt64), 0
	for i := range c.loads {
		if l := &c.loads[i]; l.counts() && l.ready > 0 {
			ready, all, left, queues = ready+l.ready, all+float64(l.Ready), min(left, l.left), queues+1
		}
	}
	if ready == 0 {
		return "no message is ready"
	}
	what := fmt.Sprintf("%s in %s", plural(all, "message"), plural(float64(queues), "queue"))
	if ready < all {
		what += fmt.Sprintf(" (%s of them confirmed)", grouped(ready))
	}
	finish, known := c.finish(instances)
	switch {
	case instances == 0:
		return what + " wait"
	case !known:
		return what + " wait, and it is not yet known how long one takes"
	}
	return fmt.Sprintf("%s would need %s for %s, which must be done in %s", plural(float64(instances), "instance"), short(finish), what, short(left))
}

// required names the rule that requires more instances than the messages need,
// or returns "".
func (c *choice) required(instances int) string {
	need, least, most := max(int(math.Ceil(c.need)), c.begin), c.rules.Instances.Min, max(c.lower, c.rows)
	window := c.lower == most && c.lower > least
	switch {
	case most <= need:
		return ""
	case window && c.rows == most:
		return fmt.Sprintf("a window and a row of the rules require %d", most)
	case window:
		return fmt.Sprintf("a window of the rules requires %d", most)
	case c.rows == most:
		return fmt.Sprintf("a row of the rules requires %d", most)
	case least > instances:
		return fmt.Sprintf("the rules require at least %d", least)
	}
	return ""
}

// advise returns the advice for one queue.
func (d *demand) advise(l *load) QueueAdvice {
	a := QueueAdvice{Queue: l.Queue, Hands: d.rules.Depth[0].Hands, ArrivalsPerSecond: l.arrivals}
	hands := func(why string, args ...any) {
		a.Reason = plural(float64(a.Hands), "hand") + fmt.Sprintf(why, args...) + "."
	}
	if l.fault != "" {
		hands(", the fewest of the rules, because in the sample %s", l.fault)
		return a
	}
	byDepth, byAge := find(d.rules.Depth, l.depth()), find(d.rules.AgeSeconds, l.OldestSeconds)
	a.Hands = byDepth.Hands
	switch {
	case byAge.Hands > a.Hands:
		a.Hands = byAge.Hands
		hands(", because the oldest message is %s old", short(seconds(l.OldestSeconds)))
	case l.Held:
		hands(" once its gate is released, because it has %s", l.shown())
	case l.stuck > 0:
		hands(", because it has %s, but it completed none for %s while other queues did", l.shown(), short(l.stuck))
	default:
		hands(", because it has %s", l.shown())
	}
	if n := d.fitting(l); n < a.Hands {
		a.Hands = n
		hands(", because %s of the processors are in use, so more would only wait for each other", percent(l.CPU))
	}
	return a
}

// shown returns the messages of the queue in the numbers of its sample.
func (l *load) shown() string {
	text := plural(float64(l.Ready), "message")
	if begun := l.depth() - float64(l.Ready); begun > 0 {
		text += fmt.Sprintf(" ready and %s at work", grouped(begun))
	}
	return text
}

// fitting returns how many hands the processors of an instance have room for.
func (d *demand) fitting(l *load) int {
	if l.CPU < 0.8*d.rules.CPU || d.reading.Instances == 0 || l.Working == 0 {
		return maxHands
	}
	perInstance := float64(l.Working) / float64(d.reading.Instances)
	return max(1, int(min(math.Ceil(perInstance*d.rules.CPU/l.CPU), maxHands)))
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", min(100*share, 100)) }

// plural returns a count with its noun, as in "1,200 messages".
func plural(n float64, noun string) string {
	digits := grouped(n)
	if digits != "1" {
		noun += "s"
	}
	return digits + " " + noun
}

// grouped returns a count as in "1,200".
func grouped(n float64) string {
	digits := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
