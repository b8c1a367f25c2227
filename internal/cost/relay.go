package cost

// Relay is messages that are sent through the relay.
type Relay struct {
	Messages float64
	Backlog  float64 // of them by way of the backlog

	// Held is how often a message of the backlog is received in vain, because
	// its entity still fails. Sampled is how often a sample counts one.
	Held, Sampled float64
}

// Lines returns the operations. A message by way of the backlog is sent there,
// received and completed, and sent to its entity. One that is received in vain
// is abandoned. Pings and attempts that fail send nothing.
func (r Relay) Lines() []Line {
	t := tally{job: jobRelay}
	t.add(bus, "send", r.Messages+r.Backlog)
	t.add(bus, "deliver", r.Backlog+r.Held)
	t.add(bus, "settle", r.Backlog+r.Held)
	t.add(bus, "peek", r.Sampled)
	return t.lines
}

// How often an hour a process receives from each queue of the backlog: for a
// second by the timer of a Functions app, for a minute by a worker, which does so all
// the time and samples the empty queue. A peek attaches a receiver, for four
// minutes.
const (
	timerReceives  = 60.0
	workerReceives = hourSeconds / 60
	workerSamples  = hourSeconds / 300
	attaches       = hourSeconds / 240
)

// RelayIdle returns the operations in an hour by which the timer of a Functions
// app, or one worker, looks for messages in so many queues of the backlog.
func RelayIdle(queues float64, hosted bool) []Line {
	t := tally{job: jobRelay}
	receives, samples := workerReceives, workerSamples
	if hosted {
		receives, samples = timerReceives, 0 // a pass that left nothing is enough
	}
	t.add(bus, emptyReceive, queues*receives)
	t.add(bus, "peek", queues*(attaches+samples))
	return t.lines
}

// How often an hour each queue is tried and sampled during an outage, by the timer
// or by all workers together, and how many of its messages a sample counts. Most
// passes receive one batch in vain, and each tenth one ten more.
const (
	timerPasses  = 60.0
	workerPasses = 120.0
	maxSampled   = 100.0
	batchHeld    = 100.0
	searchHeld   = 1100.0
)

// heldInBacklog returns how often a day messages of the backlog are received in
// vain.
func (p Profile) heldInBacklog() float64 {
	return 0.9*p.atOutage(batchHeld) + 0.1*p.atOutage(searchHeld)
}

// atOutage returns how often a day messages of the backlog are received in vain,
// or counted, if it is at most so many of a queue each time. The backlog grows
// evenly while the outage lasts.
func (p Profile) atOutage(most float64) float64 {
	if p.RelayBacklog == 0 {
		return 0
	}
	passes := p.RelayOutage * timerPasses
	if !p.hosted() {
		passes = p.RelayOutage * workerPasses
	}
	depth := p.RelayBacklog / p.RelayQueues // of a queue, at the end
	mean := depth / 2
	if depth > most {
		mean = most * (1 - most/(2*depth))
	}
	return passes * p.RelayQueues * mean
}
