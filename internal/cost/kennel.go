package cost

import (
	"slices"
)

// kennel returns the operations of a month in this app.
func kennel(p Profile) []Line {
	parts := [][]Line{
		p.ofBatches(), p.ofNumbers(), p.ofDeletions(), p.ofQueues(), p.ofProcesses(), p.ofGates(), p.ofSignals(), p.ofRelay(),
	}
	quiet := p.quiet()
	if p.Plan == Container {
		quiet += p.AppInstances * 24
	}
	return sum(append(parts, p.compute(p.active(), quiet, p.executions()), p.standing())...)
}

// active returns the hours that instances work or wait at the gate, and quiet
// those that they are idle, of all instances in a day.
func (p Profile) active() float64 { return p.Instances * (p.BusyHours + p.HeldHours) }
func (p Profile) quiet() float64  { return p.IdleInstances * (p.idleHours() - p.HeldHours) }

func (p Profile) ofBatches() []Line {
	if p.Items == 0 {
		return nil
	}
	b := p.batch()
	one := sum(b.Process(), b.Remove())
	if p.ItemBytes/p.Compression > messageBytes { // each parcel needs a claim
		t := tally{job: jobBatches}
		t.add("table", "transaction", 2*b.results()) // to store and to delete it
		t.add("table", "query", b.results())
		one = append(one, t.lines...)
	}
	return times(p.Days*p.Items/p.ItemsPerBatch, one)
}

func (p Profile) ofNumbers() []Line {
	if p.Numbers == 0 {
		return nil
	}
	serving := p.serving()
	perSecond := p.Numbers / (p.BusyHours * hourSeconds) / serving
	n := Numbers{Numbers: p.Numbers, Range: max(rangeSize(perSecond), p.NumbersACall), Starts: serving, Shared: serving > 1}
	return times(p.Days, n.Lines())
}

// serving returns how many instances serve the API.
func (p Profile) serving() float64 {
	if p.hosted() {
		return max(1, p.Instances)
	}
	return max(1, p.AppInstances)
}

func (p Profile) ofDeletions() []Line {
	lines := times(p.Deletions*p.Days, Deletion{p.BlogsADeleted}.Lines())
	if p.Push && !p.hosted() { // the signal of a message that is deleted before it is received
		lines = append(lines, modelled(times(p.Deletions*p.Days*p.Instances, Wake(jobChannels)))...)
	}
	return lines
}

// queues returns how many queues an instance of the app receives from: the
// partitions, the express queue and the deletions.
func (p Profile) queues() float64 { return p.Partitions + 2 }

// ofQueues returns the cost of idle and deep queues. Under a Functions host,
// the host polls, and four timers run: two sweep, one checks scaling and one
// moves the backlog.
func (p Profile) ofQueues() []Line {
	if p.hosted() {
		const timers, eachMinute = 4, 2
		lines := times(p.BusyHours+p.HeldHours, HostIdle(p.queues(), timers, max(1, p.Instances)))
		// The timers keep an instance running all day.
		lines = append(lines, times(p.idleHours()-p.HeldHours, HostIdle(p.queues(), timers, max(1, p.IdleInstances)))...)
		lines = append(lines, times(24, HostEachMinute(eachMinute))...)
		if p.HeldInvocations > 0 {
			lines = append(lines, times(p.HeldHours, append(hostHeld(p.HeldInvocations), Watch(p.Push)...))...)
		}
		return times(p.Days, lines)
	}
	ofBatches, ofChannels := Idle(jobBatches, p.Push, p.IdlePoll), Idle(jobChannels, p.Push, p.IdlePoll)
	lines := times(p.active()+p.quiet(), ofChannels)
	emptyHours := p.quiet() + p.Instances*(p.BusyHours-p.processing())
	lines = append(lines, times(emptyHours*(p.queues()-1), ofBatches)...)
	lines = append(lines, times(p.HeldHours*p.Instances, ofBatches)...) // the results: the others are held
	lines = append(lines, modelled(times(p.processing()*p.Instances*p.Partitions, deepQueue(jobBatches)))...)
	return times(p.Days, lines)
}

// hours returns the hours of a month that processes run, with those that serve
// the API beside workers.
func (p Profile) hours() float64 {
	if p.hosted() {
		return p.Days * max(p.active()+p.quiet(), 24)
	}
	return p.Days * (p.active() + p.quiet() + p.AppInstances*24)
}

// ofProcesses returns the standing work of each process: it reports itself,
// keeps its bill, and sweeps; and one of them checks scaling. Under a host, the
// timers do, in one instance.
func (p Profile) ofProcesses() []Line {
	sweeping := p.Days * 24 // instance-hours
	checking, processes := p.Days*24, 1.0
	if !p.hosted() {
		sweeping = p.Days * (p.active() + p.quiet())
		checking = min(checking, sweeping)
		processes = sweeping / max(checking, 1)
	}
	lines := append(times(p.hours(), Report()), p.ofLedger()...)
	lines = append(lines, times(sweeping*perHour, Sweep())...)
	lines = append(lines, times(checking, Check(processes))...)
	return append(lines, times(checking*checksAnHour, Sample(p.queues()-1))...)
}

