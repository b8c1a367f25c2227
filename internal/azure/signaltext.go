package azure

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"kennel/gate"
)

// signalText is a signal on its way.
type signalText struct {
	Version    int       `json:"version"`
	Store      string    `json:"store"` // whose gate it is
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

func encodeSignal(s gate.Signal, store string) []byte {
	text, err := json.Marshal(signalText{
		signalVersion, store, s.Gate, s.Generation, s.Released, s.Life, s.At.UTC(), s.By, s.Reason,
	})
	if err != nil {
		return nil // a time that no calendar has: others hear that something has happened
	}
	return text
}

// decodeSignal reads a signal, and says whether it is about that store, as far
// as can be told. What makes no sense is a signal that something has happened,
// and nothing more: whoever hears that, asks the store.
func decodeSignal(text []byte, store string) (s gate.Signal, ours bool) {
	var t signalText
	switch {
	case len(text) > maxSignal || json.Unmarshal(text, &t) != nil || t.Version != signalVersion:
		return gate.Signal{}, true
	case t.Store != store:
		return gate.Signal{}, false
	case gate.CheckName(t.Gate) != nil:
		return gate.Signal{}, true
	}
	return gate.Signal{
		Gate: t.Gate, Generation: t.Generation, Released: t.Released, Life: t.Life,
		At: t.At, By: t.By, Reason: t.Reason,
	}, true
}

// storeOf names a container to whoever knows it, and to nobody else.
func storeOf(address string) string {
	if u, err := url.Parse(address); err == nil {
		address = strings.ToLower(u.Host) + u.EscapedPath() // without a signature
	}
	sum := sha256.Sum256([]byte(address))
	return hex.EncodeToString(sum[:16])
}
