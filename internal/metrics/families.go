package metrics

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"kennel/internal/cost/bill"
	"kennel/internal/instances"
	"kennel/queue"
)

// bus is the service of operations that are no requests to storage.
const bus = "bus"

// families are all metrics of the app.
var families = slices.Concat(ofAll, ofRelay, ofMessaging)

// ofAll are those of all jobs but the relay.
var ofAll = []family{
	{
		name: "kennel_info", kind: gauge, labels: []string{"version", labelKind},
		help: "A process of the app and its build; always 1.",
		of:   func(r instances.Report, add func(float64, ...string)) { add(1, r.Version, r.Kind) },
	},
	{
		name: "kennel_process_cpus", kind: gauge,
		help: "Processors in use, as a mean over about a minute.",
		of:   func(r instances.Report, add func(float64, ...string)) { add(r.CPU) },
	},
	{
		name: "kennel_process_resident_bytes", kind: gauge,
		help: "Resident memory of the process.",
		of:   func(r instances.Report, add func(float64, ...string)) { add(float64(r.Memory)) },
	},
	{
		name: "kennel_problems", kind: gauge, labels: []string{"code"},
		help: "Present problems of the process, as in the status.",
		of: func(r instances.Report, add func(float64, ...string)) {
			for _, code := range instances.Codes() {
				add(0, code)
			}
			for _, p := range r.Problems {
				add(1, p.Code)
			}
		},
	},
	{
		name: "kennel_invocations_total", kind: counter,
		help: "HTTP calls and messages that were completed, without waits at gates.",
		of:   func(r instances.Report, add func(float64, ...string)) { add(float64(r.Total.Count)) },
	},
	{
		name: "kennel_invocation_seconds_total", kind: counter,
		help: "Time that those invocations took, all together.",
		of:   func(r instances.Report, add func(float64, ...string)) { add(r.Total.Seconds) },
	},
	{
		name: "kennel_hands", kind: gauge, labels: []string{"queue"},
		help: "Messages that the process works on now.",
		of: func(r instances.Report, add func(float64, ...string)) {
			for name := range instances.WorkSection.Of(r) {
				add(0, name)
			}
			for name, running := range instances.RunningSection.Of(r) {
				add(float64(running), name)
			}
		},
	},
	{
		name: "kennel_hand_seconds_total", kind: counter, labels: []string{"queue"},
		help: "Time for which messages were worked on, all together.",
		of: func(r instances.Report, add func(float64, ...string)) {
			for name, w := range instances.WorkSection.Of(r) {
				add(w.HandSeconds, name)
			}
		},
	},
	ofWorkers("kennel_queue_receives_total", "Requests of a worker to receive messages.",
		func(w instances.Work) int64 { return w.Receives }),
	ofWorkers("kennel_queue_empty_receives_total", "Those that returned no message.",
		func(w instances.Work) int64 { return w.EmptyReceives }),
	ofWorkers("kennel_queue_failed_receives_total", "Those that failed.",
		func(w instances.Work) int64 { return w.FailedReceives }),
	{
		name: "kennel_queue_messages_total", kind: counter, labels: []string{"queue", "outcome"},
		help: "Deliveries of messages, by outcome.",
		of: func(r instances.Report, add func(float64, ...string)) {
			for name, w := range instances.WorkSection.Of(r) {
				for outcome, n := range map[string]int64{
					"done": w.Done, "repeated": w.Repeated, "retried": w.Retried,
					"returned": w.Returned, "dead_letter": w.DeadLetters, "lost": w.Lost,
				} {
					add(float64(n), name, outcome)
				}
			}
		},
	},
	{
		name: "kennel_message_age_seconds", kind: hist, labels: []string{"queue"},
		help: "Time from the put of a message until the process received it.",
		ages: func(r instances.Report, add func(distribution, ...string)) {
			for name, w := range instances.WorkSection.Of(r) {
				if len(w.Ages) == len(queue.AgeBounds())+1 { // another build has other bounds
					add(distributionOf(w.Ages, w.AgeSeconds), name)
				}
			}
		},
	},
	{
		name: "kennel_queue_depth", kind: gauge, labels: []string{"queue", labelKind},
		help: "Messages in the queue, as last sampled.",
		ofQueues: func(queues map[string]instances.QueueSample, add func(float64, ...string)) {
			for name, s := range queues {
				add(float64(s.Ready), name, "ready")
				add(float64(s.InFlight), name, "in_flight")
				add(float64(s.Delayed), name, "delayed")
				add(float64(s.Poison), name, "dead_letters")
			}
		},
	},
	{
		name: "kennel_queue_oldest_message_seconds", kind: gauge, labels: []string{"queue"},
		help: "Age of the oldest message that is ready, as last sampled; 0 without one.",
		ofQueues: func(queues map[string]instances.QueueSample, add func(float64, ...string)) {
			for name, s := range queues {
				add(s.OldestSeconds, name)
			}
		},
	},
	ofSequences("kennel_sequence_numbers_total", counter, "Numbers that the process issued.",
		func(s instances.Sequence) int64 { return s.Issued }),
	ofSequences("kennel_sequence_available", gauge, "Numbers that the process has reserved and not issued yet.",
		func(s instances.Sequence) int64 { return s.Available }),
	ofSequences("kennel_sequence_lost_total", counter, "Reserved numbers that no process issues.",
		func(s instances.Sequence) int64 { return s.Lost }),
	{
		name: "kennel_gate_waiters", kind: gauge, labels: []string{"gate"},
		help: "Callers that wait at the gate in the process; no series without one.",
		of: func(r instances.Report, add func(float64, ...string)) {
			all := instances.GateSection.Of(r)
			for _, g := range all[:min(len(all), maxNames)] {
				add(float64(g.Waiters), g.Name)
			}
		},
	},
	{
		name: "kennel_storage_requests_total", kind: counter, labels: []string{"service", "operation"},
		help: "Requests that the process sent to storage, with repeats.",
		of: func(r instances.Report, add func(float64, ...string)) {
			for _, n := range instances.RequestSection.Of(r) {
				if n.Service != bus {
					add(float64(n.Count), n.Service, n.Operation)
				}
			}
		},
	},
	{
		name: "kennel_bus_operations_total", kind: counter, labels: []string{"operation"},
		help: "Operations of Service Bus that the process caused: messages sent, delivered, settled and peeked at, receives of none, and locks renewed.",
		of: func(r instances.Report, add func(float64, ...string)) {
			for _, n := range instances.RequestSection.Of(r) {
				if n.Service == bus {
					add(float64(n.Count), n.Operation)
				}
			}
		},
	}, {
		name: "kennel_operations_total", kind: counter, labels: []string{labelJob},
		help: "Requests to storage and operations of Service Bus that the process caused, by job.",
		of: func(r instances.Report, add func(float64, ...string)) {
			for _, n := range instances.RequestSection.Of(r) {
				add(float64(n.Count), cmp.Or(n.Job, "other"))
			}
		},
	}, {
		name: "kennel_bill_today", kind: gauge, labels: []string{"currency"},
		help:   "Price of the requests of all jobs since the day began.",
		ofBill: func(b bill.Bill, add func(float64, ...string)) { add(number(b.Today), b.Currency) },
	}, {
		name: "kennel_bill_month", kind: gauge, labels: []string{labelJob, "currency"},
		help: "Price of the requests of a job to storage and Service Bus since the month began.",
		ofBill: func(b bill.Bill, add func(float64, ...string)) {
			for name, j := range b.Jobs {
				add(number(j.Amount), name, b.Currency)
			}
		},
	}, {
		name: "kennel_bill_month_operations", kind: gauge, labels: []string{labelJob},
		help: "Operations of storage and Service Bus since the month began.",
		ofBill: func(b bill.Bill, add func(float64, ...string)) {
			for name, j := range b.Jobs {
				add(float64(j.Operations), name)
			}
		},
	},
}

