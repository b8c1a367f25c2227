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

const (
	// reportsLast is how long reports are used for further sequences and ranges,
	// so that a process which begins many reads them once, and one of many on a
	// sequence does not read them for each range.
	reportsLast = 10 * time.Second

	// failureLasts is how long they are not read again after that failed.
	failureLasts = time.Second
)

// reports reads the reports of other processes.
type reports struct {
	read func(context.Context) (map[string][]Reported, error)
	turn chan struct{} // one reads at a time
	all  map[string][]Reported
	at   time.Time

	err      error
	failedAt time.Time
}

// newReports returns nil if other processes are not known.
func newReports(read func(context.Context) (map[string][]Reported, error)) *reports {
	if read == nil {
		return nil
	}
	return &reports{read: read, turn: make(chan struct{}, 1)}
}

// of returns the reports of others on a sequence, as read after a time and
// within the last reportsLast. The time is that at which a copy was found, so
// each copy is a reason to read once more.
func (r *reports) of(ctx context.Context, sequence string, after time.Time) ([]place, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.at.IsZero() || time.Since(r.at) >= reportsLast || r.at.Before(after) {
		if r.err != nil && time.Since(r.failedAt) < failureLasts {
			return nil, r.err
		}
		at := time.Now()
		all, err := r.read(ctx)
		if err != nil {
			if ctx.Err() != context.Canceled { // or else only this generator closes
				r.err, r.failedAt = err, time.Now()
			}
			return nil, err
		}
		r.all, r.at, r.err = all, at, nil
	}
	places := make([]place, 0, len(r.all[sequence]))
	for _, one := range r.all[sequence] {
		if one.Serial > 0 {
			places = append(places, place{one.Writer, one.Serial, one.From, one.End, one.Used})
		}
	}
	return places, nil
}
