package metrics

import "kennel/internal/instances"

// ofRelay are the metrics of messages for Service Bus.
var ofRelay = []family{
	{
		name: "kennel_sends_total", kind: counter, labels: []string{"outcome"},
		help: "Messages for Service Bus, by where they were stored.",
		of: func(r instances.Report, add func(float64, ...string)) {
			sends := instances.SendSection.Of(r)
			add(float64(sends.Primary), "primary")
			add(float64(sends.Backlog), "backlog")
			add(float64(sends.Failed), "failed")
		},
	},
	{
		name: "kennel_send_attempts_total", kind: counter, labels: []string{"outcome"},
		help: "Attempts to send that had no answer, each of which may have stored a copy, and that a busy namespace rejected.",
		of: func(r instances.Report, add func(float64, ...string)) {
			sends := instances.SendSection.Of(r)
			add(float64(sends.Ambiguous), "ambiguous")
			add(float64(sends.Throttled), "throttled")
		},
	},
	{
		name: "kennel_failovers_total", kind: counter, labels: []string{"to"},
		help: "Changes of a queue or topic to the backlog, and back to the primary namespace.",
		of: func(r instances.Report, add func(float64, ...string)) {
			sends := instances.SendSection.Of(r)
			add(float64(sends.Failovers), "backlog")
			add(float64(sends.Failbacks), "primary")
		},
	},
	{
		name: "kennel_relay_state", kind: gauge, labels: []string{"entity"},
		help: "State of a queue or topic to which the process sends: 0 healthy, 1 suspect, 2 failed over.",
		of: func(r instances.Report, add func(float64, ...string)) {
			values := map[string]float64{"healthy": 0, "suspect": 1, "failedOver": 2}
			all := instances.RelaySection.Of(r)
			for _, e := range all[:min(len(all), maxNames)] {
				add(values[e.State], e.Entity)
			}
		},
	},
	{
		name: "kennel_backlog_drained_total", kind: counter, labels: []string{"outcome"},
		help: "Messages that left the backlog, by outcome.",
		of: func(r instances.Report, add func(float64, ...string)) {
			sends := instances.SendSection.Of(r)
			add(float64(sends.Moved), "moved")
			add(float64(sends.DeadLettered), "dead_letter")
			add(float64(sends.Expired), "expired")
		},
	},
	{
		name: "kennel_backlog_messages", kind: gauge, labels: []string{"entity"},
		help: "Messages in the backlog, as last sampled.",
		ofBacklog: func(b instances.Backlog, add func(float64, ...string)) {
			for _, e := range b.Entities[:min(len(b.Entities), maxNames)] {
				add(float64(e.Messages), e.Entity)
			}
		},
	},
	{
		name: "kennel_backlog_oldest_message_seconds", kind: gauge, labels: []string{"entity"},
		help: "Age of the oldest message in the backlog, as last sampled.",
		ofBacklog: func(b instances.Backlog, add func(float64, ...string)) {
			for _, e := range b.Entities[:min(len(b.Entities), maxNames)] {
				add(e.OldestSeconds, e.Entity)
			}
		},
	},
}
