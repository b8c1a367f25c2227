package scale

import (
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // so that the zones of windows do not depend on the machine
)

const maxLead = 4 * time.Hour

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} // in the order of time.Weekday

// window requires instances at times of the wall clock of a zone: on the days
// when a peak is expected, from a time to another one, after midnight if that is
// not later. A time that a day of the zone skips or repeats is skipped or
// repeated.
type window struct {
	Days      []string  `json:"days,omitempty"` // default: each day
	From      timeOfDay `json:"from"`
	To        timeOfDay `json:"to"`
	Zone      zone      `json:"zone"`           // an IANA name; default UTC
	Lead      duration  `json:"lead,omitempty"` // how long before the instances are requested
	Instances int       `json:"instances"`
}

// check returns the faults of the window.
func (w *window) check(maxOfRules int) (faults []string) {
	for i, day := range w.Days {
		if !slices.Contains(weekdays, day) || slices.Contains(w.Days[:i], day) {
			faults = append(faults, fmt.Sprintf("days has %.20q; use each of mon, tue, wed, thu, fri, sat, sun once at most", day))
		}
	}
	if w.From == w.To || !w.From.set || !w.To.set {
		faults = append(faults, "from and to are missing or the same; use two different times, such as \"07:30\" and \"09:00\"")
	}
	if !w.Lead.within(0, maxLead) {
		faults = append(faults, fmt.Sprintf("lead is %s; use 0s to %s", w.Lead, short(maxLead)))
	}
	if w.Instances < 1 || w.Instances > maxOfRules {
		faults = append(faults, fmt.Sprintf("instances is %d; use 1 to max, which is %d", w.Instances, maxOfRules))
	}
	return faults
}

// open reports whether the wall clock shows a time of the window, without its
// lead.
func (w *window) open(at time.Time) bool {
	local := at.In(w.Zone.location())
	minute := local.Hour()*60 + local.Minute()
	on := func(day time.Weekday) bool {
		return len(w.Days) == 0 || slices.Contains(w.Days, weekdays[day])
	}
	today, yesterday := local.Weekday(), (local.Weekday()+6)%7
	if w.From.minute < w.To.minute {
		return on(today) && minute >= w.From.minute && minute < w.To.minute
	}
	return on(today) && minute >= w.From.minute || on(yesterday) && minute < w.To.minute
}

// opens reports whether the window, with its lead, is open now or within a time.
func (w *window) opens(now time.Time, within time.Duration) bool {
	end := now.Add(within + time.Duration(w.Lead))
	for at := now; !at.After(end); at = at.Add(time.Minute) {
		if w.open(at) {
			return true
		}
	}
	return w.open(end)
}

// timeOfDay is a time of the wall clock, such as "07:30", or "24:00" for the end
// of the day.
type timeOfDay struct {
	minute int
	set    bool
}

func (t timeOfDay) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%02d:%02d", t.minute/60, t.minute%60), nil
}

func (t *timeOfDay) UnmarshalText(text []byte) error {
	if string(text) == "24:00" {
		*t = timeOfDay{24 * 60, true}
		return nil
	}
	parsed, err := time.Parse("15:04", string(text))
	if err != nil || len(text) != 5 {
		return fmt.Errorf("%.20q is not a time of day such as \"07:30\"", text)
	}
	*t = timeOfDay{parsed.Hour()*60 + parsed.Minute(), true}
	return nil
}

// zone is a time zone by its name.
type zone struct{ at *time.Location }

func (z zone) location() *time.Location {
	if z.at == nil {
		return time.UTC
	}
	return z.at
}

func (z zone) MarshalText() ([]byte, error) { return []byte(z.location().String()), nil }

func (z *zone) UnmarshalText(text []byte) error {
	at, err := time.LoadLocation(string(text))
	if err != nil || len(text) == 0 || strings.EqualFold(string(text), "local") { // which each machine has its own of
		return fmt.Errorf("%.50q is not a time zone such as \"Europe/Berlin\"", text)
	}
	z.at = at
	return nil
}
