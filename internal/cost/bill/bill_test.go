package bill

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/internal/azure/requests"
	"kennel/internal/cost"
)

// day returns a usage with so many operations.
func day(operations map[Operation]int64) Usage { return Usage{Counts: Counts{Operations: operations}} }

func mustPrice(t *testing.T, m Month, host Host) Bill {
	t.Helper()
	b, err := m.Price(cost.ListPrices(), host)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPrice: the bill has each job of the month, and what today adds to it.
func TestPrice(t *testing.T) {
	b := mustPrice(t, Month{Today: 2, Days: map[int]Usage{
		1: day(map[Operation]int64{puts: 10_000, {"table", "get", "batches"}: 10_000}),
		2: day(map[Operation]int64{puts: 20_000, {"blob", "put", ""}: 10_000}),
	}}, Host{Queues: 4, Timers: 2, EachMinute: 1})
	want := map[string]Job{
		"batches": {Operations: 40_000, Amount: "0.012360", Today: Today{20_000, "0.008000"}},
		"other":   {Operations: 10_000, Amount: "0.054000", Today: Today{10_000, "0.054000"}},
	}
	if !maps.Equal(b.Jobs, want) || b.Today != "0.062000" || b.Month != "0.066360" || b.Currency != "USD" || b.Prices.Name != "list" {
		t.Errorf("%+v, want %v, today 0.062000 of 0.066360", b, want)
	}
	if b := mustPrice(t, Month{Today: 1}, Host{}); b.Today != "0.000000" || b.Month != "0.000000" || len(b.Jobs) != 0 {
		t.Errorf("%+v, want nothing", b)
	}
}

// TestIncluded: today costs what it adds to the month, after what is included
// in it.
func TestIncluded(t *testing.T) {
	send := Operation{requests.Bus, requests.Send, "signals"}
	for before, want := range map[int64]string{0: "0.000000", 12_000_000: "0.800000", 13_000_000: "1.600000", 20_000_000: "1.600000"} {
		b := mustPrice(t, Month{Today: 2, Days: map[int]Usage{1: day(map[Operation]int64{send: before}), 2: day(map[Operation]int64{send: 2_000_000})}}, Host{})
		if b.Today != want {
			t.Errorf("after %d operations today costs %s, want %s", before, b.Today, want)
		}
	}
}

// TestHost: what the host does is priced for the time in which processes ran,
// and marked. Two processes poll twice as often, and their queues are read by
// one scale controller.
func TestHost(t *testing.T) {
	midnight := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	at := func(from, to float64) Span {
		return Span{midnight.Add(time.Duration(from * float64(time.Hour))), midnight.Add(time.Duration(to * float64(time.Hour)))}
	}
	u := Usage{Hosted: at(0, 6), HostedHours: 6}.and(Usage{Counts: Counts{Messages: 800}, Hosted: at(4, 10), HostedHours: 6, Bus: at(0, 5)})
	got := make(map[string]float64)
	for _, l := range u.Lines(Host{Queues: 4, Timers: 2, EachMinute: 1}) {
		if got[l.Service+" "+l.Operation] += l.Count; l.Modelled != (l.Job == "host") {
			t.Errorf("%+v, want it marked if it is the host's", l)
		}
	}
	want := map[string]float64{"queue receive": 100, "queue delete": 800, "bus hour": 5}
	for _, l := range slices.Concat(cost.HostIdle(4, 2, 1.2), cost.HostEachMinute(1)) {
		want[l.Service+" "+l.Operation] += 10 * l.Count
	}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, n := range want {
		if !near(got[name], n) {
			t.Errorf("%s: %v, want %v", name, got[name], n)
		}
	}
	b := mustPrice(t, Month{Today: 1, Days: map[int]Usage{1: u}}, Host{Queues: 4, Timers: 2})
	if !b.Jobs["host"].Modelled || b.Jobs["signals"] != (Job{Amount: "0.067192", Today: Today{Amount: "0.067192"}}) {
		t.Errorf("%+v, want the host's marked, and five hours of Service Bus", b.Jobs)
	}
}

// TestHostAsPredicted: what the host does in an idle month is as much as package
// cost predicts, so that a month can be compared with its prediction.
func TestHostAsPredicted(t *testing.T) {
	profile, _ := cost.Named("small")
	profile.Items = 0
	days := make(map[int]Usage)
	for d := range int(profile.Days) {
		begin := time.Date(2026, 11, 1+d, 0, 0, 0, 0, time.UTC)
		days[d+1] = Usage{Hosted: Span{begin, begin.AddDate(0, 0, 1)}, HostedHours: 24}
	}
	want := 0.0
	for _, design := range cost.Model(profile) {
		for _, l := range design.Lines {
			if design.Name == "kennel" && l.Job == "host" {
				want += l.Count
			}
		}
	}
	got := mustPrice(t, Month{Today: 30, Days: days}, Host{Queues: int(profile.Partitions) + 2, Timers: 4, EachMinute: 2}).Jobs["host"]
	if want == 0 || !near(float64(got.Operations), want) {
		t.Errorf("%+v, want the %v operations of the model", got, want)
	}
}

// TestNames: an operation of a newer build has the price of one without a name,
// and one of an unknown service has none. Each operation of Service Bus that is
// counted has a price.
func TestNames(t *testing.T) {
	operations := map[Operation]int64{{"blob", "sing", "numbers"}: 10_000, {"radio", "sing", "numbers"}: 10_000}
	if b := mustPrice(t, Month{Today: 1, Days: map[int]Usage{1: day(operations)}}, Host{}); b.Jobs["numbers"] != (Job{Operations: 10_000, Amount: "0.054000", Today: Today{10_000, "0.054000"}}) {
		t.Errorf("%+v, want 10,000 operations at the price of a write", b.Jobs)
	}
	p := cost.ListPrices()
	p.Rows = p.Rows[:3]
	if _, err := (Month{Today: 1, Days: map[int]Usage{1: day(map[Operation]int64{puts: 1})}}).Price(p, Host{}); err == nil || !strings.Contains(err.Error(), "queue class 1") {
		t.Errorf("error %v, want the missing class", err)
	}
}

// TestText: a usage is stored and read without a change.
func TestText(t *testing.T) {
	midnight := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	u := Usage{Counts{map[Operation]int64{gets: 5, puts: 7, {"queue", "put", ""}: 1}, 9}, Span{midnight, midnight.Add(time.Hour)}, 2.5, Span{}}
	got, err := parseUsage(u.marshal())
	if err != nil || got.marshal() != u.marshal() || !maps.Equal(got.Operations, u.Operations) || got.Hosted != u.Hosted || got.Messages != 9 {
		t.Errorf("%+v, %v, want %+v", got, err, u)
	}
	if want := `{"operations":[{"service":"blob","op":"get","job":"numbers","n":5},{"service":"queue","op":"put","n":1},{"service":"queue","op":"put","job":"batches","n":7}],"messages":9,"hosted":{"from":"2026-11-23T00:00:00Z","to":"2026-11-23T01:00:00Z"},"hostedHours":2.5}`; u.marshal() != want {
		t.Errorf("the format has changed: %s", u.marshal())
	}
}
