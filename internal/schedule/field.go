package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// field is a field of a schedule.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

var fields = [...]field{
	{"second", 0, 59, nil},
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	{"day of the week", 0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// all returns the set of all values.
func (f field) all() uint64 { return 1<<(f.max+1) - 1<<f.min }

// parse returns the set of the values of a field.
func (f field) parse(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		values, err := f.parsePart(part)
		if err != nil {
			return 0, fmt.Errorf("the field %q (%s): %w", text, f.name, err)
		}
		set |= values
	}
	return set, nil
}

func (f field) parsePart(part string) (set uint64, err error) {
	values, stepText, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.max {
			return 0, fmt.Errorf("the step %.20q is not 1 to %d", stepText, f.max)
		}
	}
	first, last := f.min, f.max
	if f.max == 7 {
		last = 6 // Sunday once
	}
	if values != "*" {
		firstText, lastText, isRange := strings.Cut(values, "-")
		if first, err = f.value(firstText); err != nil {
			return 0, err
		}
		switch {
		case isRange:
			if last, err = f.value(lastText); err != nil {
				return 0, err
			}
		case !stepped:
			last = first
		}
		if last == 0 && f.max == 7 && first > 0 {
			last = 7 // as in FRI-SUN
		}
		if first > last {
			return 0, fmt.Errorf("the range %.40q ends before it begins", values)
		}
	}
	for value := first; value <= last; value += step {
		set |= 1 << value
	}
	return set, nil
}

// value reads a number or a name.
func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max || text[0] == '+' || text[0] == '-' {
		if f.names != nil {
			return 0, fmt.Errorf("%.20q is not %d to %d, nor one of %s", text, f.min, f.max, strings.Join(f.names, ", "))
		}
		return 0, fmt.Errorf("%.20q is not %d to %d", text, f.min, f.max)
	}
	return n, nil
}
