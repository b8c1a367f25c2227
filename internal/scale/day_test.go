package scale

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	dayLength  = 24 * 60 * 60 // seconds
	dayTarget  = 15 * time.Minute
	dayQueues  = 4
	dayPool    = 32  // hands of an instance
	dayHands   = 28  // that it uses: it keeps some for queues that are empty
	parcelTime = 100 // seconds that a hand needs for a parcel of 100 items, as a mean
	stuckQueue = 2
	stuckFrom  = 14 * 3600
	stuckTo    = 15 * 3600
)

// dayStart is midnight in UTC.
var dayStart = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// dayRules have a window for the morning peak, which is known.
const dayRules = `{
	"version": 1, "instances": {"min": 1, "max": 30, "step": 30},
	"depth": [{"from": 0, "hands": 32}],
	"windows": [{"from": "08:00", "to": "08:20", "zone": "UTC", "lead": "5m", "instances": 8}]
}`

// parcel is a message of 100 items.
type parcel struct {
	queue   int
	at, due int // seconds: when it was submitted; since when it could be worked on
	work    int // seconds
}

// day is a simulated day of a worker, second by second. Nothing runs at the same
// time, so a seed always gives the same day.
type day struct {
	rng      *rand.Rand
	arriving []parcel // the latest first
	ready    [dayQueues][]parcel
	working  [dayQueues]int
	counts   [dayQueues][]int // all messages of each second
	workers  []*simWorker
	running  runs
	done     [dayQueues][]completion
	result   dayResult
}

// dayResult is what a day was like.
type dayResult struct {
	parcels   int
	hours     float64 // of instances
	changes   []change
	slowest   int // seconds from the submission until it was done
	slowestAt int // when it was done
	left      int // parcels that were never done
	arrivals  []parcel
	readyAt   []int // by minute
	instances []int // by minute
	reasons   []string
}

type completion struct{ at, took int }

type simWorker struct {
	from  int // second in which it begins
	hands int // at work
	gone  bool
}

type run struct {
	parcel
	end    int
	worker *simWorker
}

type runs []run

func (r runs) Len() int           { return len(r) }
func (r runs) Less(i, j int) bool { return r[i].end < r[j].end }
func (r runs) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *runs) Push(x any)        { *r = append(*r, x.(run)) }
func (r *runs) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}

// burst is a batch that is submitted within a minute.
type burst struct{ at, items int }

// traffic draws the parcels of a day: a daily curve, a morning peak, and bursts.
func traffic(rng *rand.Rand, bursts []burst) (parcels []parcel) {
	add := func(at int) {
		p := parcel{queue: len(parcels) % dayQueues, at: at, due: at}
		p.work = max(1, int(parcelTime*math.Exp(rng.NormFloat64()*0.3-0.045)))
		if p.queue == stuckQueue && at >= stuckFrom && at < stuckTo {
			p.due = stuckTo
		}
		parcels = append(parcels, p)
	}
	noise := 1.0
	for at := range dayLength - 1800 { // the last half an hour is for the rest
		if at%60 == 0 {
			noise = math.Exp(rng.NormFloat64() * 0.3)
		}
		for expected := usual(at) * noise; expected > 0; expected-- {
			if rng.Float64() < expected {
				add(at)
			}
		}
	}
	for _, b := range bursts {
		for i := range b.items / 100 {
			add(b.at + i*60*100/b.items)
		}
	}
	slices.SortStableFunc(parcels, func(a, b parcel) int { return b.at - a.at })
	return parcels
}

// usual returns the expected parcels of a second.
func usual(at int) float64 {
	hour := float64(at) / 3600
	switch {
	case hour < 6 || hour >= 22:
		return 0
	case hour < 8:
		return 0.2
	case hour < 10:
		return 2.2 // the morning peak
	case hour < 18:
		return 0.8 + 0.3*math.Sin((hour-10)*math.Pi/4)
	}
	return 0.4
}

// simulate runs a day.
func simulate(rules Rules, seed uint64, bursts []burst) dayResult {
	d := &day{rng: rand.New(rand.NewPCG(seed, 1))}
	d.arriving = traffic(d.rng, bursts)
	d.result.parcels = len(d.arriving)
	d.result.arrivals = slices.Clone(d.arriving)
	d.workers = []*simWorker{{from: -60}}
	state := State{}
	for now := range dayLength {
		d.arrive(now)
		d.end(now)
		if now == stuckFrom {
			for i := range d.ready[stuckQueue] {
				d.ready[stuckQueue][i].due = stuckTo
			}
		}
		d.begin(now)
		d.result.hours += float64(len(d.workers)) / 3600
		if now%60 == 0 {
			n := 0
			for _, q := range d.ready {
				n += len(q)
			}
			d.result.readyAt = append(d.result.readyAt, n)
			d.result.instances = append(d.result.instances, len(d.workers))
			if d.rng.Float64() < 0.02 {
				continue // a lost run
			}
			var advice Advice
			advice, state = Advise(rules, state, d.read(now))
			d.apply(now, advice)
		}
	}
	for _, q := range d.ready {
		d.result.left += len(q)
	}
	d.result.left += len(d.running) + len(d.arriving)
	return d.result
}

