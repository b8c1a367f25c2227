package cost

// perHour is how often an hour the timers and the workers sweep.
const perHour = 12.0

// Sweep returns the requests of one sweep of everything that finds no work.
func Sweep() []Line {
	c, b := tally{job: jobChannels}, tally{job: jobBatches}
	c.add("table", "query", 2) // stalled deletions, old records
	b.add("table", "query", 3) // unfinished batches, old batches, claims
	b.add("blob", "list", 2)   // staged parcels, claims
	return append(c.lines, b.lines...)
}

// reportSeconds is the average time between two reports of a process.
const reportSeconds = 29.3

// Report returns the requests in an hour by which a process reports itself in
// the instance table.
func Report() []Line {
	t := tally{job: jobInstances}
	t.add("table", "update", hourSeconds/reportSeconds)
	t.add("table", "query", 1) // for old rows
	return t.lines
}

// How often an hour scaling is checked, and how often a process looks whether
// another one checks, on average.
const (
	checksAnHour = 60.0
	standbyLooks = 20.0
)

// Check returns the requests in an hour by which one of these processes checks
// scaling, and the others look whether it does.
func Check(processes float64) []Line {
	t, i := tally{job: jobScale}, tally{job: jobInstances}
	t.add("table", "query", checksAnHour+1+standbyLooks*max(0, processes-1)) // its row, and old rows
	t.add("table", "merge", checksAnHour)
	t.add("table", "transaction", checksAnHour)
	t.add("blob", "get", checksAnHour) // the rules
	i.add("table", "query", checksAnHour)
	return append(t.lines, i.lines...)
}

// Sample returns the requests by which the queues are sampled once, while they
// and their dead-letter queues exist, as infra/ creates them, and are empty. Those
// of batches are counted without the one of channels.
func Sample(ofBatches float64) []Line {
	b, c := tally{job: jobBatches}, tally{job: jobChannels}
	b.add("queue", "list", 1)
	b.add("queue", "head", 2*ofBatches) // the queue, and its dead letters
	c.add("queue", "head", 2)
	c.add("queue", "peek", 1)
	return append(b.lines, c.lines...)
}

// When a process writes to the ledger of its bill: about every ledgerSeconds on
// average, and for each ledgerOperations that it counts, at most every
// ledgerPause seconds.
const (
	ledgerSeconds    = 305
	ledgerOperations = 100
	ledgerPause      = 30
)

// Ledger returns the requests in an hour by which a process keeps its bill that
// counts so many operations in it.
func Ledger(operations float64) []Line {
	t := tally{job: jobBill}
	t.add("table", "update", min(max(hourSeconds/ledgerSeconds, operations/ledgerOperations), hourSeconds/ledgerPause))
	t.add("table", "query", 1) // for rows of processes that ended
	return t.lines
}

// Watch returns the reads of a gate in an hour by a process with waiters.
func Watch(push bool) []Line {
	t := tally{job: jobGates}
	if push {
		t.add("blob", "get", hourSeconds/30)
	} else {
		t.add("blob", "get", hourSeconds/2.5)
	}
	return t.lines
}

// The requests of the Functions host, from its source: a receive of up to 16
// messages each time half of them are done, a poll a minute of an idle queue,
// the lock of a timer that one instance renews twice a minute and the others
// try to get each minute, a blob with the status of a timer, and the scale
// controller, which reads each queue twice in ten seconds.
const (
	hostPerReceive   = 8
	hostPolls        = 60.0
	hostRenewals     = 120.0
	hostTries        = 60.0
	scaleControllers = hourSeconds / 10
)

// heldAnHour is how often an hour the host delivers a message that waits at a
// closed gate. The app waits three minutes, and puts a copy back.
const heldAnHour = 20

// HostIdle returns the requests of the host in an hour, with so many instances
// that run.
func HostIdle(queues, timers, instances float64) []Line {
	t := tally{job: jobHost, modelled: true}
	t.add("queue", emptyReceive, hostPolls*queues*instances)
	t.add("queue", "peek", scaleControllers*queues)
	t.add("queue", "head", scaleControllers*queues)
	t.add("blob", "lease", timers*(hostRenewals+hostTries*max(0, instances-1)))
	t.add("blob", "put", timers*perHour)
	return t.lines
}

// HostEachMinute returns the cost in an hour of timers that run each minute,
// beyond that of the timers that sweep.
func HostEachMinute(timers float64) []Line {
	t := tally{job: jobHost, modelled: true}
	t.add("blob", "put", timers*(60-perHour))
	return t.lines
}

// HostMessages returns the requests by which the host receives and deletes
// messages.
func HostMessages(messages float64) []Line {
	t := tally{job: jobHost, modelled: true}
	t.add("queue", "receive", messages/hostPerReceive)
	t.add("queue", "delete", messages)
	return t.lines
}

// hostHeld returns the requests of an hour in which so many invocations wait at
// a closed gate.
func hostHeld(invocations float64) []Line {
	t := tally{job: jobBatches, modelled: true}
	t.add("queue", "put", heldAnHour*invocations)
	return append(t.lines, HostMessages(heldAnHour*invocations)...)
}

// signalSeconds is the average time between two signals of a queue that has
// messages, of all processes together.
const signalSeconds = 0.8

// busSignals returns the operations of Service Bus for so many signals to so many
// processes.
func busSignals(signalled, processes float64) []Line {
	t := tally{job: jobSignals, modelled: true}
	t.add(bus, "send", signalled)
	t.add(bus, "deliver", signalled*processes)
	return t.lines
}

// BusCharge returns the base charge of a Service Bus namespace for so many
// hours.
func BusCharge(hours float64) Line {
	return Line{Job: jobSignals, Service: bus, Operation: "hour", Count: hours}
}

// subscribed returns the operations in an hour by which idle processes check
// their subscriptions.
func subscribed(processes float64) []Line {
	t := tally{job: jobSignals, modelled: true}
	t.add(bus, "peek", processes*hourSeconds/30)
	return t.lines
}
