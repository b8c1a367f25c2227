package schedule

import (
	"strconv"
	"strings"
	"time"
)

// Host returns a schedule of the Functions host, in UTC, that has all slots and
// perhaps more. The host has six fields, requires both of the days, and knows no
// zones.
func (s *Schedule) Host() string {
	if s.every > 0 {
		return hostEvery(int64(s.every / time.Second))
	}
	second, minute, hour, day, month, weekday := s.second, s.minute, s.hour, s.day, s.month, s.weekday
	if s.either {
		day, weekday = fields[3].all(), 1<<7-1
	}
	if s.zone != time.UTC {
		// Zones are whole quarters of an hour away from UTC, and change their
		// clocks then.
		minute |= 1 | 1<<15 | 1<<30 | 1<<45
		for range 3 {
			minute |= (minute<<15 | minute>>45) & fields[1].all()
		}
		second |= 1
		hour, day, month, weekday = allHours, fields[3].all(), fields[4].all(), 1<<7-1
	}
	week := fields[5]
	week.max = 6
	return strings.Join([]string{
		fields[0].text(second), fields[1].text(minute), fields[2].text(hour), fields[3].text(day), fields[4].text(month), week.text(weekday),
	}, " ")
}

// hostEvery returns the longest regular schedule of the host that has all
// multiples of so many seconds.
func hostEvery(seconds int64) string {
	if unit := divisor(seconds, 60); unit < 60 {
		return stepText(unit) + " * * * * *"
	}
	if unit := divisor(seconds/60, 60); unit < 60 {
		return "0 " + stepText(unit) + " * * * *"
	}
	if unit := divisor(seconds/3600, 24); unit < 24 {
		return "0 0 " + stepText(unit) + " * * *"
	}
	return "0 0 0 * * *"
}

func stepText(step int64) string {
	if step == 1 {
		return "*"
	}
	return "*/" + strconv.FormatInt(step, 10)
}

// divisor returns the greatest common divisor.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// text returns a set as a field.
func (f field) text(set uint64) string {
	if set == f.all() {
		return "*"
	}
	var values []string
	for value := f.min; value <= f.max; value++ {
		if set&(1<<value) != 0 {
			values = append(values, strconv.Itoa(value))
		}
	}
	return strings.Join(values, ",")
}
