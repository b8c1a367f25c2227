package instances

import "time"

// MessagingSection has what a process sent to the declared queues of a program,
// and its attempts, by declared queue: several may share a queue of storage.
var MessagingSection = ByName("messaging", &Items[Messaging]{
	Numbers: func(m *Messaging) []*float64 { return []*float64{&m.Seconds, &m.SuccessAgeSeconds} },
	Shift: func(m *Messaging, d time.Duration) {
		if !m.LastSuccess.IsZero() {
			m.LastSuccess = m.LastSuccess.Add(d)
		}
	},
})

// HandledSection has the declared queues on which a process works, each with its
// storage queues.
var HandledSection = ByName[[]string]("handled", nil)

// Messaging counts the messages of a declared queue since the process started.
type Messaging struct {
	Sent       int64 `json:"sent,omitempty"`       // confirmed by storage
	SendFailed int64 `json:"sendFailed,omitempty"` // not known to be sent

	Outcomes  map[string]int64 `json:"outcomes,omitempty"`  // of attempts
	Durations []int64          `json:"durations,omitempty"` // of attempts, in the buckets of queue.Ages
	Seconds   float64          `json:"seconds,omitempty"`   // the sum of these

	SuccessAges       []int64   `json:"ages,omitempty"` // messages done, by the time since they were sent, in the buckets of queue.Ages
	SuccessAgeSeconds float64   `json:"age,omitempty"`  // the sum of these
	LastSuccess       time.Time `json:"last,omitzero"`  // zero: none yet
}
