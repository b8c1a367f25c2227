package cost

// naive returns the operations of a month in the design that the paper starts
// from: a message for each item, threads that each receive one message at a
// time, and that poll at a fixed interval while their queue is empty.
func naive(p Profile) []Line {
	work := times(p.Items*p.Days, Messages{1, 1}.Lines(jobItems))
	t := tally{job: jobIdle}
	t.add("queue", emptyReceive, p.Threads*p.idleHours()*hourSeconds/p.PollSeconds*p.Days)
	return sum(work, t.lines, p.compute(24*p.Instances, 0, 0))
}

// optimised returns the operations of a month in the design that the paper ends
// with: messages are received 32 at once. With push, an empty queue is not
// polled, and each batch is signalled to every instance; without it, one thread
// of each instance polls, less and less often.
func optimised(p Profile) []Line {
	work := times(p.Items*p.Days, Messages{1, 32}.Lines(jobItems))
	if p.Push {
		s := modelled(busSignals(p.Items/p.ItemsPerBatch*p.Days, p.Instances))
		t := tally{job: jobSignals, lines: s}
		t.add(bus, "hour", 24*p.Days)
		return sum(work, t.lines, p.compute(24*p.Instances, 0, 0))
	}
	t := tally{job: jobIdle}
	t.add("queue", emptyReceive, p.Instances*p.Partitions*p.idleHours()*hourSeconds/p.MaxIdle*p.Days)
	return sum(work, t.lines, p.compute(24*p.Instances, 0, 0))
}

// Paper is the example of the paper, with the total that it prints and the
// number of polls that this total is of.
type Paper struct {
	Threads      float64 `json:"threads"`
	IdleHours    float64 `json:"idleHours"` // a day
	Days         float64 `json:"days"`
	PollsADay    float64 `json:"pollsADay"` // of one thread
	Per10000     float64 `json:"per10000"`  // polls, in dollars
	Thread       float64 `json:"thread"`    // a month, in dollars
	Total        float64 `json:"total"`     // … of all threads
	Printed      float64 `json:"printed"`
	PrintedPolls float64 `json:"printedPolls"` // a day
}

// paperExample computes the example of the paper.
func paperExample() Paper {
	const threads, idleHours, days, per10000, printed = 200, 22, 30, 0.01, 457.20
	const polls = idleHours * hourSeconds
	const thread = polls * days * per10000 / 10_000
	return Paper{
		Threads: threads, IdleHours: idleHours, Days: days, PollsADay: polls, Per10000: per10000,
		Thread: thread, Total: thread * threads,
		Printed: printed, PrintedPolls: printed / threads / days / per10000 * 10_000,
	}
}
