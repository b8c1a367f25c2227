package scale

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/internal/storetest"
)

// worker is a worker that is advised each minute and follows.
type worker struct {
	t     *testing.T
	rules Rules
	state State
	now   time.Time
	runs  int
}

func newWorker(t *testing.T, runs int) *worker {
	return &worker{t: t, now: dayStart, runs: runs}
}

// minutes advises for some minutes with the same samples.
func (w *worker) minutes(n int, samples ...Sample) (advice Advice) {
	for range n {
		w.now = w.now.Add(time.Minute)
		advice, w.state = Advise(w.rules, w.state, Reading{At: w.now, LatencyTarget: dayTarget, Instances: w.runs, Hands: 32, Samples: samples})
		w.runs = advice.Instances
	}
	return advice
}

func (w *worker) want(what string, advice Advice, instances int, words ...string) {
	w.t.Helper()
	if advice.Instances != instances {
		w.t.Errorf("%s: %d instances, want %d: %s", what, advice.Instances, instances, advice.Reason)
	}
	for _, word := range words {
		if !strings.Contains(advice.Reason, word) {
			w.t.Errorf("%s: the reason is %q, want %q in it", what, advice.Reason, word)
		}
	}
}

// idle, calm and deep are samples of one queue. An instance has 28 hands at work
// for 28 s each, so it completes one message a second.
func idle(queue string) Sample { return Sample{Queue: queue} }
func calm(queue string) Sample {
	return Sample{Queue: queue, InFlight: 14, Working: 14, CompletionsPerSecond: 0.5, ResponseSeconds: 28, CPU: 0.02}
}
func deep(queue string, ready int64, instances int) Sample {
	return Sample{Queue: queue, Ready: ready, InFlight: int64(28 * instances), Working: int64(28 * instances), OldestSeconds: 60,
		CompletionsPerSecond: float64(instances), ResponseSeconds: 28, CPU: 0.5}
}

// TestCountAlone: a count that is not confirmed changes nothing, in either
// direction.
func TestCountAlone(t *testing.T) {
	w := newWorker(t, 1)
	w.minutes(5, calm("q"))
	late := calm("q")
	late.InFlight = 100_000 // storage still counts messages that are gone
	w.want("invisible messages", w.minutes(5, late), 1)
	first := calm("q")
	first.Ready = 100_000 // the peek was full, hands are free, and the messages are new
	w.want("the first full peek", w.minutes(1, first), 1)
	w.want("no further one", w.minutes(5, calm("q")), 1)

	w = newWorker(t, 10)
	full := calm("q")
	full.Ready = maxPeek // the count has not yet reached what the peek shows
	w.want("full peeks", w.minutes(30, full), 10, "q has 32 messages ready")
	busy := calm("q")
	busy.Working, busy.InFlight, busy.ResponseSeconds = 280, 0, 560
	w.want("busy hands", w.minutes(30, busy), 10)
	w.want("neither", w.minutes(6, calm("q")), 1)
}

// TestBacklog: what is ready is divided by what an instance has shown.
func TestBacklog(t *testing.T) {
	w := newWorker(t, 1)
	w.minutes(5, calm("q"))
	// 12m45s are the share of the target, of which a minute is over, and the last
	// messages may take 42 s: 663 s are left. 32 hands need 2,625 s for 3,000
	// messages. One instance works 90 s of them until the others have started, so
	// 2,535 / 573 = 4.4 are needed, and a tenth more.
	w.want("backlog", w.minutes(1, deep("q", 3000, 1)), 5, "4 more than before", "1 instance would need 43m45s for 3,000 messages in 1 queue, which must be done in 11m3s")
	w.want("the same again", w.minutes(3, deep("q", 2900, 5)), 5)
	w = newWorker(t, 1)
	w.rules = mustParse([]byte(`{"version":1,"instances":{"max":100,"step":4},"depth":[{"from":0,"hands":1}]}`))
	w.minutes(5, calm("q"))
	w.want("a bounded step", w.minutes(1, deep("q", 30_000, 1)), 5, "4 more")
	w.want("still starting", w.minutes(1, deep("q", 30_000, 5)), 5, "still starting")
	w.want("the next step", w.minutes(1, deep("q", 30_000, 5)), 9)
}

