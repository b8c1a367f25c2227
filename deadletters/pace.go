package deadletters

import (
	"context"
	"math"
	"time"

	"kennel/internal/table"
)

// pace spaces the letters of a call. The zero pace does not.
type pace struct {
	perSecond float64
	next      time.Time // when the next letter may begin
}

// received is the time for which letters are received ahead of their turn.
const receivedAhead = 5 * time.Second

// soon returns how many letters have their turn soon, at least one.
func (p *pace) soon() int {
	if p.perSecond == 0 {
		return math.MaxInt
	}
	return int(max(1, min(p.perSecond*receivedAhead.Seconds(), math.MaxInt32)))
}

// wait waits for the turn of the next letter. It returns the error of ctx if
// ctx ends before.
func (p *pace) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil || p.perSecond == 0 {
		return err
	}
	if err := table.Pause(ctx, p.due()); err != nil {
		return err
	}
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(time.Second) / p.perSecond))
	return nil
}

// due returns how long it is until the next letter may begin.
func (p *pace) due() time.Duration { return max(0, time.Until(p.next)) }
