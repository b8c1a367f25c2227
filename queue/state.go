package queue

import "sync/atomic"

// QueueState is what a listener does with one queue and did since its start.
type QueueState struct {
	Queue string
	Hands int // messages at work
	Pool  int // hands that all queues of the listener share

	Receives       int64 // requests
	EmptyReceives  int64
	FailedReceives int64

	Received    int64 // messages
	Done        int64 // messages deleted after their work
	Repeated    int64 // of them without work, because it was done in an earlier delivery
	Retried     int64 // failed attempts
	Returned    int64 // put back without an attempt
	DeadLetters int64
	LeasesLost  int64
	Ages        []int64          // messages received, by age; see Ages
	AgeSeconds  float64          // the sum of their ages
	HandSeconds float64          // for which attempts that have ended kept a hand, all together
	Latencies   []int64          // messages done, by the time since they were put, in the buckets of Ages
	Requests    map[string]int64 // to storage, by kind: receive, count, update, delete, put
}

// counters count since the start.
type counters struct {
	receives, empty, failed, counts, updates, deletes, puts atomic.Int64 // requests

	received, done, repeated, retried, returned, deadLetters, lost atomic.Int64 // done without repeated, so that neither difference nor sum goes down

	ages, latencies Ages
	handTime        atomic.Int64 // nanoseconds: 292 years of one hand
}