// TestStuckQueue: a queue that completes nothing while others do is named, and
// does not pull instances.
func TestStuckQueue(t *testing.T) {
	w := newWorker(t, 2)
	w.minutes(5, calm("a"), calm("b"))
	most := 0
	var advice Advice
	for minute := range int64(600) {
		stuck := Sample{Queue: "b", Ready: 100 * minute, OldestSeconds: float64(60 * minute)}
		advice = w.minutes(1, calm("a"), stuck)
		most = max(most, advice.Instances)
	}
	w.want("stuck", advice, 1, "b is stuck, because it completed none of 59,900 messages for 9h")
	if most > 3 {
		t.Errorf("a stuck queue pulled %d instances", most)
	}
	if !strings.Contains(advice.Queues[1].Reason, "completed none") {
		t.Error(advice.Queues[1].Reason)
	}
	if advice = w.minutes(1, calm("a"), deep("b", 59_900, 1)); advice.Instances < 10 {
		t.Errorf("it moves again: %s", advice.Reason)
	}
}

// TestNothingMoves: if no queue completes anything, more instances do not help.
func TestNothingMoves(t *testing.T) {
	w := newWorker(t, 1)
	w.minutes(5, calm("a"), calm("b"))
	for minute := range int64(60) {
		s := Sample{Queue: "a", Ready: 20 + minute, Working: 28, InFlight: 28, OldestSeconds: float64(60 * minute)}
		w.want("outage", w.minutes(1, s, idle("b")), 1)
	}
	s := Sample{Queue: "a", Ready: 50_000, Working: 28, OldestSeconds: 4000}
	w.want("outage", w.minutes(1, s, idle("b")), 1, "more instances would not help")
}

// TestUnknownSpeed: before the first message is done, the instances are bounded.
func TestUnknownSpeed(t *testing.T) {
	w := newWorker(t, 1)
	s := Sample{Queue: "a", Ready: 100_000, Working: 28, InFlight: 28, OldestSeconds: 1000}
	w.want("late", w.minutes(1, s), 11, "not yet known")
	w.want("late", w.minutes(60, s), 11)

	w = newWorker(t, 0)
	w.rules = mustParse([]byte(`{"version":1,"instances":{"min":0},"depth":[{"from":0,"hands":8}]}`))
	w.want("nothing to do", w.minutes(30, idle("a")), 0)
	w.want("the first message", w.minutes(1, Sample{Queue: "a", Ready: 1}), 1)
}

// TestNotLate: held and delayed messages call for no instances.
func TestNotLate(t *testing.T) {
	w := newWorker(t, 1)
	held := Sample{Queue: "a", Ready: 100_000, OldestSeconds: 90_000, Held: true}
	delayed := Sample{Queue: "b", Delayed: 100_000}
	advice := w.minutes(60, held, delayed, calm("c"))
	w.want("held", advice, 1, "a is held at its gate")
	if advice.Queues[0].Hands != 32 || advice.Queues[1].Hands != 16 {
		t.Errorf("%+v", advice.Queues)
	}
	w = newWorker(t, 10)
	w.want("held beside idle instances", w.minutes(30, held), 1)
}

// TestCoolDown: instances are removed once, when fewer were enough for the
// cool-down, and come back only after it.
func TestCoolDown(t *testing.T) {
	w := newWorker(t, 1)
	w.minutes(5, calm("q"))
	many := w.minutes(1, deep("q", 3000, 1)).Instances
	w.minutes(4, deep("q", 1500, many))
	w.want("4 minutes", w.minutes(4, calm("q")), many)
	w.want("5 minutes", w.minutes(1, calm("q")), 1, "4 fewer than before", "no more were needed for 4m")
	for range 3 {
		w.want("a burst in the cool-down", w.minutes(1, deep("q", 3000, 1)), 1, "some were removed less than 4m ago")
	}
	if advice := w.minutes(1, deep("q", 3000, 1)); advice.Instances < many {
		t.Errorf("after the cool-down: %s", advice.Reason)
	}
}

