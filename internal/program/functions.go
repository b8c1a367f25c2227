package program

import (
	"cmp"
	"slices"
	"strings"

	"kennel/internal/names"
	"kennel/internal/schedule"
)

// StorageConnection is the setting with the connection of the host.
const StorageConnection = "AzureWebJobsStorage"

// httpFunction returns a function that serves a route of the host.
func httpFunction(name, route string, level Level) Function {
	return Function{name, []Binding{
		{Type: "httpTrigger", Direction: "in", Name: "req", AuthLevel: level.String(), Route: route},
		{Type: "http", Direction: "out", Name: "res"},
	}}
}

func queueFunction(name, queue string) Function {
	return Function{name, []Binding{{Type: "queueTrigger", Direction: "in", Name: "message", QueueName: queue, Connection: StorageConnection}}}
}

func timerFunction(name, schedule string) Function {
	return Function{name, []Binding{{Type: "timerTrigger", Direction: "in", Name: "tick", Schedule: schedule}}}
}

// enveloped returns a function with an output that it never writes. For it the host
// sends calls in envelopes, which reach no other function. A call that it forwards
// has a path that it rebuilds after it has checked the key, so with the address of
// an anonymous function everyone could call all others.
func enveloped(f Function) Function {
	f.Bindings = append(f.Bindings, Binding{Type: "queue", Direction: "out", Name: "unused", QueueName: names.DoctorQueue, Connection: StorageConnection})
	return f
}

// consoleFunction has another reason for its output: the extension bundle is
// loaded only for an app with a binding of it, and without a bundle the host
// refuses host.json.
func consoleFunction() Function {
	return enveloped(httpFunction("Console", "console/{*path}", LevelAnonymous))
}

// always are the functions of every program.
func always() []Function {
	return []Function{
		consoleFunction(),
		httpFunction("Doctor", "doctor", LevelFunction),
		httpFunction("Health", "health", LevelAnonymous),
		httpFunction("Metrics", "metrics", LevelFunction),
		httpFunction("OpenAPI", "openapi.yaml", LevelFunction),
		httpFunction("Status", "status", LevelFunction),
	}
}

// functionsOf returns the functions of a built-in part.
func functionsOf(p Part) []Function {
	switch p {
	case Numbers:
		return []Function{
			httpFunction("NextOrderId", "sequences/{sequence}/next/{*path}", LevelFunction),
			httpFunction("Sequences", "sequences/{*path}", LevelFunction),
		}
	case Gates:
		return []Function{httpFunction("Unleash", "gates/{*path}", LevelFunction)}
	case Batches:
		return []Function{
			timerFunction("BatchSweep", "30 */5 * * * *"),
			queueFunction(names.PartitionFunction, names.PartitionQueue(0)),
			queueFunction(names.PartitionFunction+"Express", names.ExpressQueue),
			httpFunction("SubmitBatch", "batches/{*path}", LevelFunction),
		}
	case Channels:
		return []Function{
			queueFunction("ChannelCleanup", names.CleanupQueue),
			timerFunction("ChannelSweep", "0 */5 * * * *"),
			httpFunction("Channels", "channels/{*path}", LevelFunction),
		}
	case Messages:
		return []Function{
			httpFunction("Relay", "relay/{*path}", LevelFunction),
			httpFunction("SendMessage", "messages/{*path}", LevelFunction),
			timerFunction("Syphon", "15 * * * * *"),
		}
	case Scale:
		return []Function{
			httpFunction("Scale", "scale/{*path}", LevelFunction),
			timerFunction("ScaleCheck", "30 * * * * *"),
		}
	}
	return nil
}

// hasLetters reports whether there are queues whose messages can become dead
// letters.
func (d *Declared) hasLetters() bool {
	return len(d.Queues) > 0 || d.Uses[Batches] || d.Uses[Channels]
}

// functions returns the functions of the program.
func (d *Declared) functions() []Function {
	all := always()
	for _, p := range Parts() {
		if d.Uses[p] {
			all = append(all, functionsOf(p)...)
		}
	}
	if d.hasLetters() {
		all = append(all, httpFunction("DeadLetters", "deadletters/{*path}", LevelFunction), httpFunction("Queues", "queues/{*path}", LevelFunction))
	}
	if len(d.Timers) > 0 || d.Everything {
		all = append(all, httpFunction("Timers", "timers/{*path}", LevelFunction)) // the app has none, and lists them
	}
	for _, queue := range d.StorageQueues() {
		all = append(all, queueFunction(FunctionOfQueue(queue), queue))
	}
	for _, t := range d.Timers {
		all = append(all, timerFunction(FunctionOfTimer(t.Name), t.hostSchedule()))
	}
	for _, r := range d.Routes {
		f := httpFunction(FunctionOfRoute(r), r.Segment()+"/{*path}", r.Level)
		if r.IsEnveloped() {
			f = enveloped(f)
		}
		if !slices.ContainsFunc(all, func(known Function) bool { return known.Name == f.Name }) {
			all = append(all, f)
		}
	}
	return all
}

