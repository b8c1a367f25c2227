package ids

import (
	"context"
	"time"
)

// Reported is the newest write that another process of the app has reported for
// a sequence, from Stats.
type Reported struct {
	Writer string // Stats.Writer
	Serial int64
	From   int64 // 0: unknown, and so is Used
	End    int64
	Used   int64
}

// reportsLast is how long reports are used for further sequences, so that a
// process which begins many reads them once.
const reportsLast = 10 * time.Second

// reports reads what other processes have reported.
type reports struct {
	read func(context.Context) (map[string][]Reported, error)
	turn chan struct{} // one reads at a time
	all  map[string][]Reported
	at   time.Time
}

// newReports returns nil if other processes are not known.
func newReports(read func(context.Context) (map[string][]Reported, error)) *reports {
	if read == nil {
		return nil
	}
	return &reports{read: read, turn: make(chan struct{}, 1)}
}

// of returns what others have reported of a sequence, as read after a time and
// within the last reportsLast.
func (r *reports) of(ctx context.Context, sequence string, after time.Time) ([]place, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.at.IsZero() || time.Since(r.at) >= reportsLast || r.at.Before(after) {
		at := time.Now()
		all, err := r.read(ctx)
		if err != nil {
			return nil, err
		}
		r.all, r.at = all, at
	}
	places := make([]place, 0, len(r.all[sequence]))
	for _, one := range r.all[sequence] {
		if one.Serial > 0 {
			places = append(places, place{one.Writer, one.Serial, one.From, one.End, one.Used})
		}
	}
	return places, nil
}
