package instances

import "time"

// RunningSection counts the invocations of queues that run now, by queue.
var RunningSection = ByName[int64]("running", nil)

// HandsOf returns how many invocations of queues run in a process.
func HandsOf(r Report) (n int64) {
	for _, running := range RunningSection.Of(r) {
		n += running
	}
	return n
}

// WorkSection has the work of a process, by queue.
var WorkSection = ByName("work", &Items[Work]{
	Numbers: func(w *Work) []*float64 { return []*float64{&w.AgeSeconds, &w.HandSeconds} },
}).Within(func(r *Report, now, before map[string]Work) {
	all := make(map[string]Recent)
	for queue, w := range now {
		if recent := w.since(before[queue]); recent.Completed > 0 || recent.Failed > 0 {
			all[queue] = recent
		}
	}
	RecentSection.Add(r, all)
})

// Work counts the messages of a queue that a process worked on since it
// started, by their end. Each count only grows. Counts of several processes can
// be added.
type Work struct {
	// Requests of a worker. A Functions host receives for its process, so there
	// they are 0.
	Receives       int64 `json:"receives,omitempty"`
	EmptyReceives  int64 `json:"empty,omitempty"`
	FailedReceives int64 `json:"failed,omitempty"`

	// Each delivery of a message ends in one of these.
	Done        int64 `json:"done,omitempty"`     // deleted after its work
	Repeated    int64 `json:"repeated,omitempty"` // deleted without work, because it was done before
	Retried     int64 `json:"retried,omitempty"`  // failed, and is received again
	Returned    int64 `json:"returned,omitempty"` // put back without an attempt
	DeadLetters int64 `json:"dead,omitempty"`     // moved to the dead letters
	Lost        int64 `json:"lost,omitempty"`     // another process got it, because the lease ended

	Ages       []int64 `json:"ages,omitempty"` // messages received, in the buckets of queue.Ages
	AgeSeconds float64 `json:"age,omitempty"`  // the sum of their ages

	HandSeconds float64 `json:"hand,omitempty"`      // for which messages kept a hand, all together
	Latencies   []int64 `json:"latencies,omitempty"` // messages done, by the time since they were put, in the buckets of queue.Ages

	// Pool is how many hands the queue shares with others of the process now. It
	// is 0 where a Functions host decides.
	Pool int64 `json:"pool,omitempty"`
}

// completed returns how many messages left the queue.
func (w Work) completed() int64 { return w.Done + w.Repeated + w.DeadLetters }

// failed returns how many attempts failed.
func (w Work) failed() int64 { return w.Retried + w.DeadLetters }

// RecentSection has the work of a process within the window of its report, by
// queue, of those with messages that were completed or that failed. Latencies that were measured with a
// wrong clock are left out.
var RecentSection = ByName("recent", &Items[Recent]{
	Shift: func(r *Recent, _ time.Duration) { r.Latencies = nil },
})

// Recent is the work of a process on the messages of a queue within a window.
type Recent struct {
	Completed   int64   `json:"n,omitempty"` // messages that left the queue
	Done        int64   `json:"done,omitempty"`
	Failed      int64   `json:"failed,omitempty"` // attempts, also those after which a message became a dead letter
	HandSeconds float64 `json:"hand,omitempty"`
	Latencies   []int64 `json:"latencies,omitempty"`
}

// since returns the work that was done after an earlier count.
func (w Work) since(before Work) Recent {
	r := Recent{
		Completed: w.completed() - before.completed(), Done: w.Done - before.Done, Failed: w.failed() - before.failed(),
		HandSeconds: rounded(w.HandSeconds - before.HandSeconds),
	}
	for i, n := range w.Latencies {
		if i < len(before.Latencies) {
			n -= before.Latencies[i]
		}
		r.Latencies = append(r.Latencies, n)
	}
	return r
}