// StorageQueues returns the storage queues on which the program works, in their
// order: those of handled queues, with their former names.
func (d *Declared) StorageQueues() []string {
	var all []string
	for _, q := range d.Queues {
		if q.Handled > 0 {
			all = append(append(all, q.Storage()), q.FormerNames...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// SentQueues returns the storage queues to which the program only sends.
func (d *Declared) SentQueues() (all []string) {
	handled := d.StorageQueues()
	for _, q := range d.Queues {
		if !slices.Contains(handled, q.Storage()) && !slices.Contains(all, q.Storage()) {
			all = append(all, q.Storage())
		}
	}
	return all
}

// FunctionOfQueue returns the function that works on a storage queue.
func FunctionOfQueue(storageQueue string) string { return "Queue-" + storageQueue }

// FunctionOfTimer returns the function of a timer.
func FunctionOfTimer(name string) string { return "Timer-" + name }

// FunctionOfRoute returns the function of a route: one for all routes with the
// same first segment.
func FunctionOfRoute(r *Route) string { return "Route-" + r.Segment() }

// Segment returns the first segment of the path of the route.
func (r *Route) Segment() string {
	_, path, _ := strings.Cut(r.Pattern, " ")
	segment, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(path), "/"), "/")
	return segment
}

// hostSchedule returns when the host wakes the process for a timer, whose
// schedule is valid. The row of the timer decides which slot is due, so a trigger
// that comes too often is harmless.
func (t *Timer) hostSchedule() string {
	s, err := schedule.Parse(t.Schedule, t.Zone)
	if err != nil {
		return t.Schedule
	}
	return s.Host()
}

// storage returns what the program keeps in its account.
func (d *Declared) storage() Storage {
	s := Storage{Queues: []string{names.DoctorQueue}, Tables: []string{names.InstancesTable}, Containers: []string{names.SequencesContainer}}
	add := func(queues, tables, containers []string) {
		for _, queue := range queues {
			s.Queues = append(s.Queues, queue, queue+names.PoisonSuffix)
		}
		s.Tables, s.Containers = append(s.Tables, tables...), append(s.Containers, containers...)
	}
	for _, p := range Parts() {
		if d.Uses[p] {
			add(storageOf(p))
		}
	}
	if len(d.Queues) > 0 {
		add(d.AllQueues(), []string{names.QueueClaimsTable}, []string{names.QueueClaimsContainer})
	}
	if len(d.Timers) > 0 {
		add(nil, []string{names.TimersTable}, nil)
	}
	for _, list := range []*[]string{&s.Queues, &s.Tables, &s.Containers} {
		slices.SortFunc(*list, cmp.Compare[string])
		*list = slices.Compact(*list)
	}
	return s
}

// AllQueues returns the storage queues of all declared queues.
func (d *Declared) AllQueues() (all []string) {
	for _, q := range d.Queues {
		all = append(append(all, q.Storage()), q.FormerNames...)
	}
	return all
}

// storageOf returns what a built-in part keeps in its account.
func storageOf(p Part) (queues, tables, containers []string) {
	switch p {
	case Numbers:
		return nil, nil, []string{names.SequencesContainer, names.KnownContainer}
	case Gates:
		return nil, nil, []string{names.GatesContainer}
	case Batches:
		return []string{names.ExpressQueue, names.PartitionQueue(0)}, []string{names.BatchesTable, names.ClaimsTable},
			[]string{names.ClaimsContainer, names.StagingContainer, names.ReportsContainer}
	case Channels:
		return []string{names.CleanupQueue}, []string{names.ChannelsTable, names.BlogsTable}, nil
	case Scale:
		return nil, []string{names.ScaleTable}, []string{names.ScaleContainer}
	case Bill:
		return nil, []string{names.BillTable}, nil
	}
	return nil, nil, nil
}

// roles returns the roles that the app needs, by the names of Azure.
func (d *Declared) roles() []string {
	roles := []string{"Storage Blob Data Owner", "Storage Queue Data Contributor", "Storage Table Data Contributor"}
	if d.Uses[Messages] {
		roles = append(roles, "Azure Service Bus Data Owner")
	}
	return roles
}
