package localhost

import (
	"errors"
	"testing"
	"time"
)

func TestScheduleNext(t *testing.T) {
	tests := []struct {
		name, schedule, after, want string
	}{
		{"every five minutes", "0 */5 * * * *", "2026-01-02T03:04:05Z", "2026-01-02T03:05:00Z"},
		{"not the moment itself", "0 */5 * * * *", "2026-01-02T03:05:00Z", "2026-01-02T03:10:00Z"},
		{"but a moment after a fraction", "0 */5 * * * *", "2026-01-02T03:04:59.999999999Z", "2026-01-02T03:05:00Z"},
		{"five fields mean second 0", "30 2 * * *", "2026-01-02T03:04:05Z", "2026-01-03T02:30:00Z"},
		{"list and range", "5,10-12 0 0 * * *", "2026-01-02T00:00:10Z", "2026-01-02T00:00:11Z"},
		{"range with step", "10-20/5 * * * * *", "2026-01-02T00:00:16Z", "2026-01-02T00:00:20Z"},
		{"number with step runs to the end", "50/4 * * * * *", "2026-01-02T00:00:54Z", "2026-01-02T00:00:58Z"},
		{"step below one is one", "*/0 * * * * *", "2026-01-02T00:00:54Z", "2026-01-02T00:00:55Z"},
		{"names in any case", "0 0 9 * jAn MON", "2026-01-06T00:00:00Z", "2026-01-12T09:00:00Z"},
		{"long and short names", "0 0 0 * December Sunday", "2026-01-06T00:00:00Z", "2026-12-06T00:00:00Z"},
		{"ambiguous prefix is the first", "0 0 0 * * T", "2026-01-02T00:00:00Z", "2026-01-06T00:00:00Z"},
		{"0 is Sunday", "0 0 0 * * 0", "2026-01-02T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"backward range is turned round", "0 0 0 * * Fri-Mon", "2026-01-03T00:00:00Z", "2026-01-05T00:00:00Z"},
		{"both days must match", "0 0 0 13 * Fri", "2026-01-01T00:00:00Z", "2026-02-13T00:00:00Z"},
		{"end of month", "0 0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"leap day over a century", "0 0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"leap day on a weekday", "0 0 0 29 2 Mon", "2072-03-01T00:00:00Z", "2112-02-29T00:00:00Z"},
		{"blanks do not count", "  0  0 0 * * *  ", "2026-01-02T03:04:05Z", "2026-01-03T00:00:00Z"},
		{"other zones become UTC", "0 0 12 * * *", "2026-01-02T12:30:00+01:00", "2026-01-02T12:00:00Z"},
		{"interval", "00:05:00", "2026-01-02T03:04:05.5Z", "2026-01-02T03:09:05.5Z"},
		{"interval of days", "1.12:00:00", "2026-01-02T00:00:00Z", "2026-01-03T12:00:00Z"},
	}
	for _, tt := range tests {
		got, ok := must(parseSchedule(tt.schedule)).next(instant(tt.after))
		if !ok || got.Format(time.RFC3339Nano) != tt.want {
			t.Errorf("%s: next of %q after %s = %s, %v; want %s", tt.name, tt.schedule, tt.after, got.Format(time.RFC3339Nano), ok, tt.want)
		}
	}
}

func TestScheduleProblems(t *testing.T) {
	tests := []struct{ name, schedule, want string }{
		{"four fields", "* * * *", "has 4 fields"},
		{"seven fields", "* * * * * * *", "has 7 fields"},
		{"7 is not Sunday", "0 0 0 * * 7", "field day-of-week: 7 is not between 0 and 6"},
		{"second 60", "60 * * * * *", "field second: 60 is not"},
		{"day 0", "0 0 0 0 * *", "field day: 0 is not between 1 and 31"},
		{"month 13", "0 0 0 1 13 *", "field month: 13"},
		{"open range", "0 0 0 1- * *", `field day: "" is not a value`},
		{"empty list item", "0 1,,2 * * * *", `field minute: "" is not a value`},
		{"name where none is", "0 0 Mon * * *", `field hour: "Mon"`},
		{"unknown name", "0 0 0 * * Mondays", `"Mondays" is not a value`},
		{"step without number", "*/x * * * * *", `"x" is not a step`},
		{"negative", "-5 * * * * *", `"" is not a value`},
		{"a word", "hourly", "neither six NCRONTAB fields nor"},
		{"interval zero", "00:00:00", "longer than zero"},
		{"interval of a day as hours", "24:00:00", "neither"},
		{"never in February", "0 0 0 30 2 *", "never occurs"},
		{"never in short months", "0 0 0 31 2,4,6,9,11 *", "never occurs"},
	}
	for _, tt := range tests {
		_, err := parseSchedule(tt.schedule)
		expectError(t, tt.name, err, tt.want)
	}
	if _, err := parseSchedule("0 0 0 30 2 *"); !errors.Is(err, errNever) {
		t.Errorf("parse a schedule for 30 February: got %v, want errNever", err)
	}
}

func TestUnderAMinute(t *testing.T) {
	now := instant("2026-01-02T03:04:05Z")
	for text, want := range map[string]bool{
		"*/20 * * * * *": true,
		"0 * * * * *":    false,
		"0 0 * * * *":    false,
		"00:00:59":       true,
		"00:01:00":       false,
	} {
		if got := must(parseSchedule(text)).underAMinute(now); got != want {
			t.Errorf("%q more often than each minute: got %v, want %v", text, got, want)
		}
	}
}

func TestTimeSpan(t *testing.T) {
	tests := []struct {
		text string
		want time.Duration
		back string // how it is written again
	}{
		{"00:05:00", 5 * time.Minute, "00:05:00"},
		{"5:30", 5*time.Hour + 30*time.Minute, "05:30:00"},
		{"1.00:00:01", 24*time.Hour + time.Second, "1.00:00:01"},
		{"00:00:00.25", 250 * time.Millisecond, "00:00:00.2500000"},
		{"7", 7 * 24 * time.Hour, "7.00:00:00"},
		{"-00:00:30", -30 * time.Second, "-00:00:30"},
	}
	for _, tt := range tests {
		got, err := parseTimeSpan(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("parse %q: got %v, %v; want %v", tt.text, got, err, tt.want)
		}
		if back := formatTimeSpan(tt.want); back != tt.back {
			t.Errorf("format %v: got %q, want %q", tt.want, back, tt.back)
		}
	}
	for _, text := range []string{"", "five", "24:00:00", "00:60", "00:00:60", "00:00:00.", "1.2.00:00", "::", "1:2:3:4", "00:00:00.12345678", "--1", "99999999999"} {
		if d, err := parseTimeSpan(text); err == nil {
			t.Errorf("parse %q: got %v, want an error", text, d)
		}
	}
}

func instant(text string) time.Time { return must(time.Parse(time.RFC3339Nano, text)) }
