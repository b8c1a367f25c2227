package localhost

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parseTimeSpan parses a .NET TimeSpan, as in host.json and timer schedules:
// "hh:mm", "hh:mm:ss", with an optional fraction of a second and optional days
// in front ("1.00:00:00"); a bare number is days.
func parseTimeSpan(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a time span: use hh:mm:ss, or d.hh:mm:ss from one day on", text)

	rest := strings.TrimSpace(text)
	rest, negative := strings.CutPrefix(rest, "-")

	days, clock, hasClock := "0", rest, strings.Contains(rest, ":")
	if !hasClock {
		days, clock = rest, "00:00"
	} else if dot, colon := strings.Index(rest, "."), strings.Index(rest, ":"); dot >= 0 && dot < colon {
		days, clock = rest[:dot], rest[dot+1:]
	}

	parts := strings.Split(clock, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, bad
	}
	seconds, fraction, hasFraction := "0", "", false
	if len(parts) == 3 {
		seconds, fraction, hasFraction = strings.Cut(parts[2], ".")
	}
	if hasFraction && (len(fraction) == 0 || len(fraction) > 7) {
		return 0, bad
	}

	var total time.Duration
	for _, unit := range []struct {
		digits string
		limit  uint64
		worth  time.Duration
	}{
		// .NET's own limit is about 10.6 million days; a time.Duration holds
		// 106,751.
		{days, 100_000, 24 * time.Hour},
		// .NET parses "24:00:00" as 24 days. That is never intended, so reject
		// it.
		{parts[0], 23, time.Hour},
		{parts[1], 59, time.Minute},
		{seconds, 59, time.Second},
		{(fraction + "000000000")[:9], 999_999_999, time.Nanosecond},
	} {
		n, err := strconv.ParseUint(unit.digits, 10, 64)
		if err != nil || n > unit.limit {
			return 0, bad
		}
		total += time.Duration(n) * unit.worth
	}
	if negative {
		total = -total
	}
	return total, nil
}

// formatTimeSpan formats a duration as the host's messages do:
// [d.]hh:mm:ss[.fffffff].
func formatTimeSpan(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	days := ""
	if n := d / (24 * time.Hour); n > 0 {
		days = strconv.FormatInt(int64(n), 10) + "."
	}
	text := fmt.Sprintf("%s%s%02d:%02d:%02d", sign, days,
		d/time.Hour%24, d/time.Minute%60, d/time.Second%60)
	if ticks := d % time.Second / 100; ticks > 0 {
		text += fmt.Sprintf(".%07d", ticks)
	}
	return text
}
