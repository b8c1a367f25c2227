package cost

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/costs.md")

// TestDocument checks that the tables of docs/costs.md are those of the model:
//
//	go test ./cost -run TestDocument -update
func TestDocument(t *testing.T) {
	const path = "../../docs/costs.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, section := range map[string]string{"designs": designTable(t), "paper": paperText(t), "floor": floorTable(), "idle": idleText(t), "relay": relayTable()} {
		begin, end := "<!-- begin of "+name+" -->\n", "<!-- end of "+name+" -->"
		between := regexp.MustCompile("(?s)" + begin + ".*" + end)
		if !between.MatchString(want) {
			t.Fatalf("%s has no section %q", path, name)
		}
		want = between.ReplaceAllLiteralString(want, begin+"\n"+section+"\n"+end)
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s does not have the numbers of the model; run this test with -update", path)
	}
}

func compare(t *testing.T, name string, change func(*Profile)) Comparison {
	t.Helper()
	p, _ := Named(name)
	if change != nil {
		change(&p)
	}
	c, err := Compare(p, ListPrices())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// amount returns what the lines of some services cost.
func (c Cost) amount(services ...string) (sum float64) {
	for _, l := range c.Lines {
		for _, s := range services {
			if l.Service == s {
				sum += l.Amount
			}
		}
	}
	return sum
}

func designTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| profile | design | million operations | storage | Service Bus | compute | operations per item |\n|---|---|---|---|---|---|---|\n")
	for _, name := range []string{"small", "large"} {
		for _, d := range compare(t, name, nil).Designs {
			fmt.Fprintf(&b, "| `%s` | %s | %.1f | $%.2f | $%.2f | $%.2f | %.3f |\n", name, d.Name, d.Operations/1e6,
				d.amount("blob", "table", "queue"), d.amount(bus), d.amount(compute), d.PerItem)
		}
	}
	s, l := compare(t, "small", nil).Profile, compare(t, "large", nil).Profile
	fmt.Fprintf(&b, "\n`small` is %s items a day on a Functions app (%s) without Service Bus; `large` is %.0f million items a day in %.0f\nworkers with it.\n",
		grouped(s.Items), s.Plan, l.Items/1e6, l.Instances)
	return b.String()
}

func paperText(t *testing.T) string {
	e := paperExample()
	ours := compare(t, "paper", nil)
	return fmt.Sprintf(`An idle thread that polls each second for %.0f hours a day makes %s polls a day. At the price of then, $%.2f for 10,000,
%.0f days cost **$%.3f**, and %.0f threads **$%.2f** a month, for nothing. The paper prints $%.2f,
which is the price of %s polls a day: a digit of %s is wrong there, or the 7 and the 5 of the total changed
places.

At list prices of today the same threads cost $%.2f. This app with %.0f workers that are idle all day makes %.1f million
operations of storage, for $%.2f, and Service Bus costs $%.2f more, which is its base charge.
`, e.IdleHours, grouped(e.PollsADay), e.Per10000, e.Days, e.Thread, e.Threads, e.Total, e.Printed, grouped(e.PrintedPolls), grouped(e.PollsADay),
		ours.Designs[0].Total, ours.Profile.Instances, (ours.Designs[2].Operations-busOperations(ours.Designs[2]))/1e6,
		ours.Designs[2].amount("blob", "table", "queue"), ours.Designs[2].amount(bus))
}

