package requests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"kennel/internal/instances"
)

// outcomeLasts is how long a failure is reported if the same is not tried
// again, as a denied operation may not be. It is twice the longest interval at
// which the app repeats work by itself, so a failure of such work does not end
// between two tries, and longer than callers wait before they give up.
const outcomeLasts = 10 * time.Minute

// Outcomes records which calls to storage fail, for the status. The zero value
// is ready to use. All methods may be called concurrently.
//
// A failure concerns the reads or the writes of a service, and ends when the
// service responds to any of them. A denial concerns one operation for one job,
// because rights differ by operation and by container, and each job has its
// own. It ends when that operation is allowed again for that job.
type Outcomes struct {
	broken instances.Tracker[call, string]
}

// call is the kind of call that a failure concerns.
type call struct {
	service        string
	denied         bool
	operation, job string // of a denial; else operation is reads or writes
}

// AllWell reports whether no call has failed since the last success of the
// same. It takes no lock.
func (o *Outcomes) AllWell() bool { return o.broken.IsEmpty() }

// Responded records that the service responded to a call and did not deny it.
func (o *Outcomes) Responded(l Label, write bool) {
	o.broken.Solved(failed(l, write))
	o.broken.Solved(denied(l))
}

// Failed records that the service did not respond, or that it reported that it
// cannot serve at the moment.
func (o *Outcomes) Failed(l Label, write bool, cause string) {
	o.broken.Occurred(failed(l, write), cause, outcomeLasts)
}

// Denied records that the service denied a call, or that this process could not
// sign in for it.
func (o *Outcomes) Denied(l Label, write bool, cause string) {
	o.broken.Solved(failed(l, write)) // it responded
	o.broken.Occurred(denied(l), cause, outcomeLasts)
}

const reads, writes = "read", "write"

func failed(l Label, write bool) call {
	operation := reads
	if write {
		operation = writes
	}
	return call{service: l.Service, operation: operation}
}

func denied(l Label) call { return call{l.Service, true, l.Operation, l.Job} }

// Kind is the reads or the writes of a service.
type Kind struct {
	Service string
	Write   bool
}

// Failing returns the kinds of requests that fail, without denials.
func (o *Outcomes) Failing() []Kind {
	var kinds []Kind
	for c := range o.broken.All() {
		if !c.denied {
			kinds = append(kinds, Kind{c.service, c.operation == writes})
		}
	}
	return kinds
}

// Problems returns the failures that have not ended, one for each code. The
// sentences of several failures are joined.
func (o *Outcomes) Problems() []instances.Problem {
	codes := make(map[string]*instances.Problem)
	said := make(map[string][]string)
	for c, f := range o.broken.All() {
		code := c.code()
		p := codes[code]
		if p == nil {
			p = &instances.Problem{Code: code, Since: f.Since}
			codes[code] = p
		}
		if f.Since.Before(p.Since) {
			p.Since = f.Since
		}
		p.Count += f.Count
		said[code] = append(said[code], c.sentence(f.Cause))
	}
	var problems []instances.Problem
	for code, p := range codes {
		p.What = join(said[code])
		problems = append(problems, *p)
	}
	slices.SortFunc(problems, func(a, b instances.Problem) int { return cmp.Compare(a.Code, b.Code) })
	return problems
}

func (c call) code() string {
	switch {
	case c.denied:
		return instances.StorageDenied
	case c.service == Table:
		return instances.TablesFailing
	case c.service == Queue:
		return instances.QueuesFailing
	}
	return instances.BlobsFailing
}

func (c call) sentence(cause string) string {
	if !c.denied {
		return fmt.Sprintf("Requests to %s %ss fail: %s.", c.operation, c.service, cause)
	}
	forJob := ""
	if c.job != "" {
		forJob = " for " + c.job
	}
	return fmt.Sprintf("The %s operation %q%s is denied: %s.", c.service, c.operation, forJob, cause)
}

// join returns the first sentences in order, and how many more there are.
func join(sentences []string) string {
	const most = 3
	slices.Sort(sentences)
	if more := len(sentences) - most; more > 0 {
		sentences = append(sentences[:most], fmt.Sprintf("There are %d more.", more))
	}
	return strings.Join(sentences, " ")
}
