package cost

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func about(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// TestPaper: the model reproduces the example of the paper.
func TestPaper(t *testing.T) {
	e := paperExample()
	for _, n := range [][2]float64{{e.PollsADay, 79_200}, {e.Thread, 2.376}, {e.Total, 475.20}, {e.Printed, 457.20}, {e.PrintedPolls, 76_200}} {
		if !about(n[0], n[1]) {
			t.Errorf("%v, want %v", n[0], n[1])
		}
	}
	p, _ := Named("paper")
	for threads, want := range map[float64]float64{1: 2.376, 200: 475.20} {
		p.Threads = threads
		c, err := Compare(p, PaperPrices())
		if err != nil || !about(c.Designs[0].Total, want) {
			t.Errorf("%v threads cost %v, %v, want %v", threads, c.Designs[0].Total, err, want)
		}
	}
	p.Threads = 200
	c, err := Compare(p, ListPrices())
	if err != nil || !about(c.Designs[0].Total, 190.08) {
		t.Errorf("today the threads cost %v, %v, want 190.08", c.Designs[0].Total, err)
	}
	if c.Paper == nil {
		t.Error("the example is missing")
	}
}

// TestDesigns: the three designs have the floors of their kind, and each step is
// cheaper than the one before.
func TestDesigns(t *testing.T) {
	for _, name := range Names() {
		p, _ := Named(name)
		c, err := Compare(p, ListPrices())
		if err != nil {
			t.Fatal(name, err)
		}
		naive, optimised, kennel := c.Designs[0], c.Designs[1], c.Designs[2]
		if naive.Total <= optimised.Total || name != "paper" && optimised.Total <= kennel.Total {
			t.Errorf("%s: naive %.2f, optimised %.2f, kennel %.2f", name, naive.Total, optimised.Total, kennel.Total)
		}
		if p.Items == 0 {
			continue
		}
		if naive.PerItem != 3 || optimised.PerItem != 2.03125 || kennel.PerItem <= c.Floor || kennel.PerItem > 0.09 {
			t.Errorf("%s: %v, %v and %v operations per item, floor %v", name, naive.PerItem, optimised.PerItem, kennel.PerItem, c.Floor)
		}
	}
}

// TestFactors: what a setting changes, it changes in the right direction.
func TestFactors(t *testing.T) {
	of := func(change func(*Profile)) Cost {
		t.Helper()
		p, _ := Named("large")
		if change != nil {
			change(&p)
		}
		c, err := Compare(p, ListPrices())
		if err != nil {
			t.Fatal(err)
		}
		return c.Designs[2]
	}
	usual := of(nil)
	for name, change := range map[string]func(*Profile){
		"items":      func(p *Profile) { p.Items *= 2 },
		"item bytes": func(p *Profile) { p.ItemBytes *= 100 },
		"claims":     func(p *Profile) { p.ItemBytes, p.Compression = 60_000, 1 },
		"partitions": func(p *Profile) { p.Partitions *= 4 },
		"instances":  func(p *Profile) { p.IdleInstances *= 2 },
		"numbers":    func(p *Profile) { p.Numbers *= 100 },
		"deletions":  func(p *Profile) { p.Deletions *= 2 },
		"held":       func(p *Profile) { p.HeldHours, p.HeldInvocations = 4, 100 },
		"poll":       func(p *Profile) { p.Push, p.IdleInstances = false, 10 },
		"host":       func(p *Profile) { p.Plan, p.HeldHours, p.HeldInvocations = Flex, 4, 100 },
		"backlog":    func(p *Profile) { p.RelayMessages, p.RelayBacklog, p.RelayQueues, p.RelayOutage = 1e6, 1e5, 10, 1 },
	} {
		got := of(change)
		if n, usually := storage(got), storage(usual); n <= usually && name != "backlog" && name != "host" {
			t.Errorf("%s: %.0f requests to storage, usually %.0f", name, n, usually)
		}
		if name == "backlog" && got.Operations <= usual.Operations {
			t.Errorf("%s: %.0f operations, usually %.0f", name, got.Operations, usual.Operations)
		}
		modelled := 0.0
		for _, l := range got.Lines {
			if l.Job == jobHost && !l.Modelled {
				t.Errorf("%s: %s %s by the host is not marked as modelled", name, l.Service, l.Operation)
			}
			if l.Job == jobHost {
				modelled += l.Count
			}
		}
		if (modelled > 0) != (name == "host") {
			t.Errorf("%s: the host makes %.0f requests", name, modelled)
		}
	}
	// Held invocations keep instances executing.
	if held := of(func(p *Profile) { p.Plan, p.HeldHours, p.HeldInvocations = Flex, 4, 100 }); held.Total <= of(func(p *Profile) { p.Plan = Flex }).Total+100 {
		t.Errorf("with held invocations the month costs %.2f", held.Total)
	}
	for _, plan := range plans {
		if of(func(p *Profile) { p.Plan = plan }).Total <= 0 {
			t.Errorf("plan %s is free", plan)
		}
	}
}

// storage returns the requests to storage.
func storage(c Cost) (sum float64) {
	for _, l := range c.Lines {
		if l.Service != bus && l.Service != compute {
			sum += l.Count
		}
	}
	return sum
}

func TestParseProfile(t *testing.T) {
	p, err := ParseProfile([]byte(`{"name":"mine","items":5,"plan":"premium"}`))
	if want := small; err != nil || p.Name != "mine" || p.Items != 5 || p.Plan != Premium || p.BusyHours != want.BusyHours {
		t.Errorf("%+v, %v", p, err)
	}
	for _, name := range Names() {
		p, _ := Named(name)
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseProfile(text); err != nil || got != p {
			t.Errorf("%+v, %v, want %+v", got, err, p)
		}
	}
	for text, want := range map[string]string{
		``:                                     "EOF",
		`[]`:                                   "has the wrong type",
		`{"item":5}`:                           `unknown field "item"`,
		`{"items":"5"}`:                        "has the wrong type",
		`{"items":-5}`:                         "items is -5; use 0 to",
		`{"items":1e999}`:                      "1e999",
		`{"busyHours":25}`:                     "busyHours is 25; use 0 to 24",
		`{"busyHours":0}`:                      "busyHours is 0, and there is work",
		`{"instances":0}`:                      "instances is 0, and there is work",
		`{"heldHours":23}`:                     "heldHours is 23; use 0 to 22",
		`{"partitions":0}`:                     "partitions is 0; use 1 to 1000",
		`{"relayBacklog":1}`:                   "relayBacklog is 1; use 0 to 0",
		`{"relayMessages":9,"relayBacklog":1}`: "relayQueues is 0, and relayBacklog is not",
		`{"plan":"cheap"}`:                     `plan "cheap" is unknown; use none, container, flex, consumption, premium`,
		`{"days":30} {}`:                       "text follows",
		`{"itemBytes":0}`:                      "itemBytes is 0",
		`{"itemsPerBatch":0}`:                  "itemsPerBatch is 0",
		`{"pollSeconds":0}`:                    "pollSeconds is 0",
		`{"days":null,"x":[]}`:                 "unknown field",
	} {
		if _, err := ParseProfile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
	p.Items = math.NaN()
	if _, err := Compare(p, ListPrices()); err == nil || !strings.Contains(err.Error(), "items is NaN") {
		t.Errorf("error %v", err)
	}
	if _, err := Compare(small, Prices{}); err == nil || !strings.Contains(err.Error(), "date is missing") {
		t.Errorf("error %v", err)
	}
}

func TestSet(t *testing.T) {
	p := small
	for name, value := range map[string]string{"items": "1e6", "push": "true", "plan": "premium", "name": "x y"} {
		if err := p.Set(name, value); err != nil {
			t.Error(name, err)
		}
	}
	if p.Items != 1e6 || !p.Push || p.Plan != Premium || p.Name != "x y" {
		t.Errorf("%+v", p)
	}
	before := p
	for name, value := range map[string]string{"item": "5", "items": "many", "push": "1", "partitions": "", "days": "[1]"} {
		if err := p.Set(name, value); err == nil || p != before {
			t.Errorf("%s=%s is accepted: %+v", name, value, p)
		}
	}
}

func TestRangeSize(t *testing.T) {
	for perSecond, want := range map[float64]float64{0: 10, 0.1: 10, 10: 600, 100: 6000, 1e9: 1e6} {
		if got := rangeSize(perSecond); got != want {
			t.Errorf("%v numbers a second: ranges of %v, want %v", perSecond, got, want)
		}
	}
}
