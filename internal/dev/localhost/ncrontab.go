package localhost

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// errNever reports a valid schedule without an occurrence, such as 30 February.
var errNever = errors.New("this schedule never occurs")

// A schedule is the schedule of a timer: NCRONTAB fields or a fixed interval
// between runs.
//
// NCRONTAB is not Unix cron. Seconds come first (five fields mean second 0),
// Sunday is 0 and 7 is an error, and a day must satisfy both the day-of-month
// and the day-of-week field. Times are UTC.
type schedule struct {
	every time.Duration // the interval; zero: the fields are used

	second, minute, hour, day, month, weekday fieldSet
}

// fieldSet has one bit per allowed value of a field.
type fieldSet uint64

func (s fieldSet) has(value int) bool { return s&(1<<value) != 0 }

// cronField is the range of one field. Names are for the values from min on and
// may be shortened to any prefix. The first match counts: "Mon", "m" and
// "MONDAY" are 1, but "T" is Tuesday.
type cronField struct {
	name     string
	min, max int
	names    []string
}

// cronFields are the six fields in the order in which they are written.
func cronFields() []cronField {
	return []cronField{
		{name: "second", min: 0, max: 59},
		{name: "minute", min: 0, max: 59},
		{name: "hour", min: 0, max: 23},
		{name: "day", min: 1, max: 31},
		{name: "month", min: 1, max: 12, names: []string{"January", "February", "March", "April", "May", "June",
			"July", "August", "September", "October", "November", "December"}},
		{name: "day-of-week", min: 0, max: 6, names: []string{"Sunday", "Monday", "Tuesday", "Wednesday",
			"Thursday", "Friday", "Saturday"}},
	}
}

// parseSchedule reads a timer's schedule: five or six NCRONTAB fields, or a
// TimeSpan such as "00:05:00". It returns errNever for a schedule without an
// occurrence.
func parseSchedule(text string) (schedule, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' })
	switch len(words) {
	case 1:
		every, err := parseTimeSpan(words[0])
		if err != nil {
			return schedule{}, fmt.Errorf("schedule %q is neither six NCRONTAB fields nor a time span hh:mm:ss", text)
		}
		if every <= 0 {
			return schedule{}, fmt.Errorf("schedule %q: an interval must be longer than zero", text)
		}
		return schedule{every: every}, nil
	case 5:
		words = append([]string{"0"}, words...)
	case 6:
	default:
		return schedule{}, fmt.Errorf("schedule %q has %d fields: NCRONTAB has six, {second} {minute} {hour} {day} {month} {day-of-week}",
			text, len(words))
	}

	var s schedule
	sets := []*fieldSet{&s.second, &s.minute, &s.hour, &s.day, &s.month, &s.weekday}
	for i, field := range cronFields() {
		for item := range strings.SplitSeq(words[i], ",") {
			set, err := field.parse(item)
			if err != nil {
				return schedule{}, fmt.Errorf("schedule %q, field %s: %w", text, field.name, err)
			}
			*sets[i] |= set
		}
	}
	if _, ok := s.next(time.Now()); !ok {
		return schedule{}, fmt.Errorf("schedule %q: %w", text, errNever)
	}
	return s, nil
}

// parse reads one item of a field's list: *, n, n-m, each with an optional
// /step. "n/step" runs from n to the end of the field; a reversed range is
// swapped ("Fri-Mon" is Mon-Fri, not a weekend); a step below one is treated as
// one. All three match the host's parser.
func (f cronField) parse(item string) (fieldSet, error) {
	span, stepText, hasStep := strings.Cut(item, "/")
	step := 1
	if hasStep {
		n, err := strconv.Atoi(stepText)
		if err != nil {
			return 0, fmt.Errorf("%q is not a step", stepText)
		}
		step = min(max(n, 1), 60) // beyond any field: only the first value
	}

	first, last := f.min, f.max
	if span != "*" {
		from, to, isRange := strings.Cut(span, "-")
		var err error
		if first, err = f.value(from); err != nil {
			return 0, err
		}
		switch {
		case isRange:
			if last, err = f.value(to); err != nil {
				return 0, err
			}
		case !hasStep:
			last = first
		}
	}

	var set fieldSet
	for value := min(first, last); value <= max(first, last); value += step {
		set |= 1 << value
	}
	return set, nil
}

// value reads one number or name.
func (f cronField) value(text string) (int, error) {
	if n, err := strconv.Atoi(text); err == nil && text[0] >= '0' && text[0] <= '9' {
		if n < f.min || n > f.max {
			return 0, fmt.Errorf("%d is not between %d and %d", n, f.min, f.max)
		}
		return n, nil
	}
	for i, name := range f.names {
		if text != "" && len(text) <= len(name) && strings.EqualFold(name[:len(text)], text) {
			return f.min + i, nil
		}
	}
	return 0, fmt.Errorf("%q is not a value", text)
}

// next returns the first occurrence after the given time, in UTC, and false if
// there is none. It searches 400 years, after which the calendar repeats.
func (s schedule) next(after time.Time) (time.Time, bool) {
	after = after.UTC()
	if s.every > 0 {
		return after.Add(s.every), true
	}
	t := after.Truncate(time.Second).Add(time.Second)
	for end := t.AddDate(400, 0, 0); t.Before(end); {
		switch {
		case !s.month.has(int(t.Month())):
			t = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.day.has(t.Day()) || !s.weekday.has(int(t.Weekday())):
			t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
		case !s.hour.has(t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !s.minute.has(t.Minute()):
			t = t.Truncate(time.Minute).Add(time.Minute)
		case !s.second.has(t.Second()):
			t = t.Add(time.Second)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

// underAMinute reports whether the schedule has more than one occurrence in the
// next minute. The host keeps no status for such a schedule.
func (s schedule) underAMinute(now time.Time) bool {
	if s.every > 0 {
		return s.every < time.Minute
	}
	first, _ := s.next(now)
	second, ok := s.next(first)
	return ok && second.Before(now.Add(time.Minute))
}
