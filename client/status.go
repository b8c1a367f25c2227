package client

import (
	"context"
	"net/http"
	"time"
)

// Status describes the app. Problems, Instances and Queues cover all instances;
// the other members describe the one that answers. JSON returns all of it.
type Status struct {
	Status    string                 `json:"status"` // "ok" or "degraded"
	Version   string                 `json:"version"`
	Instance  string                 `json:"instance"` // the one that answers
	StartedAt time.Time              `json:"startedAt"`
	Go        string                 `json:"go"`
	Problems  []Problem              `json:"problems"`  // of all instances; the first 10 of each code
	Instances []Instance             `json:"instances"` // up to 100, with the one that answers
	LeftOut   int                    `json:"leftOut"`   // instances whose reports could not be read
	Queues    map[string]QueueStatus `json:"queues"`    // those that were sampled
	Paused    map[string]Pause       `json:"paused"`    // the program's queues that people have paused

	Storage   Storage                     `json:"storage"`
	Signals   Signals                     `json:"signals"`
	Relay     *RelayStatus                `json:"relay"`     // of all instances; nil without a second Service Bus namespace
	Sequences map[string]SequenceStatus   `json:"sequences"` // the 20 that the instance reserves most often
	Gates     map[string]GateStatus       `json:"gates"`     // the 20 at which the instance has the most waiters
	Requests  map[string]map[string]int64 `json:"requests"`  // by service and operation

	ProblemCount  int `json:"problemCount"`
	InstanceCount int `json:"instanceCount"`
	SequenceCount int `json:"sequenceCount"` // that the instance uses
	GateCount     int `json:"gateCount"`     // at which the instance has waiters

	Bill *Bill `json:"bill"` // of the app; nil if it is not known

	received
}

// Bill is the cost of the operations of storage and Service Bus, of all
// processes of the app. Amounts are decimals.
type Bill struct {
	Currency string             `json:"currency"`
	Today    string             `json:"today"` // since midnight UTC
	Month    string             `json:"month"` // since the month began
	Jobs     map[string]JobBill `json:"jobs"`  // of the month; "host" is the Functions host
	Prices   Prices             `json:"prices"`
	LeftOut  int                `json:"leftOut"` // rows that the app could not read
}

// JobBill is the cost of a job.
type JobBill struct {
	Operations int64  `json:"operations"`
	Amount     string `json:"amount"`
	Today      struct {
		Operations int64  `json:"operations"`
		Amount     string `json:"amount"`
	} `json:"today"` // the share of today
	Modelled bool `json:"modelled"` // it is an estimate, and not counted
}

// Prices identifies the table of prices of a bill.
type Prices struct {
	Name       string `json:"name"`
	Date       string `json:"date"`
	Region     string `json:"region"`
	Redundancy string `json:"redundancy"`
}

// Problem is a fault of one instance or several.
type Problem struct {
	Code      string    `json:"code"`
	Subject   string    `json:"subject"` // the sequence, gate or queue; "" if the code concerns none
	What      string    `json:"what"`    // the cause
	Since     time.Time `json:"since"`
	Count     int64     `json:"count"`     // failures since then
	Instances []string  `json:"instances"` // up to 20
	Help      string    `json:"help"`      // what to do

	InstanceCount int `json:"instanceCount"`
}

// Instance is a process of the app.
type Instance struct {
	Instance  string    `json:"instance"`
	Kind      string    `json:"kind"` // "functions" or "worker"
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"`
	SeenAt    time.Time `json:"seenAt"` // when it reported last
	CPU       float64   `json:"cpu"`    // processors in use
	Memory    int64     `json:"memory"` // resident bytes
	Hands     int64     `json:"hands"`  // messages that it works on
}

// QueueStatus is the depth of a work queue.
type QueueStatus struct {
	Ready         int64     `json:"ready"`
	InFlight      int64     `json:"inFlight"` // instances work on them
	Delayed       int64     `json:"delayed"`  // cannot be received yet
	OldestSeconds float64   `json:"oldestSeconds"`
	Poison        int64     `json:"poison"` // in the dead-letter queue
	At            time.Time `json:"at"`     // of the sample
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
	Received bool   `json:"received"` // otherwise gates are polled
}

// RelayStatus is the summary of [Client.Relay].
type RelayStatus struct {
	FailedOver int           `json:"failedOver"` // queues and topics whose messages go to the backlog, of the instance that has the most
	Backlog    *RelayBacklog `json:"backlog"`    // of all queues and topics; nil: the backlog was not sampled
}

// SequenceStatus counts the numbers and requests of a sequence.
type SequenceStatus struct {
	Issued    int64  `json:"issued"`
	Reserved  int64  `json:"reserved"`
	Lost      int64  `json:"lost"`      // given up
	Returned  int64  `json:"returned"`  // given back to storage
	TakenBack int64  `json:"takenBack"` // given back by callers
	Available int64  `json:"available"`
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

// Status reads the status of the app. An app that is degraded is not an error.
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
