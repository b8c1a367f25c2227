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

// Report is the report of a process about itself. Its sections are read and
// written by [Section.Of] and [Section.Add].
type Report struct {
	Process
	At     time.Time `json:"at"`     // when it was made, by the clock of the process
	CPU    float64   `json:"cpu"`    // processors in use, as a mean over Window; 0 where the system does not report it
	CPUs   int       `json:"cpus"`   // processors that the process may use
	Memory int64     `json:"memory"` // resident bytes
	Window float64   `json:"window"` // seconds, from the report before the last one until this one
	Served Served    `json:"served"` // within Window
	Total  Served    `json:"total"`  // since the process started

	// What follows is bounded by its length in storage.
	Problems []Problem       `json:"-"`
	facts    map[string]fact // by the names of their sections; is replaced, never changed
}

// Served counts invocations that have ended, without waits at gates.
type Served struct {
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"` // that they took, all together
}

// shift corrects all times by the error of the clock of the process.
func (r *Report) shift(d time.Duration) {
	r.StartedAt, r.At = r.StartedAt.Add(d), r.At.Add(d)
	r.Problems = problemList.shift(r.Problems, d)
	facts := make(map[string]fact, len(r.facts))
	for name, fact := range r.facts {
		facts[name] = fact.shifted(d)
	}
	r.facts = facts
}

// rounded keeps three decimals, so that the number is short in JSON.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }
