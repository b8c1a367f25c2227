package bill

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Operation is a kind of request, named as by the counter of requests.
type Operation struct{ Service, Name, Job string }

// Counts are the requests of a process since its start.
type Counts struct {
	Operations map[Operation]int64
	Messages   int64 // that a Functions host delivered
}

func (c Counts) total() (sum int64) {
	for _, n := range c.Operations {
		sum += n
	}
	return sum
}

// since returns the counts after earlier.
func (c Counts) since(earlier Counts) Counts {
	d := Counts{Operations: make(map[Operation]int64), Messages: c.Messages - earlier.Messages}
	for o, n := range c.Operations {
		if n -= earlier.Operations[o]; n > 0 {
			d.Operations[o] = n
		}
	}
	return d
}

// Span is a part of a day. The zero Span is empty.
type Span struct {
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
}

// and returns the span from the earlier begin to the later end.
func (s Span) and(other Span) Span {
	if s == (Span{}) || other == (Span{}) {
		return cmp.Or(s, other)
	}
	if other.From.Before(s.From) {
		s.From = other.From
	}
	if other.To.After(s.To) {
		s.To = other.To
	}
	return s
}

func (s Span) hours() float64 { return s.To.Sub(s.From).Hours() }

// Usage is the usage of one process on a day, or of several together.
type Usage struct {
	Counts
	Hosted      Span    // in which processes of a Functions host ran
	HostedHours float64 // of these processes, all together
	Bus         Span    // in which processes were connected to Service Bus
}

// and returns both together.
func (u Usage) and(other Usage) Usage {
	sum := Usage{
		Counts:      Counts{Operations: maps.Clone(u.Operations), Messages: u.Messages + other.Messages},
		Hosted:      u.Hosted.and(other.Hosted),
		HostedHours: u.HostedHours + other.HostedHours,
		Bus:         u.Bus.and(other.Bus),
	}
	if sum.Operations == nil {
		sum.Operations = make(map[Operation]int64)
	}
	for o, n := range other.Operations {
		sum.Operations[o] += n
	}
	return sum
}

// usageRow is a usage as it is stored.
type usageRow struct {
	Operations  []operationRow `json:"operations"`
	Messages    int64          `json:"messages,omitempty"`
	Hosted      Span           `json:"hosted,omitzero"`
	HostedHours float64        `json:"hostedHours,omitempty"`
	Bus         Span           `json:"bus,omitzero"`
}

type operationRow struct {
	Service string `json:"service"`
	Name    string `json:"op"`
	Job     string `json:"job,omitempty"`
	Count   int64  `json:"n"`
}

// marshal returns the text of a usage.
func (u Usage) marshal() string {
	row := usageRow{Operations: []operationRow{}, Messages: u.Messages, Hosted: u.Hosted, HostedHours: u.HostedHours, Bus: u.Bus}
	for o, n := range u.Operations {
		row.Operations = append(row.Operations, operationRow{o.Service, o.Name, o.Job, n})
	}
	slices.SortFunc(row.Operations, func(a, b operationRow) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Name, b.Name), strings.Compare(a.Job, b.Job))
	})
	text, _ := json.Marshal(row) // no error is possible: hours are differences of times
	return string(text)
}

// parseUsage reads the text of a usage. One that no process can have written is
// an error.
func parseUsage(text string) (Usage, error) {
	var row usageRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return Usage{}, err
	}
	u := Usage{Counts: Counts{make(map[Operation]int64), row.Messages}, Hosted: row.Hosted, HostedHours: row.HostedHours, Bus: row.Bus}
	for _, o := range row.Operations {
		if o.Count < 0 {
			return Usage{}, fmt.Errorf("the count of %.20q is negative", o.Service+" "+o.Name)
		}
		u.Operations[Operation{o.Service, o.Name, o.Job}] += o.Count
	}
	if u.Messages < 0 || u.HostedHours < 0 || u.Hosted.hours() < 0 || u.Bus.hours() < 0 {
		return Usage{}, fmt.Errorf("a count or a time is negative")
	}
	return u, nil
}

// Month is the usage of all processes in a month until now, by day of the
// month.
type Month struct {
	Days    map[int]Usage
	Today   int // the day of the month
	LeftOut int // rows that cannot be read: another build wrote them, or another program
}
