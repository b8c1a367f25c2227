package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/internal/azure"
)

// The limits of a check. The checks of a lane run one after the other: three
// that hang take nine seconds, and with all lanes less than ten.
const (
	checkTimeout  = 3 * time.Second
	busTimeout    = 9 * time.Second // a check of Service Bus is a lane of its own
	doctorTimeout = 10 * time.Second
)

// A check finds out one thing.
type check struct {
	name  string
	limit time.Duration // 0: checkTimeout
	do    func(context.Context) (detail string, err error)
	fix   func(err error) string // returns the command that mends an error of do
}

// finding is the result of a check.
type finding struct {
	Name         string `json:"name"`
	OK           bool   `json:"ok"`
	Detail       string `json:"detail"`
	Fix          string `json:"fix"` // the command that mends it; "" if it is ok
	Milliseconds int64  `json:"milliseconds"`
}

// doctorAnswer is what GET /api/doctor reports.
type doctorAnswer struct {
	Checks []finding `json:"checks"`
}

// doctorPattern is the route of the doctor. It only reads what is the user's,
// but it writes to storage and sends a signal.
const doctorPattern = "GET /api/doctor"

// A diagnosis is one run of the checks, for all calls that arrive during it.
type diagnosis struct {
	done     chan struct{} // closed at its end
	findings []finding
	err      error
}

// serveDoctor serves GET /api/doctor: what the app's own identity may do. The
// answer is 200 also if a check failed: callers read the body. The checks are
// opened by the first call, so that they do not delay the start.
//
// The checks run once at a time, however many call. A run does not end with the
// call that began it, because others may wait for it.
func serveDoctor(open func() ([][]check, error)) http.Handler {
	open = sync.OnceValues(open)
	var mu sync.Mutex
	var running *diagnosis // guarded by mu; nil: none
	return serve(nil, func(r *http.Request) (reply, error) {
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
					d.findings = diagnose(ctx, lanes)
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
			return reply{}, context.Cause(r.Context())
		}
		if d.err != nil {
			return reply{}, d.err
		}
		return reply{status: http.StatusOK, body: doctorAnswer{d.findings}}, nil
	})
}

// diagnose runs the checks of each lane in order, and all lanes at once, so
// that a service that hangs does not delay what is known of the others.
func diagnose(ctx context.Context, lanes [][]check) []finding {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	findings := make([][]finding, len(lanes))
	var running sync.WaitGroup
	for i, lane := range lanes {
		running.Go(func() {
			for _, c := range lane {
				findings[i] = append(findings[i], c.run(ctx))
			}
		})
	}
	running.Wait()
	return slices.Concat(findings...)
}

// run does the check within its limit. It does not wait for a request that
// outlives its context, as those of Service Bus may: that ends by itself.
func (c check) run(ctx context.Context) finding {
	limit := c.limit
	if limit == 0 {
		limit = checkTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type result struct {
		detail string
		err    error
	}
	began := time.Now()
	done := make(chan result, 1)
	go func() {
		detail, err := c.do(ctx)
		done <- result{detail, err}
	}()
	var got result
	select {
	case got = <-done:
	case <-ctx.Done():
		got.err = ctx.Err()
	}
	f := finding{Name: c.name, OK: got.err == nil, Detail: got.detail, Milliseconds: time.Since(began).Milliseconds()}
	if got.err != nil {
		f.Detail, f.Fix = explain(got.err, limit), c.fix(got.err)
	}
	return f
}

// explain returns the text of an error on one line. Errors of storage have no
// addresses and no secrets; see package azure.
func explain(err error, limit time.Duration) string {
	const maxLength = 600 // errors about credentials are long
	text := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("no answer within %v", limit)
	case isFirewall(err):
		text += ": the firewall of the account rejects this app, or the right is missing"
	}
	text = strings.Join(strings.Fields(text), " ")
	return strings.ToValidUTF8(text[:min(len(text), maxLength)], "")
}

// isFirewall reports whether storage rejected a request before it checked the
// rights of its sender.
func isFirewall(err error) bool {
	answer, ok := errors.AsType[*azure.Error](err)
	return ok && answer.Code == "AuthorizationFailure"
}
