package api

import (
	"context"
	"net/http"
	"sync"

	"kennel/internal/doctor"
	"kennel/internal/edge"
)

// DoctorAnswer is what GET /api/doctor reports.
type DoctorAnswer struct {
	Checks []doctor.Finding `json:"checks"`
}

// DoctorPattern is the route of the doctor. It only reads what is the user's,
// but it writes to storage and sends a signal.
const DoctorPattern = "GET /api/doctor"

// A diagnosis is one run of the checks, for all calls that arrive during it.
type diagnosis struct {
	done     chan struct{} // closed at its end
	findings []doctor.Finding
	err      error
}

// ServeDoctor serves GET /api/doctor: what the app's own identity may do. The
// answer is 200 also if a check failed: callers read the body. The checks are
// opened by the first call, so that they do not delay the start.
//
// The checks run once at a time, however many call. A run does not end with the
// call that began it, because others may wait for it.
func ServeDoctor(open func() ([][]doctor.Check, error)) http.Handler {
	open = sync.OnceValues(open)
	var mu sync.Mutex
	var running *diagnosis // guarded by mu; nil: none
	return Serve(nil, func(r *http.Request) (edge.Reply, error) {
		mu.Lock()
		d := running
		if d == nil {
			d = &diagnosis{done: make(chan struct{})}
			running = d
			ctx := context.WithoutCancel(r.Context())
			go func() {
				defer close(d.done)
				lanes, err := open()
				if d.err = err; err == nil {
					d.findings = doctor.Diagnose(ctx, lanes)
				}
				mu.Lock()
				defer mu.Unlock()
				running = nil
			}()
		}
		mu.Unlock()
		select {
		case <-d.done:
		case <-r.Context().Done():
			return edge.Reply{}, context.Cause(r.Context())
		}
		if d.err != nil {
			return edge.Reply{}, d.err
		}
		return edge.Reply{Status: http.StatusOK, Body: DoctorAnswer{d.findings}}, nil
	})
}
