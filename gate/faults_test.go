package gate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kennel/gate"
	"kennel/internal/chance"
	"kennel/internal/memory"
)

// fate makes one request in three go wrong, while things do.
func (s *simulation) fate(c memory.Call) memory.Fate {
	chance := s.chance("request", int(c.N))
	f := memory.Fate{Delay: chance.UpTo(roundTrip / 2), Back: chance.UpTo(roundTrip / 2)}
	if !s.faulty || !time.Now().Before(s.calm) {
		return f
	}
	lost := errors.New("connection reset")
	switch chance.Below(24) {
	case 0:
		f.Err = lost // carried out, answer lost
	case 1:
		f.Err, f.Lost = lost, true // never arrived
	case 2:
		f.Err, f.After = lost, chance.UpTo(3*time.Second) // arrives when nobody expects it
	case 3:
		f.Lost = true // a black hole
	case 4:
		f.Err, f.Lost = memory.ErrBusy, true
	case 5:
		f.Delay = chance.UpTo(2 * callTimeout) // slower than the caller's patience
	case 6:
		f.Err, f.Lost = errors.New("forbidden"), true
	case 7:
		if c.Op == "Replace" {
			f.Err, f.Lost = gate.ErrChanged, true // a conflict that was none
		}
	}
	return f
}

// signalFate loses one signal in eight, and all if nobody is to hear any.
func (s *simulation) signalFate(listener int, _ gate.Signal) memory.SignalFate {
	s.mu.Lock()
	s.posted[listener]++
	c := s.chance(fmt.Sprint("signal to ", listener), s.posted[listener])
	s.mu.Unlock()
	return memory.SignalFate{
		Lost:  s.ways == silent || c.Below(8) == 0,
		Twice: c.Below(8) == 0,
		Delay: c.UpTo([]time.Duration{50 * time.Millisecond, 50 * time.Millisecond, longestSignal}[c.Below(3)]),
	}
}

// vandal does what people do, and puts it right again while faults last.
func (s *simulation) vandal() {
	c := s.chance("vandal", 0)
	time.Sleep(c.UpTo(time.Until(s.calm) / 2))
	switch c.Below(4) {
	case 0, 1:
		good, ok := s.store.Get("start")
		if !ok {
			return
		}
		s.store.Set("start", nonsense[c.Below(len(nonsense))])
		if c.Below(2) == 0 {
			s.change(s.procs[0], c.Below(2) == 0, gate.Change{By: "vandal", Reason: "repair", Force: true})
		}
		if time.Sleep(c.UpTo(time.Until(s.calm))); s.broken() {
			s.store.Set("start", good.Text) // the same as before again
		}
	case 2:
		s.store.Delete("start")
	}
}

// broken says whether what is stored cannot be read.
func (s *simulation) broken() bool {
	flag, ok := s.store.Get("start")
	var state gate.State
	return ok && (json.Unmarshal([]byte(flag.Text), &state) != nil || len(state.History) == 0)
}

// nonsense is what is found where a gate should be.
var nonsense = []string{
	"",
	"true",
	"released",
	`{"released":true}`,
	`{"version":1,"released":true,"generation":1}`,
	`{"version":2,"released":true,"generation":9,"history":[]}`,
	`{"version":1,"life":"X","released":true,"generation":9,"history":[`,
	"\x00\x00\x00\x00",
}

// noise sends signals that say nothing, or nothing that is so.
func (s *simulation) noise() {
	c := s.chance("noise", 0)
	for range c.Below(6) {
		time.Sleep(c.UpTo(4 * time.Second))
		signal := gate.Signal{Gate: "start", Generation: 9, Released: true, At: time.Now(), By: "nobody"}
		switch c.Below(5) {
		case 0:
			signal = gate.Signal{}
		case 1:
			signal.Gate = ""
		case 2:
			signal.Gate = "other"
		case 3:
			signal.By = ""
		case 4:
			signal.Generation = 0
		}
		s.signals.Publish(s.t.Context(), signal)
	}
}

// sever cuts everybody off from signals, for good.
func (s *simulation) sever() {
	time.Sleep(s.chance("sever", 0).UpTo(calmBy))
	s.cut = time.Now()
	s.signals.Break()
}

// flap cuts everybody off from signals, and not for long.
func (s *simulation) flap() {
	c := s.chance("flap", 0)
	for time.Now().Before(s.calm) {
		time.Sleep(c.UpTo(4 * time.Second))
		s.signals.Break()
		time.Sleep(c.UpTo(4 * time.Second))
		s.signals.Mend()
	}
}

// chance returns the source of random numbers of one who takes part.
func (s *simulation) chance(of string, i int) *chance.Source { return chance.New(s.seed, of, i) }
