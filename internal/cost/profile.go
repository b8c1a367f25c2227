package cost

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Profile is a load, and where it is processed. Rates are of a day.
type Profile struct {
	Name string `json:"name"`

	Days      float64 `json:"days"`      // of a month
	BusyHours float64 `json:"busyHours"` // of a day; the rest is idle

	Items         float64 `json:"items"`     // a day
	ItemBytes     float64 `json:"itemBytes"` // of one item
	ItemsPerBatch float64 `json:"itemsPerBatch"`
	BatchSeconds  float64 `json:"batchSeconds"` // from the submission of a batch to its report
	Compression   float64 `json:"compression"`  // by how much parcels shrink, as measured
	LargeParcel   float64 `json:"largeParcel"`  // most items of a parcel of a large batch: 400, or 100 if its processor allows no more

	Partitions    float64 `json:"partitions"`
	Instances     float64 `json:"instances"`     // that process queues in the busy hours
	IdleInstances float64 `json:"idleInstances"` // … and in the others
	AppInstances  float64 `json:"appInstances"`  // that serve the API beside workers, all day

	AlwaysReady   float64 `json:"alwaysReady"`   // instances that always run, on the plan flex
	ZoneRedundant bool    `json:"zoneRedundant"` // of that plan: then at least two for each group of functions

	HeldInvocations float64 `json:"heldInvocations"` // that wait at the closed work gate, under a Functions host
	HeldHours       float64 `json:"heldHours"`       // of a day

	Numbers       float64 `json:"numbers"` // order numbers a day
	NumbersACall  float64 `json:"numbersACall"`
	Deletions     float64 `json:"deletions"` // of channels, a day
	BlogsADeleted float64 `json:"blogsADeleted"`

	Push     bool    `json:"push"`     // signals over Service Bus; otherwise queues and gates are polled
	IdlePoll float64 `json:"idlePoll"` // seconds between two polls of an empty queue by a worker without them, at most
	Plan     string  `json:"plan"`     // see Plans

	RelayMessages float64 `json:"relayMessages"` // sent a day through the relay
	RelayBacklog  float64 `json:"relayBacklog"`  // of them by way of the backlog
	RelayQueues   float64 `json:"relayQueues"`   // of the backlog; 0 without a second namespace
	RelayOutage   float64 `json:"relayOutage"`   // hours of a day in which the first namespace accepts none

	// Measured values of this app.
	PerReceive float64 `json:"messagesPerReceive"`
	Empty      float64 `json:"emptyPerReceive"`   // receives that return nothing, for each that returns messages
	Renewals   float64 `json:"renewalsPerParcel"` // of leases
	Returns    float64 `json:"returnsPerParcel"`  // of parcels that waited too long for a hand
	PerWrite   float64 `json:"resultsPerWrite"`   // of the ledger

	// The designs of the paper.
	Threads     float64 `json:"threads"`     // that receive messages
	PollSeconds float64 `json:"pollSeconds"` // between two polls of an idle thread of the naive design
	MaxIdle     float64 `json:"maxIdle"`     // seconds between two polls of an idle instance of the optimised design, without push

	MemoryGB float64 `json:"memoryGB"` // of an instance
	VCPU     float64 `json:"vCPU"`     // of an instance
}

// The plans on which instances run. Workers run in containers, or where the
// model does not count compute; the other plans are those of a Functions app.
const (
	None        = "none"
	Container   = "container"
	Flex        = "flex"
	Consumption = "consumption"
	Premium     = "premium"
)

// Plans lists the plans.
var plans = []string{None, Container, Flex, Consumption, Premium}

// hosted reports whether the Functions host processes the queues.
func (p Profile) hosted() bool { return p.Plan != None && p.Plan != Container }

// small is a profile with a little of everything; the others derive from it.
var small = Profile{
	Name: "small", Days: 30, BusyHours: 2,
	Items: 10_000, ItemBytes: 163, ItemsPerBatch: 2_000, BatchSeconds: 60, Compression: 6, LargeParcel: 400,
	Partitions: 4, Instances: 1, AppInstances: 1,
	Numbers: 10_000, NumbersACall: 1, Deletions: 10, BlogsADeleted: 100,
	IdlePoll: 30, Plan: Flex, PerReceive: 8, Empty: 2, PerWrite: 2,
	Threads: 10, PollSeconds: 1, MaxIdle: 60, MemoryGB: 2, VCPU: 1,
}

