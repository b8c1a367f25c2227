package servicebus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/relay"
)

// findings are what an outage showed.
type findings struct {
	runs                                   int
	accepted, failed, lost, disorder, late int
	duplicates, bound                      int           // as relay reports it
	failovers                              int           // of orders
	failover, failback                     time.Duration // since the outage began, and since it ended
	healthy, over, worst                   time.Duration // 99 % of the sends to orders before and while failed over; all
	otherHealthy, otherOver                time.Duration // … to the other entity
	otherFailovers                         int
	classes                                map[relay.Class]int // of failed sends with long deadlines
	rejected                               int64
	crashes                                int
	moved, replaced                        int64
}

func (f *findings) String() string {
	return fmt.Sprintf("accepted %d, failed %d %v, lost %d, duplicates %d of %d, failed over %d times, after %v, back after %v, p99 %v and %v, slowest %v, late %d, the other entity %d times, p99 %v and %v, out of order %d, faults %d, crashes %d, moved %d",
		f.accepted, f.failed, f.classes, f.lost, f.duplicates, f.bound, f.failovers, f.failover, f.failback, f.healthy, f.over, f.worst, f.late, f.otherFailovers, f.otherHealthy, f.otherOver, f.disorder, f.rejected, f.crashes, f.moved)
}

func (r *outageRun) judge(stats relay.Stats) *findings {
	f := &findings{classes: make(map[relay.Class]int), rejected: r.rejected, crashes: r.crashes, moved: r.passes.Moved, replaced: stats.Replaced, failover: -1, failback: -1}
	f.bound = int(stats.Ambiguous + r.passes.Ambiguous + r.passes.Unsettled)

	faultsAt := healthyFor + r.every/2
	healedAt := faultsAt + r.lasts
	for _, e := range r.events {
		at := e.At.Sub(r.began)
		switch {
		case e.Kind != relay.StateChanged:
		case e.To == relay.FailedOver && e.Entity == other:
			f.otherFailovers++
		case e.To == relay.FailedOver && e.Entity == orders:
			if f.failovers++; f.failovers == 1 {
				f.failover = at - faultsAt
			}
		case e.From == relay.FailedOver && e.Entity == orders:
			f.failback = max(0, at-healedAt)
		}
	}

	copies := make(map[string]int)
	newest := make(map[string]string) // by producer
	for _, id := range r.arrived {
		if copies[id]++; copies[id] > 1 {
			f.duplicates++
			continue
		}
		producer, _, _ := strings.Cut(id, "-")
		if int(producer[0]-'0') < r.sessions && id < newest[producer] {
			f.disorder++
		}
		newest[producer] = max(newest[producer], id)
	}
	var healthy, over, otherHealthy, otherOver []time.Duration
	for _, s := range r.sends {
		f.worst = max(f.worst, s.took)
		if s.late {
			f.late++
		}
		if s.err != nil {
			f.failed++
			if e, ok := s.err.(*relay.SendError); ok && !strings.HasPrefix(s.id, fmt.Sprint(r.producers-1)) {
				f.classes[e.Class]++
			}
		} else {
			f.accepted++
			if copies[s.id] == 0 {
				f.lost++
			}
		}
		before, during := s.began < faultsAt, s.began > faultsAt && s.began < healedAt
		switch {
		case s.entity == other && before:
			otherHealthy = append(otherHealthy, s.took)
		case s.entity == other && during:
			otherOver = append(otherOver, s.took)
		case before:
			healthy = append(healthy, s.took)
		case during && f.failovers > 0 && s.began > faultsAt+f.failover:
			over = append(over, s.took)
		}
	}
	f.healthy, f.over, f.otherHealthy, f.otherOver = p99(healthy), p99(over), p99(otherHealthy), p99(otherOver)
	return f
}

// add sums what several outages showed. The times are the longest ones, that of
// a failover beyond its interval.
func (f *findings) add(o *findings, interval time.Duration) {
	f.accepted += o.accepted
	f.lost += o.lost
	f.duplicates += o.duplicates
	f.bound += o.bound
	f.crashes += o.crashes
	f.moved += o.moved
	f.runs++
	if o.failovers > 0 {
		f.failover, f.failback, f.over = max(f.failover, o.failover-interval), max(f.failback, o.failback), max(f.over, o.over)
	}
}

func p99(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

// How an outage must end.
type ending int

const (
	failsOver ending = iota // if it lasts for the interval
	harmless                // no send fails, and none goes to the backlog
	answered                // sends fail at once with the class, and none goes to the backlog
	throttled               // sends wait, and none goes to the backlog
)

// defaults of package relay
const (
	attemptTimeout = 5 * time.Second
	pingInterval   = 10 * time.Second
)

// check reports what is not as package relay promises.
func (f *findings) check(t *testing.T, o outage) {
	t.Helper()
	require := func(ok bool, what string) {
		t.Helper()
		if !ok {
			t.Errorf("%s: %v", what, f)
		}
	}
	require(f.lost == 0, "messages were lost")
	require(f.late == 0, "sends returned long after their deadlines")
	require(f.disorder == 0, "messages overtook earlier ones of their sessions")
	require(f.duplicates <= f.bound && !(o.dedup && f.duplicates > 0), "there are more duplicates than reported")
	require(f.accepted > 0, "no message was accepted")
	for c, n := range f.classes {
		require(o.ending == answered && c == o.class, fmt.Sprintf("%d sends failed, class %v", n, c))
	}
	switch {
	case o.ending == failsOver && o.interval < o.lasts:
		atMost := 2*pingInterval + time.Second
		if o.unseen {
			atMost += attemptTimeout // a message may be on trial as the outage ends
		}
		require(f.failovers > 0, "it did not fail over")
		require(f.failover <= o.interval+attemptTimeout+time.Second, "it failed over late")
		require(f.over <= 2*f.healthy+50*time.Millisecond, "sends are slow while failed over")
		require(f.failback >= 0 && f.failback <= atMost, "it failed back late")
	default:
		require(f.failovers == 0 && f.moved == 0, "it failed over")
	}
	switch o.ending {
	case answered:
		require(f.classes[o.class] > 0, "no send failed")
	case throttled:
		atMost := 1 + int64(o.lasts/(10*time.Second))
		if o.roundTrip > 0 {
			atMost += int64(o.producers) // attempts that were under way
		}
		require(f.rejected <= atMost, "there were many attempts")
	}
}
