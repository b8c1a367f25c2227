package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// Whatever the clock shows, the next poll is never further away than the
// promise allows, and comes at the node's own turn.
func TestNextTurn(t *testing.T) {
	const often, rarely = 2500 * time.Millisecond, 30 * time.Second
	for i := range 200 {
		p := newPace(fmt.Sprintf("%x", i*7919), "start", often, rarely)
		now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).Add(time.Duration(i) * 123456789)
		for _, wish := range []struct {
			wish     wish
			interval time.Duration
		}{{lookOften, often}, {lookRarely, rarely}} {
			wait := p.next(now, wish.wish, 0)
			if wait <= 0 || wait > wish.interval+jitter {
				t.Errorf("wait %v, want up to %v and the jitter", wait, wish.interval)
			}
			at := float64(now.Add(wait).UnixNano()%int64(wish.interval)) / float64(wish.interval)
			if off := at - p.turn; off < -1e-6 || off > float64(jitter)/float64(wish.interval)+1e-6 {
				t.Errorf("the turn is at %.6f of the interval, want %.6f", at, p.turn)
			}
		}
		for failed := range 100 {
			if wait := p.next(now, lookLater, failed+1); wait < 0 || wait > rarely || failed == 0 && wait > 2*often {
				t.Errorf("back-off of %v after %d failures", wait, failed+1)
			}
		}
		if wait := p.next(now, lookSoon, 0); wait < 0 || wait > confirmWithin {
			t.Errorf("confirms after %v, want within %v", wait, confirmWithin)
		}
		if wait := p.next(now, lookSooner, 0); wait < 0 || wait > often {
			t.Errorf("confirms after %v, want as soon as it would poll, within %v", wait, often)
		}
		if wait := p.next(now, lookNow, 0); wait != 0 {
			t.Errorf("now is in %v", wait)
		}
	}
}

// Numbered nodes are spread evenly, however many; the same node has the same
// turn after a restart, and another one for another gate.
func TestTurns(t *testing.T) {
	for _, n := range []int{2, 10, 100, 1000} {
		var turns []float64
		for i := range n {
			turns = append(turns, turn(fmt.Sprint("worker-", i), "start"))
		}
		slices.Sort(turns)
		closest := 1 + turns[0] - turns[n-1]
		for i := range n - 1 {
			closest = min(closest, turns[i+1]-turns[i])
		}
		if closest < 0.3/float64(n) {
			t.Errorf("of %d nodes two are %.2f of the mean distance from each other", n, closest*float64(n))
		}
	}
	if turn("worker-7", "start") != turn("worker-7", "start") {
		t.Error("a node has changed its turn")
	}
	if turn("worker-7", "start") == turn("worker-7", "stop") {
		t.Error("all gates of a node have the same turn")
	}
	sum := 0.0
	for i := range 1000 {
		name := fmt.Sprintf("%x-instance", i)
		if i%2 == 0 {
			name = fmt.Sprintf("%x%012d", i, 7) // a number too long to be one
		}
		at := turn(name, "start")
		if at < 0 || at >= 1 {
			t.Errorf("turn of %s is at %v", name, at)
		}
		sum += at
	}
	if math.Abs(sum/1000-0.5) > 0.05 {
		t.Errorf("the mean turn is at %.3f, want about the middle", sum/1000)
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]*Options{
		"nil":     nil,
		"zero":    {},
		"seldom":  {PollOften: time.Minute},
		"at once": {PollOften: 10 * time.Millisecond, PollRarely: 10 * time.Millisecond},
	} {
		g, err := New(nil, o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if g.opt.PollRarely < g.opt.PollOften || g.opt.Instance == "" {
			t.Errorf("%s: %+v", name, g.opt)
		}
	}
	for name, o := range map[string]*Options{
		"PollOften":     {PollOften: time.Millisecond},
		"PollRarely":    {PollRarely: time.Second},
		"CallTimeout":   {CallTimeout: -1},
		"ChangeTimeout": {ChangeTimeout: -1},
		"Linger":        {Linger: -1},
	} {
		if _, err := New(nil, o); err == nil || !strings.Contains(err.Error(), "gate.Options."+name) {
			t.Errorf("%s: %v, want an error that names it", name, err)
		}
	}
}
