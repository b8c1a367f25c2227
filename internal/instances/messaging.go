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
}).Within(func(r *Report, now, before map[string]Messaging) {
	all := make(map[string]Attempted)
	for queue, m := range now {
		if a := m.since(before[queue]); a != (Attempted{}) {
			all[queue] = a
		}
	}
	if len(all) > 0 {
		AttemptedSection.Add(r, all)
	}
})

// AttemptedSection has the attempts of a process within the window of its report,
// by declared queue. A process without any does not have it.
var AttemptedSection = ByName[Attempted]("attempted", nil)

// Attempted counts attempts of messages of a declared queue within a window.
type Attempted struct {
	Done   int64 `json:"done,omitempty"`
	Failed int64 `json:"failed,omitempty"` // also those that were rejected or that are tried again at a time of their own
}

// failures are the outcomes of attempts that failed. What was snoozed or put back
// was not tried.
var failures = []string{"failed", "rejected", "retried_later"}

// since returns the attempts after an earlier count.
func (m Messaging) since(before Messaging) Attempted {
	a := Attempted{Done: m.Outcomes["done"] - before.Outcomes["done"]}
	for _, outcome := range failures {
		a.Failed += m.Outcomes[outcome] - before.Outcomes[outcome]
	}
	return a
}

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