// TestWindowInSight: instances are not removed shortly before a window adds them
// again.
func TestWindowInSight(t *testing.T) {
	w := newWorker(t, 8)
	w.rules = mustParse([]byte(`{"version":1,"depth":[{"from":0,"hands":8}],"windows":[{"from":"00:08","to":"00:20","instances":6}]}`))
	w.minutes(6, calm("q"))
	w.want("the window begins in 2 minutes", w.minutes(1, calm("q")), 6, "1 would be enough, but a window of the rules begins soon")
	w.want("the window", w.minutes(1, calm("q")), 6)
	w.want("the end of the window", w.minutes(12, calm("q")), 6, "1 would be enough, but more were needed less than 4m ago")
	w.want("after the cool-down", w.minutes(5, calm("q")), 1)

	w = newWorker(t, 1)
	w.rules = mustParse([]byte(`{"version":1,"depth":[{"from":0,"hands":8}],"windows":[{"from":"00:10","to":"00:20","lead":"5m","instances":6}]}`))
	w.want("before the lead", w.minutes(4, calm("q")), 1)
	w.want("the lead", w.minutes(1, calm("q")), 6, "a window of the rules requires 6")
}

// TestMinimum: the rules require instances although no message is ready.
func TestMinimum(t *testing.T) {
	w := newWorker(t, 0)
	w.want("none runs", w.minutes(1, idle("q")), 1, "1 more than before, because the rules require at least 1.")
	w.want("one runs", w.minutes(1, idle("q")), 1, "no message is ready")
}

// TestRows: the rows of the rules for age and depth.
func TestRows(t *testing.T) {
	w := newWorker(t, 1)
	w.rules = mustParse([]byte(`{"version":1,
		"depth":[{"from":0,"below":1000,"hands":8},{"from":1000,"hands":8,"instances":2}],
		"ageSeconds":[{"from":0,"below":300,"hands":1},{"from":300,"hands":16,"instances":4}]}`))
	deepQueue := calm("q")
	deepQueue.Ready, deepQueue.ResponseSeconds = 2000, 0.1
	w.want("as many messages as are shown", w.minutes(1, deepQueue), 2, "a row of the rules requires 2")
	old := deepQueue
	old.Ready, old.OldestSeconds = 1, 300
	advice := w.minutes(2, old)
	w.want("an old message", advice, 4, "a row of the rules requires 4")
	if q := advice.Queues[0]; q.Hands != 16 || !strings.Contains(q.Reason, "5m old") {
		t.Errorf("%+v", q)
	}
}

