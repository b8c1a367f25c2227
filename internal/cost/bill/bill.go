package bill

import (
	"cmp"
	"fmt"
	"strconv"

	"kennel/internal/cost"
)

// Bill is the cost of a month until now, without the rows that were left out.
// Amounts are decimals in its currency.
type Bill struct {
	Currency string         `json:"currency"`
	Today    string         `json:"today"`
	Month    string         `json:"month"`
	Jobs     map[string]Job `json:"jobs"`   // of the month
	Prices   Prices         `json:"prices"` // that it was computed with
	LeftOut  int            `json:"leftOut,omitempty"`
}

// Job is the cost of a job.
type Job struct {
	Operations int64  `json:"operations"`
	Amount     string `json:"amount"`
	Today      Today  `json:"today"`
	Modelled   bool   `json:"modelled,omitempty"` // the operations are an estimate
}

// Today is the share of today in the cost of a job.
type Today struct {
	Operations int64  `json:"operations"`
	Amount     string `json:"amount"`
}

// Prices identifies a table of prices.
type Prices struct {
	Name       string `json:"name"`
	Date       string `json:"date"`
	Region     string `json:"region"`
	Redundancy string `json:"redundancy"`
}

// Host is the work of a Functions host for the app: it receives from queues,
// and runs timers.
type Host struct {
	Queues, Timers int
	EachMinute     int // of the timers; the others sweep
}

// Price returns the bill of a month. The operations that Azure includes in a
// month are subtracted from the days before today first.
func (m Month) Price(prices cost.Prices, host Host) (Bill, error) {
	var untilToday, all []cost.Line
	for day, u := range m.Days {
		lines := u.Lines(host)
		if all = append(all, lines...); day != m.Today {
			untilToday = append(untilToday, lines...)
		}
	}
	month, err := prices.Price(all)
	if err != nil {
		return Bill{}, fmt.Errorf("price the bill: %w", err)
	}
	before, err := prices.Price(untilToday)
	if err != nil {
		return Bill{}, fmt.Errorf("price the bill: %w", err)
	}
	b := Bill{
		Currency: prices.Currency, Today: decimal(month.Total - before.Total), Month: decimal(month.Total), Jobs: make(map[string]Job),
		Prices:  Prices{cmp.Or(prices.Name, "unnamed"), prices.Date, prices.Region, prices.Redundancy},
		LeftOut: m.LeftOut,
	}
	until, sums := sumsOf(before.Lines), sumsOf(month.Lines)
	for name, s := range sums {
		today := Today{max(0, whole(s.count)-whole(until[name].count)), decimal(s.amount - until[name].amount)}
		b.Jobs[name] = Job{whole(s.count), decimal(s.amount), today, s.modelled}
	}
	return b, nil
}

// sum is the sum of the lines of a job.
type sum struct {
	count, amount float64
	modelled      bool
}

func sumsOf(lines []cost.Priced) map[string]sum {
	sums := make(map[string]sum)
	for _, l := range lines {
		s := sums[l.Job]
		s.amount += l.Amount
		s.count += cost.Total([]cost.Line{l.Line})
		s.modelled = s.modelled || l.Modelled
		sums[l.Job] = s
	}
	return sums
}

// whole rounds a number of operations, of which estimates are not whole.
func whole(count float64) int64 { return int64(count + 0.5) }

// decimal formats an amount: an operation costs millionths.
func decimal(amount float64) string { return strconv.FormatFloat(max(0, amount), 'f', 6, 64) }

// Lines returns the operations: those that were counted, and those of a
// Functions host, which are modelled. The host reads queues from the first to
// the last process of the day; without one, nothing is known of it. A message
// that waited at a closed gate is one that was delivered, and the app counted
// the copy that it put back.
func (u Usage) Lines(host Host) (lines []cost.Line) {
	for o, n := range u.Operations {
		l := cost.Line{Job: cmp.Or(o.Job, "other"), Service: o.Service, Operation: o.Name, Count: float64(n)}
		if !l.HasPrice() { // of a newer build
			if l.Operation = "other"; !l.HasPrice() {
				continue
			}
		}
		lines = append(lines, l)
	}
	lines = append(lines, cost.HostMessages(float64(u.Messages))...)
	if hours := u.Hosted.hours(); hours > 0 {
		idle := cost.HostIdle(float64(host.Queues), float64(host.Timers), u.HostedHours/hours)
		idle = append(idle, cost.HostEachMinute(float64(host.EachMinute))...)
		for _, l := range idle {
			l.Count *= hours
			lines = append(lines, l)
		}
	}
	if hours := u.Bus.hours(); hours > 0 {
		lines = append(lines, cost.BusCharge(hours))
	}
	return lines
}