// named returns the profiles that have names.
func named() map[string]Profile {
	large := small
	large.Name, large.BusyHours = "large", 8
	large.Items, large.ItemsPerBatch = 10_000_000, 100_000
	large.Instances, large.IdleInstances, large.AppInstances, large.Threads = 10, 2, 2, 200
	large.Numbers, large.Deletions, large.BlogsADeleted = 10_000_000, 1_000, 1_000
	large.Push, large.Plan = true, Container
	large.PerReceive, large.PerWrite, large.Renewals, large.Returns = 12, 1.2, 0.08, 0.19

	paper := Profile{
		Name: "paper", Days: 30, BusyHours: 2, ItemBytes: 163, ItemsPerBatch: 2_000, BatchSeconds: 60, Compression: 6, LargeParcel: 400,
		Partitions: 1, Instances: 10, IdleInstances: 10, NumbersACall: 1, Push: true, IdlePoll: 30, Plan: None,
		PerReceive: 8, Empty: 2, PerWrite: 2, Threads: 200, PollSeconds: 1, MaxIdle: 60, MemoryGB: 2, VCPU: 1,
	}
	return map[string]Profile{"small": small, "large": large, "paper": paper}
}

// Names returns the names of the profiles that the package knows.
func Names() []string { return slices.Sorted(maps.Keys(named())) }

// Named returns the profile of a name.
func Named(name string) (p Profile, ok bool) {
	p, ok = named()[name]
	return p, ok
}

// ParseProfile reads a profile. Missing members are those of the profile
// "small".
func ParseProfile(text []byte) (Profile, error) {
	p := small
	p.Name = ""
	if err := decode(text, &p); err != nil {
		return Profile{}, fmt.Errorf("read a profile: %w", err)
	}
	if err := p.Check(); err != nil {
		return Profile{}, fmt.Errorf("read a profile: %w", err)
	}
	return p, nil
}

// Set changes the member of that name to a value, both as in JSON. A text needs
// no quotation marks.
func (p *Profile) Set(name, value string) error {
	text, err := json.Marshal(map[string]json.RawMessage{name: json.RawMessage(value)})
	if err != nil { // the value is no JSON
		if text, err = json.Marshal(map[string]string{name: value}); err != nil {
			return err
		}
	}
	next := *p
	if err := decode(text, &next); err != nil {
		return err
	}
	*p = next
	return nil
}

