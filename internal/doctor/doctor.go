// Package doctor finds out what the app's own identity may do, and names the
// command that mends what it may not.
package doctor

import (
	"context"
	"errors"
	"fmt"
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
	DoctorTimeout = 10 * time.Second
)

// A Check finds out one thing.
type Check struct {
	Name  string
	limit time.Duration // 0: checkTimeout
	Do    func(context.Context) (detail string, err error)
	fix   func(err error) string // returns the command that mends an error of Do
}

// Finding is the result of a check.
type Finding struct {
	Name         string `json:"name"`
	OK           bool   `json:"ok"`
	Detail       string `json:"detail"`
	Fix          string `json:"fix"` // the command that mends it; "" if it is ok
	Milliseconds int64  `json:"milliseconds"`
}

// Diagnose runs the checks of each lane in order, and all lanes at once, so
// that a service that hangs does not delay what is known of the others.
func Diagnose(ctx context.Context, lanes [][]Check) []Finding {
	ctx, cancel := context.WithTimeout(ctx, DoctorTimeout)
	defer cancel()
	findings := make([][]Finding, len(lanes))
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
func (c Check) run(ctx context.Context) Finding {
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
		detail, err := c.Do(ctx)
		done <- result{detail, err}
	}()
	var got result
	select {
	case got = <-done:
	case <-ctx.Done():
		got.err = ctx.Err()
	}
	f := Finding{Name: c.Name, OK: got.err == nil, Detail: got.detail, Milliseconds: time.Since(began).Milliseconds()}
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
