package gate

import "time"

// Failure is a failure that still lasts.
type Failure struct {
	Err   error
	Since time.Time
	Count int64 // how often it has failed since; 0: an attempt is under way

	last time.Time
}

// add counts a failure.
func (f *Failure) add(err error) {
	now := time.Now()
	if f.Since.IsZero() {
		f.Since = now
	}
	f.Err, f.last = err, now
	f.Count++
}
