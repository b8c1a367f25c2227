package servicebus

import (
	"strconv"
	"strings"
	"time"

	"kennel/gate"
)

// A signal on its way is text of nine lines: the version of this form, whose
// gate it is (the store), the gate, its generation, "released" or "closed", its
// life, when it was changed, by whom, and why. The reason is the last, because
// it alone may have more lines than one.
//
// Not JSON: in a process where nothing has happened for long, decoding that
// takes as long as waking twenty who wait.
const (
	signalVersion  = "kennel 1"
	signalReleased = "released"
	signalClosed   = "closed"
	signalLines    = 9
)

// maxSignal bounds the text of a signal: gate and reason at their longest.
const maxSignal = 16 << 10

func encodeSignal(s gate.Signal, store string) []byte {
	state := signalClosed
	if s.Released {
		state = signalReleased
	}
	return []byte(strings.Join([]string{
		signalVersion, store, s.Gate, strconv.FormatInt(s.Generation, 10), state, s.Life,
		s.At.UTC().Format(time.RFC3339Nano), s.By, s.Reason,
	}, "\n"))
}

// decodeSignal reads a signal, and says whether it is about that store, as far
// as can be told. What makes no sense is a signal that something has happened,
// and nothing more: whoever hears that, asks the store.
func decodeSignal(text []byte, store string) (s gate.Signal, ours bool) {
	if len(text) > maxSignal {
		return gate.Signal{}, true
	}
	lines := strings.SplitN(string(text), "\n", signalLines)
	if len(lines) < signalLines || lines[0] != signalVersion {
		return gate.Signal{}, true
	}
	if lines[1] != store {
		return gate.Signal{}, false
	}
	s = gate.Signal{Gate: lines[2], Released: lines[4] == signalReleased, Life: lines[5], By: lines[7], Reason: lines[8]}
	var errGeneration, errTime error
	s.Generation, errGeneration = strconv.ParseInt(lines[3], 10, 64)
	s.At, errTime = time.Parse(time.RFC3339Nano, lines[6])
	if gate.CheckName(s.Gate) != nil || errGeneration != nil || errTime != nil || !s.Released && lines[4] != signalClosed {
		return gate.Signal{}, true
	}
	return s, true
}
