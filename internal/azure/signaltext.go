package azure

import (
	"encoding/json"
	"time"

	"kennel/gate"
)

// signalText is a signal on its way.
type signalText struct {
	Version    int       `json:"version"`
	Gate       string    `json:"gate"`
	Generation int64     `json:"generation"`
	Released   bool      `json:"released"`
	Life       string    `json:"life,omitempty"`
	At         time.Time `json:"at"`
	By         string    `json:"by"`
	Reason     string    `json:"reason,omitempty"`
}

const signalVersion = 1

// maxSignal bounds the text of a signal: gate and reason at their longest,
// with room for escapes.
const maxSignal = 16 << 10

func encodeSignal(s gate.Signal) []byte {
	text, err := json.Marshal(signalText{
		signalVersion, s.Gate, s.Generation, s.Released, s.Life, s.At.UTC(), s.By, s.Reason,
	})
	if err != nil {
		return nil // a time that no calendar has: others hear that something has happened
	}
	return text
}

// decodeSignal reads a signal. What makes no sense is a signal that something
// has happened, and nothing more: whoever hears that, asks the store.
func decodeSignal(text []byte) gate.Signal {
	var t signalText
	if len(text) > maxSignal || json.Unmarshal(text, &t) != nil || t.Version != signalVersion || gate.CheckName(t.Gate) != nil {
		return gate.Signal{}
	}
	return gate.Signal{
		Gate: t.Gate, Generation: t.Generation, Released: t.Released, Life: t.Life,
		At: t.At, By: t.By, Reason: t.Reason,
	}
}