// Check returns the faults of the profile.
func (p Profile) Check() error {
	type value struct {
		name     string
		value    float64
		min, max float64
	}
	for _, v := range []value{
		{"days", p.Days, 1, 31}, {"busyHours", p.BusyHours, 0, 24}, {"heldHours", p.HeldHours, 0, 24 - p.BusyHours},
		{"items", p.Items, 0, 1e12}, {"itemBytes", p.ItemBytes, 1, 64 << 10}, {"itemsPerBatch", p.ItemsPerBatch, 1, 1e6}, {"batchSeconds", p.BatchSeconds, 0, 1e6},
		{"compression", p.Compression, 1, 1000}, {"largeParcel", p.LargeParcel, parcelItems, 400}, {"partitions", p.Partitions, 1, 1000},
		{"instances", p.Instances, 0, 1e5}, {"idleInstances", p.IdleInstances, 0, 1e5}, {"appInstances", p.AppInstances, 0, 1e5}, {"alwaysReady", p.AlwaysReady, 0, 1e5},
		{"heldInvocations", p.HeldInvocations, 0, 1e6}, {"numbers", p.Numbers, 0, 1e12}, {"numbersACall", p.NumbersACall, 1, 10_000},
		{"deletions", p.Deletions, 0, 1e9}, {"blogsADeleted", p.BlogsADeleted, 0, 1e9},
		{"relayMessages", p.RelayMessages, 0, 1e12}, {"relayBacklog", p.RelayBacklog, 0, p.RelayMessages}, {"relayQueues", p.RelayQueues, 0, 100}, {"relayOutage", p.RelayOutage, 0, 24},
		{"messagesPerReceive", p.PerReceive, 1, 32}, {"emptyPerReceive", p.Empty, 0, 1000}, {"resultsPerWrite", p.PerWrite, 1, 1e6}, {"renewalsPerParcel", p.Renewals, 0, 1e6}, {"returnsPerParcel", p.Returns, 0, 1000},
		{"idlePoll", p.IdlePoll, 0.1, 600}, {"threads", p.Threads, 0, 1e6}, {"pollSeconds", p.PollSeconds, 0.01, 3600}, {"maxIdle", p.MaxIdle, 0.1, 3600},
		{"memoryGB", p.MemoryGB, 0.1, 64}, {"vCPU", p.VCPU, 0.1, 64},
	} {
		if math.IsNaN(v.value) || v.value < v.min || v.value > v.max {
			return fmt.Errorf("%s is %v; use %v to %v", v.name, v.value, v.min, v.max)
		}
	}
	switch {
	case !slices.Contains(plans, p.Plan):
		return fmt.Errorf("plan %q is unknown; use %s", p.Plan, strings.Join(plans, ", "))
	case p.RelayBacklog > 0 && p.RelayQueues == 0:
		return fmt.Errorf("relayQueues is 0, and relayBacklog is not; use at least 1")
	case p.Instances == 0 && p.Items+p.Numbers+p.Deletions > 0:
		return fmt.Errorf("instances is 0, and there is work; use at least 1")
	case p.BusyHours == 0 && p.Items+p.Numbers+p.Deletions > 0:
		return fmt.Errorf("busyHours is 0, and there is work; use more")
	}
	return nil
}

// Limits of parcels, as in package work.
const (
	parcelItems  = 100
	largeFrom    = 20_000 // items of a batch before the first large parcel
	parcelBytes  = 32 << 10
	chunkBytes   = 4 << 20
	messageBytes = 33_000 // of a body that fits into a message
	express      = 10     // parcels of a batch that has a queue of its own
)

// ItemsPerParcel returns how many items a parcel has, as a mean if there are
// large ones.
func (p Profile) ItemsPerParcel() float64 {
	fit := max(1, math.Floor(parcelBytes*p.Compression/p.ItemBytes))
	small, large := min(parcelItems, fit), min(p.LargeParcel, fit)
	if p.ItemsPerBatch < largeFrom || small == large {
		return min(small, p.ItemsPerBatch)
	}
	first := math.Ceil(largeFrom/small) - 1 // the next one grows
	return p.ItemsPerBatch / (first + math.Ceil((p.ItemsPerBatch-first*small)/large))
}

// parcels returns how many parcels a batch has.
func (p Profile) parcels() float64 {
	return math.Ceil(p.ItemsPerBatch/p.ItemsPerParcel() - 1e-6) // which may be a quotient
}

// batch returns a batch of the profile.
func (p Profile) batch() Batch {
	parcels := p.parcels()
	packed := parcels * (min(p.ItemsPerParcel()*p.ItemBytes/p.Compression, parcelBytes) + 4)
	b := Batch{
		Parcels: parcels, Chunks: math.Ceil(packed / chunkBytes), Tries: 1,
		Hosted: p.hosted(), PerReceive: p.PerReceive, Empty: p.Empty, Renewals: p.Renewals, Returns: p.Returns, PerWrite: min(p.PerWrite, parcels),
		Processes: min(p.Instances+1, parcels), // one submits
	}
	if p.hosted() {
		b.Processes = min(p.Instances, parcels)
	} else if p.Push {
		b.Wakes = p.Instances * p.queuesOf(parcels)
	}
	return b
}

// queuesOf returns how many queues the parcels of a batch are spread over.
func (p Profile) queuesOf(parcels float64) float64 {
	if parcels <= express {
		return 1
	}
	return min(p.Partitions, parcels)
}

// processing returns the hours of a day in which batches are processed.
func (p Profile) processing() float64 {
	return min(p.BusyHours, p.Items/p.ItemsPerBatch*p.BatchSeconds/hourSeconds)
}

// idleHours returns the hours of a day in which there is no work.
func (p Profile) idleHours() float64 { return 24 - p.BusyHours }