// grouped writes a number as people read it: 1,234,567.
func grouped(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func busOperations(c Cost) (sum float64) {
	for _, l := range c.Lines {
		if l.Service == bus && l.isRequest() {
			sum += l.Count
		}
	}
	return sum
}

func floorTable() string {
	var b strings.Builder
	b.WriteString("| items in a parcel | floor | all operations of a batch of 100,000 items | of its queues |\n|---|---|---|---|\n")
	for _, k := range []float64{1, 10, 50, 100, 250} {
		p := small
		p.Plan, p.ItemsPerBatch = None, 100_000
		p.ItemBytes = 1 // any size fits
		batch := p.batch()
		batch.Parcels = p.ItemsPerBatch / k
		lines, queues := batch.Process(), 0.0
		for _, l := range lines {
			if l.Service == "queue" {
				queues += l.Count
			}
		}
		fmt.Fprintf(&b, "| %.0f | %.4f | %.4f | %.4f |\n", k, Floor(k), Total(lines)/p.ItemsPerBatch, queues/p.ItemsPerBatch)
	}
	return b.String()
}

func relayTable() string {
	prices := ListPrices()
	operation := prices.Rows[slices.IndexFunc(prices.Rows, func(r Row) bool { return r.Class == "bus operation" })]
	outage := small
	outage.Days, outage.RelayMessages, outage.RelayBacklog, outage.RelayQueues, outage.RelayOutage = 1, 100_000, 100_000, 10, 1
	var b strings.Builder
	fmt.Fprintf(&b, "| Service Bus | operations | of the %s million included | price beyond |\n|---|---|---|---|\n", grouped(operation.Included/1e6))
	for _, row := range []struct {
		name  string
		lines []Line
	}{
		{"a million messages, sent to the first namespace", Relay{Messages: 1e6}.Lines()},
		{"a million messages by way of the backlog", Relay{Messages: 1e6, Backlog: 1e6}.Lines()},
		{"ten empty backlog queues in a month, with a Functions app", times(720, RelayIdle(10, true))},
		{"the same, for each worker", times(720, RelayIdle(10, false))},
		{"an outage of an hour with 100,000 messages, with a Functions app", outage.ofRelay()},
	} {
		n := Total(row.lines)
		fmt.Fprintf(&b, "| %s | %s | %.1f %% | $%.2f |\n", row.name, grouped(n), 100*n/operation.Included, n*operation.Price/operation.Per)
	}
	return b.String()
}

func idleText(t *testing.T) string {
	month := func(lines []Line) (operations, amount float64) {
		lines = times(720, lines)
		bill, err := ListPrices().Price(lines)
		if err != nil {
			t.Fatal(err)
		}
		return Total(lines), bill.Total
	}
	var b strings.Builder
	b.WriteString("| an idle queue and instance, a month | operations | price |\n|---|---|---|\n")
	var amounts []float64
	for _, row := range []struct {
		name  string
		lines []Line
	}{
		{"a thread that polls each second", naive(Profile{Days: 1, Threads: 1, PollSeconds: 1, BusyHours: 23, Plan: None})},
		{"a worker without signals", Idle("", false, 30)},
		{"the same with `KENNEL_IDLE_POLL=1s`", Idle("", false, 1)},
		{"a worker with signals", Idle("", true, 30)},
		{"the Functions host, one instance", HostIdle(1, 0, 1)},
	} {
		operations, amount := month(row.lines)
		amounts = append(amounts, amount)
		fmt.Fprintf(&b, "| %s | %s | $%.4f |\n", row.name, grouped(operations), amount)
	}
	_, base := month([]Line{{Service: bus, Operation: "hour", Count: 1}})
	fmt.Fprintf(&b, "\nThe base charge of Service Bus, $%.2f a month, is the price of the polls of %.0f idle queues, counted once for each\ninstance.\n", base, base/(amounts[1]-amounts[3]))

	idle := small
	idle.BusyHours, idle.Instances, idle.Items, idle.Numbers, idle.Deletions = 0, 0, 0, 0, 0
	computing := func(change func(*Profile)) float64 {
		p, total := idle, 0.0
		change(&p)
		bill, err := ListPrices().Price(kennel(p))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range bill.Lines {
			if l.Job == compute {
				total += l.Amount
			}
		}
		return total
	}
	b.WriteString("\n| the compute of an idle app on Flex Consumption, 2,048 MB, four partitions | price |\n|---|---|\n")
	for _, row := range []struct {
		name   string
		change func(*Profile)
	}{
		{"timers, of which each execution is billed as a second", func(*Profile) {}},
		{"two always-ready instances besides", func(p *Profile) { p.AlwaysReady = 2 }},
		{fmt.Sprintf("`zoneRedundant`: %.0f always-ready instances besides, two for each of %.0f groups", 2*idle.groups(), idle.groups()), func(p *Profile) { p.ZoneRedundant = true }},
	} {
		fmt.Fprintf(&b, "| %s | $%.2f |\n", row.name, computing(row.change))
	}
	return b.String()
}