func (d *day) arrive(now int) {
	for n := len(d.arriving); n > 0 && d.arriving[n-1].at <= now; n-- {
		p := d.arriving[n-1]
		d.arriving = d.arriving[:n-1]
		d.ready[p.queue] = append(d.ready[p.queue], p)
	}
}

// end completes what is due.
func (d *day) end(now int) {
	for len(d.running) > 0 && d.running[0].end <= now {
		r := heap.Pop(&d.running).(run)
		d.working[r.queue]--
		if r.worker.gone { // it was removed: another one does the work again
			if isStuck(r.queue, now) {
				r.due = stuckTo
			}
			d.ready[r.queue] = slices.Insert(d.ready[r.queue], 0, r.parcel)
			continue
		}
		r.worker.hands--
		d.done[r.queue] = append(d.done[r.queue], completion{now, r.work})
		if now-r.due > d.result.slowest {
			d.result.slowest, d.result.slowestAt = now-r.due, now
		}
	}
	for q := range dayQueues {
		d.counts[q] = append(d.counts[q], len(d.ready[q])+d.working[q])
	}
}

// begin gives free hands work, from each queue in turn.
func (d *day) begin(now int) {
	for _, w := range d.workers {
		for q, tries := now%dayQueues, 0; tries < dayQueues && w.from <= now && w.hands < dayHands; q = (q + 1) % dayQueues {
			if len(d.ready[q]) == 0 || isStuck(q, now) {
				tries++
				continue
			}
			tries = 0
			p := d.ready[q][0]
			d.ready[q] = d.ready[q][1:]
			d.working[q]++
			w.hands++
			heap.Push(&d.running, run{p, now + p.work, w})
		}
	}
}

func isStuck(q, now int) bool { return q == stuckQueue && now >= stuckFrom && now < stuckTo }

// read samples like the app: an approximate count of up to a minute ago with
// an error of up to a tenth, and peeks that are exact.
func (d *day) read(now int) Reading {
	r := Reading{At: dayStart.Add(time.Duration(now) * time.Second), LatencyTarget: dayTarget, Hands: dayPool}
	for _, w := range d.workers {
		if w.from+15 <= now {
			r.Instances++
		}
	}
	cpu := 0.7 * float64(len(d.running)) / float64(dayHands*max(1, r.Instances))
	for q := range dayQueues {
		s := Sample{Queue: fmt.Sprintf("work-%d", q), CPU: min(cpu, 1), Working: int64(d.working[q])}
		count := int64(float64(d.counts[q][max(0, now-d.rng.IntN(61))]) * (0.9 + 0.2*d.rng.Float64()))
		s.Ready = int64(min(len(d.ready[q]), maxPeek))
		if s.Ready == maxPeek {
			s.Ready = max(s.Ready, count)
		}
		s.InFlight = max(0, count-s.Ready)
		if len(d.ready[q]) > 0 {
			s.OldestSeconds = float64(now - d.ready[q][0].at)
		}
		lag, n, took := d.rng.IntN(30), 0, 0
		for i := len(d.done[q]) - 1; i >= 0 && d.done[q][i].at > now-lag-60; i-- {
			if c := d.done[q][i]; c.at <= now-lag {
				n, took = n+1, took+c.took
			}
		}
		if n > 0 {
			s.CompletionsPerSecond, s.ResponseSeconds = float64(n)/60, float64(took)/float64(n)
		}
		r.Samples = append(r.Samples, s)
	}
	return r
}

// apply starts and removes instances.
func (d *day) apply(now int, a Advice) {
	by := a.Instances - len(d.workers)
	if by != 0 {
		d.result.changes = append(d.result.changes, change{dayStart.Add(time.Duration(now) * time.Second), by})
	}
	d.result.reasons = append(d.result.reasons, fmt.Sprintf("%s %s", dayStart.Add(time.Duration(now)*time.Second).Format("15:04"), a.Reason))
	for range by {
		d.workers = append(d.workers, &simWorker{from: now + 20 + d.rng.IntN(70)})
	}
	for range -by {
		last := d.workers[len(d.workers)-1]
		last.gone = true
		d.workers = d.workers[:len(d.workers)-1]
		for i := range d.running {
			if d.running[i].worker == last {
				d.running[i].end = now + 1
			}
		}
		heap.Init(&d.running)
	}
}
