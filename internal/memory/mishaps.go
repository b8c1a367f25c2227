package memory

import (
	"time"

	"kennel/internal/chance"
)

// Mishaps are the random faults of the requests in a simulation. One in Each
// requests is of each kind:
//
//   - it is executed, and its reply is lost
//   - it never arrives
//   - it arrives late, up to After after its caller received an error
//   - it never arrives, and there is no error until its ctx ends
//   - the store is busy ([ErrBusy])
//   - it takes up to Slow to arrive
//   - it never arrives, and returns one of Rejected: a kind for each of them
type Mishaps struct {
	Each     int           // at least as many as there are kinds; 0: no faults
	Trip     time.Duration // the longest way of any request, there and back
	Lost     error         // returned where the outcome is unclear
	After    time.Duration
	Slow     time.Duration
	Rejected []error
}

// Draw draws the fault of a request.
func (m *Mishaps) Draw(random *chance.Source) Fault {
	f := Fault{Delay: random.UpTo(m.Trip), Back: random.UpTo(m.Trip)}
	if m.Each == 0 {
		return f
	}
	switch kind := random.Below(m.Each); kind {
	case 0:
		f.Err = m.Lost
	case 1:
		f.Err, f.Lost = m.Lost, true
	case 2:
		f.Err, f.After = m.Lost, random.UpTo(m.After)
	case 3:
		f.Lost = true
	case 4:
		f.Err, f.Lost = ErrBusy, true
	case 5:
		f.Delay = random.UpTo(m.Slow)
	default:
		if kind -= 6; kind < len(m.Rejected) {
			f.Err, f.Lost = m.Rejected[kind], true
		}
	}
	return f
}
