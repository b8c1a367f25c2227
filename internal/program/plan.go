package program

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"kennel/internal/names"
)

// RunningQueue is a queue of the program that runs.
type RunningQueue struct {
	Name, StorageQueue string
	BuiltIn            bool
	Handled            bool // the program that runs works on it
	Counted            bool // the numbers are known
	Waiting            int64
	DeadLetters        int64
}

// RunningTimer is a timer of the program that runs.
type RunningTimer struct{ Name, Schedule, Zone string }

// Running is what is known of a program that runs.
type Running struct {
	Last   *Description // what it was built from, as far as that was written down; nil: it was not
	Queues []RunningQueue
	Timers []RunningTimer
}

// Plan is how a build differs from what runs.
type Plan struct {
	Program   string        `json:"program"`
	Queues    []QueueChange `json:"queues"`
	Timers    []Change      `json:"timers"`
	Functions []Change      `json:"functions"`
	Settings  []Change      `json:"settings"`
	Roles     []Change      `json:"roles"`
}

// What a change is.
const (
	IsNew       = "new"
	IsGone      = "gone"
	IsChanged   = "changed"
	IsUnhandled = "unhandled" // a queue that is still declared, and has no handler any more
)

// Change is one difference.
type Change struct {
	Name string `json:"name"`
	Is   string `json:"is"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// QueueChange is a queue that differs.
type QueueChange struct {
	Queue        string `json:"queue"`
	StorageQueue string `json:"storageQueue"`
	Is           string `json:"is"`
	BuiltIn      bool   `json:"builtIn"`
	Waiting      *int64 `json:"waiting"`     // ready, in flight or delayed; nil: not known
	DeadLetters  *int64 `json:"deadLetters"` // nil: not known
	Strands      bool   `json:"strands"`     // messages would be left that no process handles
	Dropped      bool   `json:"dropped"`     // that is accepted
}

// Stranded returns the queues whose messages would be left without a handler, and
// for which that was not accepted.
func (p Plan) Stranded() (all []QueueChange) {
	for _, q := range p.Queues {
		if q.Strands && !q.Dropped {
			all = append(all, q)
		}
	}
	return all
}

// Plan compares a build with what runs. drop has the queues whose messages may be
// left; each must be one that the build does not handle.
func (d Description) Plan(r Running, drop []string) (Plan, error) {
	last := r.Last
	if last == nil {
		last = &Description{}
	}
	p := Plan{
		Program:   d.Program,
		Queues:    d.queueChanges(r.Queues, last, drop),
		Timers:    d.timerChanges(r.Timers),
		Functions: changes(last.Functions, d.Functions, func(f Function) string { return f.Name }, nil),
		Settings:  changes(last.Settings, d.Settings, func(s SettingDescription) string { return s.Name }, SettingDescription.text),
		Roles:     changes(last.Roles, d.Roles, func(role string) string { return role }, nil),
	}
	for _, name := range drop {
		if !slices.ContainsFunc(p.Queues, func(q QueueChange) bool { return q.Queue == name && q.Is != IsNew }) {
			return p, fmt.Errorf("the build handles queue %q, or the program that runs has none of this name: there is nothing to drop", name)
		}
	}
	return p, nil
}

// handles reports whether the build works on the messages of a queue: a handler
// has its storage queue. A message names its declared queue if that shares a
// storage queue of another name.
func (d Description) handles(q RunningQueue) bool {
	if q.BuiltIn {
		first := names.PartitionQueue(0)
		return slices.Contains(d.Storage.Queues, q.StorageQueue) || strings.HasPrefix(q.StorageQueue, names.PartitionPrefix) && slices.Contains(d.Storage.Queues, first)
	}
	return slices.ContainsFunc(d.Queues, func(own QueueDescription) bool {
		storage := own.StorageQueue == q.StorageQueue || slices.Contains(own.FormerNames, q.StorageQueue)
		return own.Handled && storage && (own.Name == q.Name || slices.Contains(own.FormerNames, q.Name) || q.Name == q.StorageQueue)
	})
}

func (d Description) queueChanges(running []RunningQueue, last *Description, drop []string) []QueueChange {
	all := []QueueChange{}
	known := make(map[string]bool)
	for _, q := range running {
		known[q.Name] = true
		declared := slices.ContainsFunc(d.Queues, func(own QueueDescription) bool { return own.Name == q.Name })
		if d.handles(q) || declared && !q.Handled {
			continue // or another program goes on to handle it
		}
		one := QueueChange{Queue: q.Name, StorageQueue: q.StorageQueue, Is: IsGone, BuiltIn: q.BuiltIn, Dropped: slices.Contains(drop, q.Name)}
		if declared {
			one.Is = IsUnhandled
		}
		if q.Counted {
			one.Waiting, one.DeadLetters = new(q.Waiting), new(q.DeadLetters)
		}
		one.Strands = q.Handled && (!q.Counted || q.Waiting+q.DeadLetters > 0)
		all = append(all, one)
	}
	for _, own := range d.Queues {
		if !known[own.Name] {
			all = append(all, QueueChange{Queue: own.Name, StorageQueue: own.StorageQueue, Is: IsNew})
		}
	}
	slices.SortFunc(all, func(a, b QueueChange) int { return strings.Compare(a.Queue, b.Queue) })
	return all
}

func (d Description) timerChanges(running []RunningTimer) []Change {
	var before, after []RunningTimer
	before = append(before, running...)
	for _, t := range d.Timers {
		after = append(after, RunningTimer{t.Name, t.Schedule, t.Zone})
	}
	return changes(before, after, func(t RunningTimer) string { return t.Name }, func(t RunningTimer) string {
		return t.Schedule + " " + cmp.Or(t.Zone, "UTC")
	})
}

// text says what matters to who sets a setting.
func (s SettingDescription) text() string {
	var words []string
	if s.Required {
		words = append(words, "required")
	}
	if s.Secret {
		words = append(words, "secret")
	}
	if s.Default != "" {
		words = append(words, "default "+s.Default)
	}
	return strings.Join(words, ", ")
}

// changes compares two lists by the names of their items. Without text, an item
// that differs is changed; with text, one whose text differs.
func changes[T any](before, after []T, name func(T) string, text func(T) string) []Change {
	all := []Change{}
	found := func(list []T, item T) int {
		return slices.IndexFunc(list, func(other T) bool { return name(other) == name(item) })
	}
	show := func(item T) string {
		if text == nil {
			return ""
		}
		return text(item)
	}
	for _, was := range before {
		at := found(after, was)
		switch {
		case at < 0:
			all = append(all, Change{Name: name(was), Is: IsGone, From: show(was)})
		case text == nil && !reflect.DeepEqual(was, after[at]), show(was) != show(after[at]):
			all = append(all, Change{Name: name(was), Is: IsChanged, From: show(was), To: show(after[at])})
		}
	}
	for _, is := range after {
		if found(before, is) < 0 {
			all = append(all, Change{Name: name(is), Is: IsNew, To: show(is)})
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return all
}