// labelJob is a job of the app: a scraper adds a label "job" of its own.
const labelJob = "kennel_job"

// number returns the value of a decimal of a bill.
func number(decimal string) float64 {
	value, err := strconv.ParseFloat(decimal, 64)
	if err != nil {
		return math.NaN() // the bill is made by package bill, so this does not occur
	}
	return value
}

// ofWorkers returns a family of counters that processes of a Functions host do
// not have, because the host receives their messages.
func ofWorkers(name, help string, count func(instances.Work) int64) family {
	return family{name: name, help: help, kind: counter, labels: []string{"queue"},
		of: func(r instances.Report, add func(float64, ...string)) {
			if r.Kind == instances.Functions {
				return
			}
			for queue, w := range instances.WorkSection.Of(r) {
				add(float64(count(w)), queue)
			}
		},
	}
}

// ofSequences returns a family about sequences.
func ofSequences(name string, kind kind, help string, value func(instances.Sequence) int64) family {
	return family{name: name, help: help, kind: kind, labels: []string{"sequence"},
		of: func(r instances.Report, add func(float64, ...string)) {
			all := slices.SortedStableFunc(slices.Values(instances.SequenceSection.Of(r)), func(a, b instances.Sequence) int { return cmp.Compare(b.Issued, a.Issued) })
			for _, s := range all[:min(len(all), maxNames)] {
				add(float64(value(s)), s.Name)
			}
		},
	}
}
