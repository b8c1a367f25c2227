package metrics

import (
	"kennel/internal/instances"
	"kennel/queue"
)

// labelQueue is a declared queue of a program. Names and labels that begin with
// messaging are those of OpenTelemetry's conventions, as Prometheus writes them.
const labelQueue = "messaging_destination_name"

// ofMessaging are the families of the queues of a program.
var ofMessaging = []family{
	{
		name: "messaging_client_sent_messages_total", kind: counter, labels: []string{labelQueue, "messaging_system", "error_type"},
		help: "Messages that the program sent. With an error type, storage did not confirm them.",
		of: func(r instances.Report, add func(float64, ...string)) {
			for name, m := range instances.MessagingSection.Of(r) {
				add(float64(m.Sent), name, system, "")
				if m.SendFailed > 0 {
					add(float64(m.SendFailed), name, system, "unconfirmed")
				}
			}
		},
	},
	{
		name: "kennel_attempts_total", kind: counter, labels: []string{labelQueue, "outcome"},
		help: "Attempts of messages of the program, by outcome.",
		of: func(r instances.Report, add func(float64, ...string)) {
			for name, m := range instances.MessagingSection.Of(r) {
				for outcome, n := range m.Outcomes {
					add(float64(n), name, outcome)
				}
			}
		},
	},
	ofAges("messaging_process_duration_seconds", "Time that attempts took.",
		func(m instances.Messaging) ([]int64, float64) { return m.Durations, m.Seconds }),
	ofAges("kennel_success_age_seconds", "Time from the send of a message until it was done.",
		func(m instances.Messaging) ([]int64, float64) { return m.SuccessAges, m.SuccessAgeSeconds }),
	{
		name: "kennel_last_success_seconds", kind: gauge, labels: []string{labelQueue},
		help: "Time since the last message that the process did, when it reported; no series before the first one.",
		of: func(r instances.Report, add func(float64, ...string)) {
			for name, m := range instances.MessagingSection.Of(r) {
				if !m.LastSuccess.IsZero() {
					add(max(0, r.At.Sub(m.LastSuccess).Seconds()), name)
				}
			}
		},
	},
}

// system is the value of messaging_system.
const system = "azure_queue_storage"

// ofAges returns a histogram of declared queues.
func ofAges(name, help string, of func(instances.Messaging) ([]int64, float64)) family {
	return family{name: name, help: help, kind: hist, labels: []string{labelQueue, "messaging_system"},
		ages: func(r instances.Report, add func(distribution, ...string)) {
			for name, m := range instances.MessagingSection.Of(r) {
				if counts, sum := of(m); len(counts) == len(queue.AgeBounds())+1 { // another build has other bounds
					add(distributionOf(counts, sum), name, system)
				}
			}
		},
	}
}

// distributionOf returns a histogram of counts in the buckets of [queue.Ages].
func distributionOf(counts []int64, sum float64) distribution {
	d, bounds := distribution{sum: sum}, queue.AgeBounds()
	for i, n := range counts {
		d.count += uint64(n)
		if i < len(bounds) {
			d.below = append(d.below, bucket{bounds[i].Seconds(), d.count})
		}
	}
	return d
}