// TestReasons: a reason names what decides, also if two rules require the same,
// and its counts are those of the sample.
func TestReasons(t *testing.T) {
	const window = `"windows":[{"from":"00:00","to":"23:59","instances":2}]`
	some := calm("q")
	some.Ready, some.OldestSeconds = 20, 10
	rows := `"depth":[{"from":0,"below":50,"hands":8},{"from":50,"hands":64,"instances":3}]`
	old := `"ageSeconds":[{"from":0,"below":5,"hands":1},{"from":5,"hands":1,"instances":2}]`
	full := calm("q")
	full.Ready = 58
	unknown := Sample{Queue: "q", Ready: 20, OldestSeconds: 500}
	for name, tt := range map[string]struct {
		rules  string
		sample Sample
		want   int
		reason string
	}{
		"a window":              {window, some, 2, "because a window of the rules requires 2."},
		"a window and a row":    {window + "," + old, some, 2, "because a window and a row of the rules require 2."},
		"a row and the minimum": {`"instances":{"min":2},` + old, some, 2, "because a row of the rules requires 2."},
		"the minimum":           {`"instances":{"min":2}`, some, 2, "because the rules require at least 2."},
		"a row for the depth":   {rows, full, 3, "because a row of the rules requires 3."},
		"unknown speed":         {`"instances":{"step":4},` + old, unknown, 5, "because 20 messages in 1 queue wait, and it is not yet known how long one takes."},
	} {
		w := newWorker(t, 1)
		w.rules = mustParse([]byte(`{"version":1,` + tt.rules + `}`))
		w.want(name, w.minutes(1, tt.sample), tt.want, tt.reason)
	}
	w := newWorker(t, 1)
	var queues []Sample
	for i := range 4 {
		s := calm(fmt.Sprint("q", i))
		s.Ready, s.Working, s.InFlight = 150, 1, 1
		queues = append(queues, s)
	}
	advice := w.minutes(1, queues...)
	w.want("a count that is not confirmed", advice, 1, "for 600 messages in 4 queues (128 of them confirmed), which")
	if got, want := advice.Queues[0].Reason, "16 hands, because it has 150 messages ready and 1 at work."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestProcessors: an instance whose processors are full gets no further hands.
func TestProcessors(t *testing.T) {
	w := newWorker(t, 2)
	s := deep("q", 5000, 2)
	s.CPU, s.Working = 0.95, 40
	if q := w.minutes(1, s).Queues[0]; q.Hands != 19 || !strings.Contains(q.Reason, "95 % of the processors") {
		t.Errorf("%+v, want 20 hands, less the part above 90 %%", q)
	}
	s.CPU = 0.3
	if q := w.minutes(1, s).Queues[0]; q.Hands != 32 {
		t.Errorf("%+v, want 32 hands", q)
	}
}

// TestBadSamples: an impossible number is named, and changes nothing.
func TestBadSamples(t *testing.T) {
	for name, spoil := range map[string]func(*Sample){
		"ready is -1":                    func(s *Sample) { s.Ready = -1 },
		"inFlight is -1":                 func(s *Sample) { s.InFlight = -1 },
		"delayed is -1":                  func(s *Sample) { s.Delayed = -1 },
		"oldestSeconds is NaN":           func(s *Sample) { s.OldestSeconds = math.NaN() },
		"completionsPerSecond is -0.5":   func(s *Sample) { s.CompletionsPerSecond = -0.5 },
		"responseSeconds is +Inf":        func(s *Sample) { s.ResponseSeconds = math.Inf(1) },
		"working is -9":                  func(s *Sample) { s.Working = -9 },
		"cpu is NaN":                     func(s *Sample) { s.CPU = math.NaN() },
		"p95LatencySeconds is -Inf":      func(s *Sample) { s.P95LatencySeconds = math.Inf(-1) },
		"ready is 9.223372036854776e+18": func(s *Sample) { s.Ready = math.MaxInt64 },
		"oldestSeconds is 1e+300":        func(s *Sample) { s.OldestSeconds = 1e300 },
	} {
		w := newWorker(t, 5)
		bad := deep("bad", 50_000, 5)
		spoil(&bad)
		advice := w.minutes(10, calm("good"), bad)
		w.want(name, advice, 5, name)
		if !strings.Contains(advice.Queues[1].Reason, name) || advice.Queues[0].Hands != 16 {
			t.Errorf("%+v", advice.Queues)
		}
	}
}

// TestLostState: without its state the advice begins with what runs.
func TestLostState(t *testing.T) {
	w := newWorker(t, 1)
	w.minutes(5, calm("q"))
	many := w.minutes(1, deep("q", 3000, 1)).Instances
	w.state = State{}
	w.want("lost", w.minutes(3, calm("q")), many)
	w.want("after the cool-down", w.minutes(2, calm("q")), 1)
}

// TestGap: what happened while no run succeeded is unknown, so a queue that waits
// is not stuck, and nothing is removed at once.
func TestGap(t *testing.T) {
	w := newWorker(t, 3)
	w.minutes(5, calm("a"), deep("b", 900, 3))
	w.now = w.now.Add(3 * time.Hour)
	advice := w.minutes(1, calm("a"), Sample{Queue: "b", Ready: 20, OldestSeconds: 20})
	if strings.Contains(advice.Reason, "stuck") || advice.Instances != w.runs {
		t.Error(advice.Reason)
	}
	w.want("2 minutes later", w.minutes(2, idle("a"), idle("b")), 3)
	w.want("after the cool-down", w.minutes(3, idle("a"), idle("b")), 1)
}

// TestClocks: a state of another clock, and runs that were lost, do no harm.
func TestClocks(t *testing.T) {
	for _, by := range []time.Duration{-24 * time.Hour, -time.Hour, -time.Minute, 0, time.Hour, 24 * time.Hour} {
		w := newWorker(t, 1)
		w.minutes(5, calm("q"))
		many := w.minutes(1, deep("q", 3000, 1)).Instances
		w.now = w.now.Add(by)
		w.want(by.String(), w.minutes(1, deep("q", 1500, many)), many)
		w.want(by.String(), w.minutes(3, deep("q", 900, many)), many)
		w.want(by.String(), w.minutes(12, calm("q")), 1)
	}
}

// TestArrivals are what was completed and the change of the count.
func TestArrivals(t *testing.T) {
	w := newWorker(t, 1)
	for minute := range int64(60) {
		s := calm("q")
		s.Ready, s.CompletionsPerSecond = 60*minute, 2 // 3 arrive in a second
		advice := w.minutes(1, s)
		if got := advice.Queues[0].ArrivalsPerSecond; minute == 59 && math.Abs(got-3) > 0.01 {
			t.Errorf("%v arrivals in a second, want 3", got)
		}
	}
}

func TestStoredState(t *testing.T) {
	w := newWorker(t, 3)
	w.minutes(9, calm("a"), deep("b", 999, 3))
	text := asJSON(t, w.state)
	if len(text) > 2000 {
		t.Errorf("the state of two queues has %d bytes", len(text))
	}
	var back State
	if err := json.Unmarshal([]byte(text), &back); err != nil || asJSON(t, back) != text {
		t.Errorf("%s becomes %s: %v", text, asJSON(t, back), err)
	}
	for _, bad := range []string{`{}`, `[]`, `{"version":2}`, `{"version":1,"instances":-1}`, `{"version":1,"queues":{"q":{"all":-1}}}`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	if asJSON(t, back) != text {
		t.Error("a state that could not be read changed the former one")
	}
}

// TestAnything gives readings at random, of which many are impossible: the
// advice is within the rules, is no different when it is repeated, and changes
// as seldom as promised.
func TestAnything(t *testing.T) {
	for seed := range uint64(storetest.Scale(2, 30)) {
		rng := rand.New(rand.NewPCG(seed, 5))
		number := func() float64 {
			return []float64{0, 0, 1, 5, 40, 1000, 1e6, 1e12, -1, math.NaN(), math.Inf(1), rng.Float64(), 100 * rng.Float64()}[rng.IntN(13)]
		}
		rules := mustParse([]byte(dayRules))
		state, at := State{}, dayStart
		var changes []change
		for range 300 {
			at = at.Add(time.Duration(rng.IntN(180)) * time.Second)
			r := Reading{At: at, LatencyTarget: dayTarget, Instances: rng.IntN(40) - 1, Hands: rng.IntN(40) - 1}
			for q := range rng.IntN(4) {
				s := Sample{Queue: fmt.Sprint("q", q), OldestSeconds: number(), CompletionsPerSecond: number(), ResponseSeconds: number(),
					CPU: number(), P95LatencySeconds: number(), Held: rng.IntN(8) == 0}
				s.Ready, s.InFlight, s.Delayed, s.Working = int64(rng.IntN(5000)), int64(rng.IntN(5000)), int64(rng.IntN(50)), int64(rng.IntN(900))-1
				r.Samples = append(r.Samples, s)
			}
			before := asJSON(t, state)
			advice, next := Advise(rules, state, r)
			var stored State
			if err := json.Unmarshal([]byte(before), &stored); err != nil && state.kept.At != (time.Time{}) {
				t.Fatal(err)
			}
			again, nextAgain := Advise(rules, stored, r)
			if fmt.Sprint(advice) != fmt.Sprint(again) || asJSON(t, next) != asJSON(t, nextAgain) || asJSON(t, state) != before {
				t.Fatalf("seed %d: the same reading returned\n%v\n%v", seed, advice, again)
			}
			kept := asJSON(t, next)
			Advise(rules, state, Reading{At: at.Add(time.Second), Instances: 7})
			if asJSON(t, next) != kept {
				t.Fatalf("seed %d: advice from the former state changed the next one", seed)
			}
			was := state.kept.Instances
			if state.kept.At.IsZero() {
				was = min(max(r.Instances, 0), 30)
			}
			if by := advice.Instances - was; by != 0 {
				changes = append(changes, change{at, by})
			}
			if n := advice.Instances; n < 1 || n > 30 || strings.Count(advice.Reason+" ", ". ") != 1 || len(advice.Queues) != len(r.Samples) {
				t.Fatalf("seed %d: %d instances: %s", seed, n, advice.Reason)
			}
			for _, q := range advice.Queues {
				if q.Hands < 1 || q.Hands > 32 || !(q.ArrivalsPerSecond >= 0) || strings.Count(q.Reason+" ", ". ") != 1 {
					t.Fatalf("seed %d: %+v", seed, q)
				}
			}
			state = next
		}
		r := dayResult{changes: changes}
		if n := r.busiestHour(); n > maxChanges || len(changes) < 5 {
			t.Errorf("seed %d: %d changes, %d of them in an hour", seed, len(changes), n)
		}
		for pair := range slices.Chunk(append(changes, changes[1:]...), 2) {
			if len(pair) == 2 && pair[0].By > 0 != (pair[1].By > 0) && pair[1].At.After(pair[0].At) && pair[1].At.Sub(pair[0].At) < 4*time.Minute {
				t.Errorf("seed %d: a change was reversed after %v", seed, pair[1].At.Sub(pair[0].At))
			}
		}
	}
}
