package gate

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	// jitter is how much later than its turn a poll comes at most, so that
	// nodes which happen to share a turn part again. More of it would undo
	// what the turns are for.
	jitter = 10 * time.Millisecond

	// confirmWithin is the time over which nodes spread their looks after a
	// signal that all of them have heard: a thousand of them make 200 requests
	// a second then, where the store takes some 500.
	confirmWithin = 5 * time.Second
)

// pace says when to look. Every node has turns of its own, by its name, so
// that nodes started together do not poll together.
type pace struct {
	often, rarely time.Duration
	turn          float64 // where in each interval, 0 to 1
	random        *rand.Rand
}

func newPace(instance, gate string, often, rarely time.Duration) pace {
	return pace{
		often: often, rarely: rarely,
		turn:   turn(instance, gate),
		random: rand.New(rand.NewChaCha8(sha256.Sum256([]byte(instance + "/" + gate)))),
	}
}

// turn spreads nodes by name. Those that are numbered, as in a scale set, come
// at steps of the golden ratio: however many they are, no two are close to each
// other. The others have to rely on chance.
func turn(instance, gate string) float64 {
	const goldenRatio = 0.6180339887498949
	family := strings.TrimRight(instance, "0123456789")
	number := 0.0
	if digits := instance[len(family):]; len(digits) <= 9 {
		number, _ = strconv.ParseFloat(digits, 64) // no digits: 0
	} else {
		family = instance
	}
	hash := sha256.Sum256([]byte(family + "/" + gate))
	offset := float64(binary.BigEndian.Uint32(hash[:])) / (1 << 32)
	_, within := math.Modf(offset + number*goldenRatio)
	return within
}

// next returns how long to wait from now on before a look, for a watch with
// this wish whose last looks failed.
func (p *pace) next(now time.Time, wish wish, failed int) time.Duration {
	switch wish {
	case lookNow:
		return 0
	case lookSoon:
		return p.upTo(min(confirmWithin, p.rarely))
	case lookSooner:
		return p.upTo(min(confirmWithin, p.often))
	case lookLater:
		return p.upTo(p.bound(failed))
	case lookOften:
		return p.nextTurn(now, p.often)
	default:
		return p.nextTurn(now, p.rarely)
	}
}

// bound grows with each failure in a row, from twice the short interval to the
// long one.
func (p *pace) bound(failed int) time.Duration {
	bound := p.often
	for range failed {
		if bound *= 2; bound >= p.rarely {
			return p.rarely
		}
	}
	return bound
}

// nextTurn counts turns from the same instant on every node, so a node that
// is started again keeps its own. The wait is never longer than the interval
// and its jitter, whatever the clock does.
func (p *pace) nextTurn(now time.Time, interval time.Duration) time.Duration {
	within := time.Duration(now.UnixNano() % int64(interval))
	wait := time.Duration(p.turn*float64(interval)) - within
	if wait <= 0 {
		wait += interval
	}
	return wait + p.upTo(min(jitter, interval/20))
}

// upTo draws from zero to d (full jitter).
func (p *pace) upTo(d time.Duration) time.Duration {
	return time.Duration(p.random.Int64N(int64(d) + 1))
}
