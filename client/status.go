package client

import (
	"context"
	"net/http"
	"time"
)

// Status describes the instance that answers; other instances have their own.
// JSON returns all of it.
type Status struct {
	Status    string                      `json:"status"` // "ok" or "degraded"
	Version   string                      `json:"version"`
	StartedAt time.Time                   `json:"startedAt"`
	Go        string                      `json:"go"`
	Storage   Storage                     `json:"storage"`
	Signals   Signals                     `json:"signals"`
	Sequences map[string]SequenceStatus   `json:"sequences"` // those that the instance has used
	Gates     map[string]GateStatus       `json:"gates"`     // those at which the instance has waiters
	Requests  map[string]map[string]int64 `json:"requests"`  // by service and operation

	received
}

// Storage is whether the services of the storage account answer.
type Storage struct {
	Account string   `json:"account"`
	Service          // blobs
	Tables  *Service `json:"tables"` // nil if the app does not use them
	Queues  *Service `json:"queues"`
}

// Service is whether a service of the storage account answers.
type Service struct {
	Reachable bool   `json:"reachable"`
	Error     string `json:"error"`
}

// Signals is the Service Bus namespace of the gates' signals.
type Signals struct {
	Bus      string `json:"bus"`
	Received bool   `json:"heard"` // otherwise gates are polled
}

// SequenceStatus counts the numbers and requests of a sequence.
type SequenceStatus struct {
	Issued    int64  `json:"issued"`
	Reserved  int64  `json:"reserved"`
	Lost      int64  `json:"burnt"`    // given up
	Returned  int64  `json:"returned"` // given back
	Available int64  `json:"inHand"`
	Requests  int64  `json:"requests"`
	Conflicts int64  `json:"conflicts"` // lost races
	Failures  int64  `json:"failures"`
	Waits     int64  `json:"waits"`   // calls that waited for storage
	Problem   string `json:"problem"` // why no numbers can be reserved; "" if they can
}

// GateStatus is a gate with waiters.
type GateStatus struct {
	State   Gate   `json:"state"`
	Waiting int    `json:"waiting"`
	Signals bool   `json:"signals"` // are relied on
	Error   string `json:"error"`   // of the last read
}

// Status reads the status of the instance that answers. An app that is degraded
// is not an error.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	_, err = c.call(ctx, request{method: http.MethodGet, path: "/status", repeats: always}, &s)
	return s, err
}

// Health reports whether the app answers. It needs no key, and the app sends no
// request to storage.
func (c *Client) Health(ctx context.Context) error {
	var health struct {
		Status string `json:"status"`
		received
	}
	_, err := c.call(ctx, request{method: http.MethodGet, path: "/health", repeats: always}, &health)
	return err
}
