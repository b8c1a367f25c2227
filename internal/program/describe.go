package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kennel/internal/names"
)

// Description is what `describe` prints: what a program consists of. It is the
// same in every run of a build.
type Description struct {
	Version    int                  `json:"version"` // of this form
	Program    string               `json:"program"`
	Packages   []string             `json:"packages,omitempty"`  // of which kennel functions made it, the handler first; none: the usual one
	Elsewhere  []string             `json:"elsewhere,omitempty"` // functions that only other packages than the handler serve, so that the host gets none of them
	Parts      []Part               `json:"parts"`
	Functions  []Function           `json:"functions"`
	Queues     []QueueDescription   `json:"queues"`
	Timers     []TimerDescription   `json:"timers"`
	Routes     []RouteDescription   `json:"routes"`
	Processors []string             `json:"processors"`
	Settings   []SettingDescription `json:"settings"`
	Storage    Storage              `json:"storage"`
	Roles      []string             `json:"roles"` // that the app needs, by the names of Azure
}

// DescriptionVersion is the version of the form of a description.
const DescriptionVersion = 1

// Function is a function of the Functions host.
type Function struct {
	Name     string    `json:"name"` // of its folder
	Bindings []Binding `json:"bindings"`
}

// Binding is a binding of a function.json, as the host reads it. Members are in
// the order in which they are written.
type Binding struct {
	Type       string `json:"type"`
	Direction  string `json:"direction"`
	Name       string `json:"name"`
	AuthLevel  string `json:"authLevel,omitempty"`
	Route      string `json:"route,omitempty"`
	QueueName  string `json:"queueName,omitempty"`
	Schedule   string `json:"schedule,omitempty"`
	Connection string `json:"connection,omitempty"`
}

// Text returns the content of the function.json of a function.
func (f Function) Text() string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(struct {
		Bindings []Binding `json:"bindings"`
	}{f.Bindings}) // of strings, into memory
	return b.String()
}

// WithPrefix returns the function as the Functions host needs it for a program
// with a prefix: with the names of queues in storage.
func (f Function) WithPrefix(prefix string) Function {
	f.Bindings = slices.Clone(f.Bindings)
	for i, b := range f.Bindings {
		if b.QueueName != "" {
			f.Bindings[i].QueueName = names.WithPrefix(prefix, b.QueueName)
		}
	}
	return f
}

// QueueDescription is a queue in a description.
type QueueDescription struct {
	Name           string   `json:"name"`
	StorageQueue   string   `json:"storageQueue"`
	FormerNames    []string `json:"formerNames,omitempty"`
	Handled        bool     `json:"handled"`
	SendOnly       bool     `json:"sendOnly,omitempty"`
	Concurrency    int      `json:"concurrency,omitempty"`
	MaxAttempts    int      `json:"maxAttempts,omitempty"`
	TimeoutSeconds float64  `json:"timeoutSeconds,omitempty"`
}

// TimerDescription is a timer in a description.
type TimerDescription struct {
	Name     string `json:"name"`
	Schedule string `json:"schedule"`
	Zone     string `json:"zone"`
	CatchUp  bool   `json:"catchUp,omitempty"`
}

// RouteDescription is a route in a description.
type RouteDescription struct {
	Pattern  string `json:"pattern"`
	Level    string `json:"level"`
	Function string `json:"function"`
}

// SettingDescription is a setting in a description. Bicep reads each member, so
// none is left out.
type SettingDescription struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Default     string `json:"default"`
	Secret      bool   `json:"secret"`
	Required    bool   `json:"required"` // it has no default and is not optional
}

// Storage is what a program keeps in its account, without its prefix.
type Storage struct {
	Queues     []string `json:"queues"`
	Tables     []string `json:"tables"`
	Containers []string `json:"containers"`
}

