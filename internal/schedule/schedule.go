// Package schedule reads the schedules of timers and computes their slots. It
// knows no clock.
//
// A schedule has five fields (minute, hour, day of the month, month, day of the
// week) or six (second first). A field is a list of values, ranges and steps:
// "0,30", "9-17", "*/10", "MON-FRI", "JAN". Sunday is 0 or 7. If both days are
// restricted, a slot needs one of them, as in crontab(5). "@every 10m" has slots
// that are multiples of its interval since the Unix epoch, so that all processes
// agree.
//
// Fields are of the clock of a zone. When it is changed, a time that does not
// exist is a slot at the end of the gap, and of a time that exists twice the
// first one is a slot. A schedule of all hours ("*") counts the hours that pass:
// it has no slot more after a gap, and its slots in both of the hours that are
// called the same.
package schedule

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // images of containers may have no zones
)

// Schedule is a set of times, the slots, in whole seconds. It has infinitely
// many.
type Schedule struct {
	every time.Duration // or:

	second, minute, hour, day, month, weekday uint64 // sets of bits
	either                                    bool   // day or weekday
	zone                                      *time.Location
}

// allHours are those of a schedule that counts the hours that pass.
const allHours = 1<<24 - 1

// minEvery is the shortest interval.
const minEvery = time.Second

// maxEvery is the longest interval: fields have longer ones.
const maxEvery = 366 * 24 * time.Hour

// Parse reads a schedule. zone is a name of the IANA database; "" is UTC.
func Parse(text, zone string) (*Schedule, error) {
	if zone == "Local" {
		return nil, fmt.Errorf(`the zone is "Local", which differs between machines: use a name as "Europe/Berlin"`)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf(`the zone %.80q is unknown: use a name as "Europe/Berlin"`, zone)
	}
	if interval, found := strings.CutPrefix(text, "@every "); found {
		if zone != "" && zone != "UTC" {
			return nil, fmt.Errorf("the schedule %.80q has no use for the zone %s: its slots are counted since the Unix epoch", text, zone)
		}
		return parseEvery(strings.TrimSpace(interval))
	}
	parts := strings.Fields(text)
	if len(parts) == 5 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 6 {
		return nil, fmt.Errorf(`the schedule %.80q has %d fields: use five (minute hour day month weekday), six (second first) or "@every 10m"`, text, len(strings.Fields(text)))
	}
	s := &Schedule{zone: location}
	for i, set := range []*uint64{&s.second, &s.minute, &s.hour, &s.day, &s.month, &s.weekday} {
		if *set, err = fields[i].parse(parts[i]); err != nil {
			return nil, fmt.Errorf("the schedule %.80q: %w", text, err)
		}
	}
	s.weekday = (s.weekday | s.weekday>>7) & (1<<7 - 1) // 7 is Sunday
	s.either = s.day != fields[3].all() && s.weekday != 1<<7-1
	if !s.exists() {
		return nil, fmt.Errorf("the schedule %.80q has no slot: none of its months has such a day", text)
	}
	return s, nil
}

func parseEvery(text string) (*Schedule, error) {
	every, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf(`the interval %.80q of @every is no duration: write it as "90s", "10m" or "1h30m"`, text)
	case every < minEvery || every > maxEvery:
		return nil, fmt.Errorf("the interval of @every is %v: use %v to %v", every, minEvery, maxEvery)
	case every%time.Second != 0:
		return nil, fmt.Errorf("the interval of @every is %v: use whole seconds", every)
	}
	return &Schedule{every: every}, nil
}

// exists reports whether one of the months has one of the days.
func (s *Schedule) exists() bool {
	if s.either || s.weekday != 1<<7-1 {
		return true // each weekday is in each month, and a day with both conditions is of either
	}
	for month := time.January; month <= time.December; month++ {
		longest := time.Date(2000, month+1, 0, 0, 0, 0, 0, time.UTC).Day() // a leap year
		if s.month&(1<<month) != 0 && s.day&(1<<(longest+1)-1) != 0 {
			return true
		}
	}
	return false
}

// Next returns the first slot after a time.
func (s *Schedule) Next(after time.Time) time.Time {
	switch {
	case s.every > 0:
		return s.multiple(after, 1)
	case s.hour != allHours:
		return instant(s.match(latest(after, s.zone).Add(time.Second), 1), s.zone)
	}
	for at := after.Truncate(time.Second).Add(time.Second); ; {
		_, end := at.In(s.zone).ZoneBounds()
		slot := at.Add(s.match(civil(at, s.zone), 1).Sub(civil(at, s.zone)))
		if end.IsZero() || slot.Before(end) {
			return slot.UTC()
		}
		at = end // the clock is changed before
	}
}

// Last returns the last slot that is not after a time.
func (s *Schedule) Last(until time.Time) time.Time {
	switch {
	case s.every > 0:
		return s.multiple(until, 0)
	case s.hour != allHours:
		return instant(s.match(latest(until, s.zone), -1), s.zone)
	}
	for at := until.Truncate(time.Second); ; {
		start, _ := at.In(s.zone).ZoneBounds()
		slot := at.Add(s.match(civil(at, s.zone), -1).Sub(civil(at, s.zone)))
		if start.IsZero() || !slot.Before(start) {
			return slot.UTC()
		}
		at = start.Add(-time.Second)
	}
}

// multiple returns the last multiple of the interval that is not after a time,
// or a later one.
func (s *Schedule) multiple(until time.Time, more int64) time.Time {
	seconds := int64(s.every / time.Second)
	n := until.Unix() / seconds
	if n*seconds > until.Unix() {
		n-- // before the epoch
	}
	return time.Unix((n+more)*seconds, 0).UTC()
}

// maxDays bounds the search for a slot: a 29th of February is at most eight
// years away.
const maxDays = 9 * 366

// match returns the first civil time from one on, or with step -1 the last one
// up to it, whose fields are those of the schedule.
func (s *Schedule) match(from time.Time, step int) time.Time {
	day := from.Truncate(24 * time.Hour)
	second := int(from.Sub(day) / time.Second)
	for range maxDays {
		if s.hasDay(day) {
			if found, ok := s.clock(second, step); ok {
				return day.Add(time.Duration(found) * time.Second)
			}
		}
		day = day.AddDate(0, 0, step)
		if second = 0; step < 0 {
			second = daySeconds - 1
		}
	}
	panic("schedule: no slot in years, although exists found one")
}

func (s *Schedule) hasDay(day time.Time) bool {
	inMonth, inWeek := s.day&(1<<day.Day()) != 0, s.weekday&(1<<day.Weekday()) != 0
	if s.month&(1<<day.Month()) == 0 {
		return false
	}
	if s.either {
		return inMonth || inWeek
	}
	return inMonth && inWeek
}

const daySeconds = 24 * 60 * 60

// clock returns the first second of a day from one on, or the last one up to it,
// that the schedule has.
func (s *Schedule) clock(from, step int) (second int, ok bool) {
	for at := from; at >= 0 && at < daySeconds; {
		unit := 1
		switch {
		case s.hour&(1<<(at/3600)) == 0:
			unit = 3600
		case s.minute&(1<<(at/60%60)) == 0:
			unit = 60
		case s.second&(1<<(at%60)) != 0:
			return at, true
		}
		if at -= at % unit; step > 0 {
			at += unit
		} else {
			at--
		}
	}
	return 0, false
}