// ofLedger returns the cost of keeping the bill of the app. Processes that work
// write theirs more often.
func (p Profile) ofLedger() []Line {
	working := p.Days * p.active()
	lines := times(p.hours()-working, Ledger(0))
	if working == 0 {
		return lines
	}
	counted := 0.0
	for _, l := range slices.Concat(p.ofBatches(), p.ofNumbers(), p.ofDeletions()) {
		if !l.Modelled {
			counted += l.Count
		}
	}
	return append(lines, times(working, Ledger(counted/working))...)
}

// ofGates returns the cost of workers at a closed gate; under a host see
// ofQueues.
func (p Profile) ofGates() []Line {
	if p.hosted() {
		return nil
	}
	return times(p.Days*p.HeldHours*p.Instances, Watch(p.Push))
}

// ofSignals returns the cost of the signals of queues: of each queue with
// messages while a batch is processed, and one for each deletion.
func (p Profile) ofSignals() []Line {
	if !p.Push {
		return nil
	}
	parcels := p.parcels()
	signalled := p.Deletions + p.processing()*hourSeconds/signalSeconds*p.queuesOf(parcels)
	processes := p.serving()
	if !p.hosted() {
		processes = p.Instances + p.AppInstances
	}
	lines := append(times(p.Days, busSignals(signalled, processes)), times(p.hours(), subscribed(1))...)
	return append(lines, BusCharge(p.Days*24))
}

// ofRelay returns the cost of messages that are sent through the app, and of
// the backlog for those that the first namespace does not accept. A second
// namespace of the Standard tier has no base charge of its own.
func (p Profile) ofRelay() []Line {
	hours := p.active() + p.quiet()
	if p.hosted() {
		hours = 24
	}
	lines := Relay{p.RelayMessages, p.RelayBacklog, p.heldInBacklog(), p.atOutage(maxSampled)}.Lines()
	lines = append(lines, times(hours, RelayIdle(p.RelayQueues, p.hosted()))...)
	lines = modelled(lines)
	if !p.Push && p.RelayMessages+p.RelayQueues > 0 { // otherwise the signals have it
		charge := BusCharge(24)
		charge.Job = jobRelay
		lines = append(lines, charge)
	}
	return times(p.Days, lines)
}

// timersADay is how often functions of timers run in a day.
const timersADay = 24 * (2*perHour + checksAnHour + timerReceives)

// groups returns how many functions, or groups of functions, of a Functions app
// scale by themselves: HTTP together, and each function of a queue or a timer.
func (p Profile) groups() float64 {
	const http, timers = 1, 4
	return http + p.queues() + timers
}

// standing returns the base charge of Flex Consumption: at least a second for
// each execution of a timer while no instance works, and the instances that are
// always ready, in a plan with zones at least two for each group.
func (p Profile) standing() []Line {
	if p.Plan != Flex {
		return nil
	}
	ready := p.AlwaysReady
	if p.ZoneRedundant {
		ready = max(ready, 2*p.groups())
	}
	t := tally{job: compute, modelled: true}
	t.add(compute, "flex GB-second", p.Days*timersADay*(p.idleHours()-p.HeldHours)/24*p.MemoryGB)
	t.add(compute, "flex always ready GB-second", p.Days*24*hourSeconds*ready*p.MemoryGB)
	return t.lines
}

// executions returns the invocations of functions of a month.
func (p Profile) executions() float64 {
	if !p.hosted() {
		return 0
	}
	parcels := p.Items / p.ItemsPerParcel()
	batches := p.Items / p.ItemsPerBatch
	return p.Days * (parcels + batches + p.Numbers/p.NumbersACall + p.Deletions + heldAnHour*p.HeldInvocations*p.HeldHours + timersADay)
}

// compute returns the cost of instances that are active or idle for so many
// hours a day.
func (p Profile) compute(active, idle, executions float64) []Line {
	t := tally{job: compute, modelled: true}
	active, idle = active*p.Days, idle*p.Days
	switch p.Plan {
	case Container:
		t.add(compute, "container vCPU-second", active*hourSeconds*p.VCPU)
		t.add(compute, "container idle vCPU-second", idle*hourSeconds*p.VCPU)
		t.add(compute, "container GB-second", (active+idle)*hourSeconds*p.MemoryGB)
	case Flex:
		t.add(compute, "flex execution", executions)
		t.add(compute, "flex GB-second", active*hourSeconds*p.MemoryGB)
		t.add(compute, "flex always ready GB-second", idle*hourSeconds*p.MemoryGB)
	case Consumption:
		t.add(compute, "consumption execution", executions)
		t.add(compute, "consumption GB-second", active*hourSeconds*p.MemoryGB)
	case Premium:
		hours := max(active+idle, 24*p.Days) // at least one instance
		t.add(compute, "premium vCPU-hour", hours*p.VCPU)
		t.add(compute, "premium GB-hour", hours*p.MemoryGB)
	}
	return t.lines
}