// Describe returns the description of what was declared, which was checked.
func (d *Declared) Describe() Description {
	out := Description{
		Version: DescriptionVersion, Program: d.Name,
		Parts: []Part{}, Queues: []QueueDescription{}, Timers: []TimerDescription{}, Routes: []RouteDescription{}, Processors: []string{}, Settings: []SettingDescription{},
		Functions: d.functions(), Storage: d.storage(), Roles: d.roles(),
	}
	for _, p := range Parts() {
		if d.Uses[p] {
			out.Parts = append(out.Parts, p)
		}
	}
	for _, q := range d.Queues {
		described := QueueDescription{Name: q.Name, StorageQueue: q.Storage(), FormerNames: q.FormerNames, Handled: q.Handled > 0, SendOnly: q.SendOnly}
		if described.Handled {
			described.Concurrency, described.MaxAttempts, described.TimeoutSeconds = q.Concurrency, q.MaxAttempts, q.Timeout.Seconds()
		}
		out.Queues = append(out.Queues, described)
	}
	for _, t := range d.Timers {
		out.Timers = append(out.Timers, TimerDescription{Name: t.Name, Schedule: t.Schedule, Zone: t.Zone, CatchUp: t.CatchUp})
	}
	for _, r := range d.Routes {
		out.Routes = append(out.Routes, RouteDescription{Pattern: r.Pattern, Level: r.Level.String(), Function: FunctionOfRoute(r)})
	}
	for _, p := range d.Processors {
		out.Processors = append(out.Processors, p.Name)
	}
	for _, s := range d.Settings {
		out.Settings = append(out.Settings, SettingDescription{Name: s.Name, Description: s.Description, Default: s.Default, Secret: s.Secret, Required: !s.Optional && s.Default == ""})
	}
	slices.SortFunc(out.Functions, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Text returns the description as JSON.
func (d Description) Text() []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(d) // of strings and numbers, into memory
	return b.Bytes()
}

// With returns the description of two binaries of one program, of which the first
// is the handler. A queue that one of them works on is handled.
func (d Description) With(o Description) (Description, error) {
	if o.Program != d.Program {
		return d, fmt.Errorf("it is program %q, the other %q: binaries of one program have one name", o.Program, d.Program)
	}
	d.Parts = union(d.Parts, o.Parts, func(p Part) string { return string(p) })
	for _, f := range o.Functions {
		if !slices.ContainsFunc(d.Functions, func(own Function) bool { return own.Name == f.Name }) {
			d.Elsewhere = append(d.Elsewhere, f.Name)
		}
	}
	d.Functions = union(d.Functions, o.Functions, func(f Function) string { return f.Name })
	d.Timers = union(d.Timers, o.Timers, func(t TimerDescription) string { return t.Name })
	d.Routes = union(d.Routes, o.Routes, func(r RouteDescription) string { return r.Pattern })
	d.Settings = union(d.Settings, o.Settings, func(s SettingDescription) string { return s.Name })
	same := func(text string) string { return text }
	d.Processors = union(d.Processors, o.Processors, same)
	d.Roles = union(d.Roles, o.Roles, same)
	d.Storage.Queues = union(d.Storage.Queues, o.Storage.Queues, same)
	d.Storage.Tables = union(d.Storage.Tables, o.Storage.Tables, same)
	d.Storage.Containers = union(d.Storage.Containers, o.Storage.Containers, same)
	handled := slices.DeleteFunc(slices.Concat(d.Queues, o.Queues), func(q QueueDescription) bool { return !q.Handled })
	d.Queues = union(handled, slices.Concat(d.Queues, o.Queues), func(q QueueDescription) string { return q.Name })
	return d, nil
}

// union returns the items of both lists, in the order of their names; of two
// with one name the first.
func union[T any](a, b []T, name func(T) string) []T {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(x, y T) int { return strings.Compare(name(x), name(y)) })
	return slices.CompactFunc(all, func(x, y T) bool { return name(x) == name(y) })
}

// Complete returns an error if no binary works on a queue that they both declare
// as their own.
func (d Description) Complete() error {
	var errs []error
	for _, q := range d.Queues {
		if !q.Handled && !q.SendOnly {
			errs = append(errs, fmt.Errorf("queue %q has no handler", q.Name))
		}
	}
	return errors.Join(errs...)
}
