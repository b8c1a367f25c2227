package instances

import (
	"crypto/rand"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// Kinds of processes.
const (
	Functions = "functions" // serves a Functions host
	Worker    = "worker"    // works without one
)

// Process identifies a process of the app.
type Process struct {
	Instance  string    `json:"-"` // its name, which no other process has
	Kind      string    `json:"kind"`
	Version   string    `json:"version"` // its build
	StartedAt time.Time `json:"startedAt"`
}

// maxHost bounds the part of an instance's name that names the host.
const maxHost = 64

// NewName returns a name for this process. A host can be replaced by one of the
// same name, and a process by one with the same id, so part of it is random.
func NewName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-' // every other character may be forbidden in a key
	}, host)
	return host[:min(len(host), maxHost)] + "-" + strconv.Itoa(os.Getpid()) + "-" + strings.ToLower(rand.Text()[:6])
}

// Report is the report of a process about itself.
type Report struct {
	Process
	At     time.Time `json:"at"`     // when it was made, by the clock of the process
	CPU    float64   `json:"cpu"`    // processors in use, as a mean over Window; 0 where the system does not report it
	CPUs   int       `json:"cpus"`   // processors that the process may use
	Memory int64     `json:"memory"` // resident bytes
	Parcel int       `json:"parcel"` // most items of a parcel that the process can read; 0 without batches
	Window float64   `json:"window"` // seconds, from the report before the last one until this one
	Served Served    `json:"served"` // within Window
	Total  Served    `json:"total"`  // since the process started
	Sends  Sends     `json:"sends,omitzero"`

	// Backlog is the newest sample that this process made; nil for none.
	Backlog *Backlog `json:"backlog,omitempty"`

	// FailedOver counts the queues and topics whose messages this process sends
	// to the backlog.
	FailedOver int `json:"failedOver,omitempty"`

	// Running counts the invocations of queues that run now, by queue.
	Running map[string]int64 `json:"running,omitempty"`

	// The rest is bounded by its length in storage. The most important items of
	// a list come first.
	Problems  []Problem              `json:"-"`
	Sequences []Sequence             `json:"-"` // the most recently used first
	Gates     []Gate                 `json:"-"` // those with waiters, the most waiters first
	Queues    map[string]QueueSample `json:"-"` // the newest samples that this process made
	Work      map[string]Work        `json:"-"` // by queue
	Recent    map[string]Recent      `json:"-"` // by queue, only those with completed messages
	Requests  []Requests             `json:"-"`
	Relay     []RelayEntity          `json:"-"` // those that do not work first
}

// Hands returns how many invocations of queues run in the process.
func (r *Report) Hands() (n int64) {
	for _, running := range r.Running {
		n += running
	}
	return n
}

// Served counts invocations that have ended, without waits at gates.
type Served struct {
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"` // that they took, all together
}

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

// Recent is the work of a process on the messages of a queue within Window.
type Recent struct {
	Completed   int64   `json:"n,omitempty"` // messages that left the queue
	HandSeconds float64 `json:"hand,omitempty"`
	Latencies   []int64 `json:"latencies,omitempty"`
}

// since returns the work that was done after an earlier count.
func (w Work) since(before Work) Recent {
	r := Recent{Completed: w.completed() - before.completed(), HandSeconds: rounded(w.HandSeconds - before.HandSeconds)}
	for i, n := range w.Latencies {
		if i < len(before.Latencies) {
			n -= before.Latencies[i]
		}
		r.Latencies = append(r.Latencies, n)
	}
	return r
}

// Sequence is the share of a process in a sequence of order numbers. The names
// of its members are short, because a process may use many sequences.
type Sequence struct {
	Name        string    `json:"name"`
	Issued      int64     `json:"n,omitempty"` // since the process began to use it
	Available   int64     `json:"has"`
	Highest     int64     `json:"top"`         // the highest number that it has reserved, and not returned
	Writer      string    `json:"w,omitempty"` // its newest write, for ids.Reported
	Serial      int64     `json:"s,omitempty"`
	From        int64     `json:"from,omitempty"`
	End         int64     `json:"end,omitempty"` // 0: one past Highest
	Used        int64     `json:"used,omitempty"`
	PerSecond   float64   `json:"rate,omitempty"`
	Lost        int64     `json:"lost,omitempty"`
	LastError   string    `json:"error,omitempty"` // since the last success
	LastErrorAt time.Time `json:"at,omitzero"`
}

// Seconds returns how long the available numbers last, or false without
// demand.
func (s Sequence) Seconds() (float64, bool) {
	if s.PerSecond <= 0 {
		return 0, false
	}
	return float64(s.Available) / s.PerSecond, true
}

// Gate is a gate with waiters in a process.
type Gate struct {
	Name    string `json:"name"`
	Waiters int    `json:"waiters"`
}

// Requests counts the requests of a process to a service since it started.
type Requests struct {
	Service   string `json:"service"`
	Operation string `json:"op"`
	Job       string `json:"job,omitempty"` // "" if unknown
	Count     int64  `json:"n"`
}

// shift corrects all times by the error of the clock of the process, and removes
// the recent latencies, which were measured with it.
func (r *Report) shift(d time.Duration) {
	for _, at := range []*time.Time{&r.StartedAt, &r.At} {
		*at = at.Add(d)
	}
	for i := range r.Problems {
		r.Problems[i].Since = r.Problems[i].Since.Add(d)
	}
	for i := range r.Sequences {
		if at := &r.Sequences[i].LastErrorAt; !at.IsZero() {
			*at = at.Add(d)
		}
	}
	for queue, sample := range r.Queues {
		sample.At = sample.At.Add(d)
		r.Queues[queue] = sample
	}
	for i := range r.Relay {
		r.Relay[i].Since = r.Relay[i].Since.Add(d)
	}
	if r.Backlog != nil {
		r.Backlog.At = r.Backlog.At.Add(d)
	}
	for queue, recent := range r.Recent {
		recent.Latencies = nil
		r.Recent[queue] = recent
	}
}

// rounded keeps three decimals, so that the number is short in JSON.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }
