package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSlots: the slots of schedules after a time, in their zones.
func TestSlots(t *testing.T) {
	for _, tt := range []struct {
		schedule, zone, after string
		want                  []string
	}{
		{"0 6 * * *", "", "2026-01-31T06:00:00Z", []string{"2026-02-01T06:00:00Z", "2026-02-02T06:00:00Z"}},
		{"0 6 * * *", "", "2026-01-31T05:59:59.999Z", []string{"2026-01-31T06:00:00Z"}},
		{"*/20 9-10 * * MON-FRI", "", "2026-01-02T10:20:00Z", []string{"2026-01-02T10:40:00Z", "2026-01-05T09:00:00Z"}},
		{"10/25 * * * *", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T00:10:00Z", "2026-01-01T00:35:00Z", "2026-01-01T01:10:00Z"}},
		{"5,10 0 0 1 jan,Jul *", "", "2026-01-01T00:00:05Z", []string{"2026-01-01T00:00:10Z", "2026-07-01T00:00:05Z"}},
		{"0 0 29 2 *", "", "2096-02-29T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		{"0 0 13 * FRI", "", "2026-02-12T00:00:00Z", []string{"2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"}},
		{"0 0 30 2 SUN", "", "2026-02-01T00:00:00Z", []string{"2026-02-08T00:00:00Z"}},
		{"0 0 * * 7", "", "2026-02-01T00:00:00Z", []string{"2026-02-08T00:00:00Z"}},
		{"0 0 * * FRI-SUN", "", "2026-02-05T12:00:00Z", []string{"2026-02-06T00:00:00Z", "2026-02-07T00:00:00Z", "2026-02-08T00:00:00Z", "2026-02-13T00:00:00Z"}},
		{"@every 10m", "", "2026-01-01T00:03:00Z", []string{"2026-01-01T00:10:00Z", "2026-01-01T00:20:00Z"}},
		{"@every 7s", "", "1970-01-01T00:00:00Z", []string{"1970-01-01T00:00:07Z"}},
		{"@every 7s", "", "1969-12-31T23:59:59Z", []string{"1970-01-01T00:00:00Z"}},

		// Berlin: 02:00 to 03:00 does not exist on 29 March, and exists twice on 25 October.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"0,30 1-3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"}},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"0,30 2,3 * * *", "Europe/Berlin", "2026-10-25T00:10:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"}},
		{"0,30 2,3 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", []string{"2026-10-25T02:00:00Z"}},
		{"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"}},
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"}},
		{"0 12 * * *", "Australia/Lord_Howe", "2026-04-03T12:00:00Z", []string{"2026-04-04T01:00:00Z", "2026-04-05T01:30:00Z"}},                  // half an hour back
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", []string{"2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"}}, // the 30th does not exist
	} {
		s, err := Parse(tt.schedule, tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			next := s.Next(at)
			if got := next.Format(time.RFC3339Nano); got != want {
				t.Errorf("%q in %s after %v: %s, want %s", tt.schedule, tt.zone, at, got, want)
			}
			if last := s.Last(next); !last.Equal(next) {
				t.Errorf("%q in %s: the last slot until %v is %v", tt.schedule, tt.zone, next, last)
			}
			at = next
		}
	}
}

// TestMistakes: an error says what is wrong, and with which field.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct {
		schedule, zone string
		want           []string
	}{
		{"", "", []string{"has 0 fields", "@every"}},
		{"* * * *", "", []string{"has 4 fields"}},
		{"60 * * * *", "", []string{`"60" (minute)`, "0 to 59"}},
		{"* 24 * * *", "", []string{"(hour)", "0 to 23"}},
		{"* * 0 * *", "", []string{"(day of the month)", "1 to 31"}},
		{"* * * XYZ *", "", []string{"(month)", "JAN"}},
		{"* * * * FRY", "", []string{"(day of the week)", "MON"}},
		{"*/0 * * * *", "", []string{"(minute)", "step"}},
		{"*/-1 * * * *", "", []string{"step"}},
		{"30-10 * * * *", "", []string{"(minute)", "ends before it begins"}},
		{"1,,2 * * * *", "", []string{"(minute)"}},
		{"+1 * * * *", "", []string{"(minute)"}},
		{"0 0 30 2 *", "", []string{"no slot"}},
		{"0 0 31 4,6 *", "", []string{"no slot"}},
		{"@every", "", []string{"1 fields"}},
		{"@every soon", "", []string{"no duration"}},
		{"@every 500ms", "", []string{"use 1s"}},
		{"@every 1500ms", "", []string{"whole seconds"}},
		{"@every -1m", "", []string{"use 1s"}},
		{"0 6 * * *", "Mars/Olympus", []string{"Mars/Olympus", "Europe/Berlin"}},
		{"0 6 * * *", "Local", []string{"Local"}},
	} {
		_, err := Parse(tt.schedule, tt.zone)
		if err == nil {
			t.Errorf("%q in %q has no error", tt.schedule, tt.zone)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q in %q: %v; want %q in it", tt.schedule, tt.zone, err, want)
			}
		}
	}
}

// FuzzSlots: whatever is accepted has slots that follow each other, on whose
// fields the schedule agrees, and Next and Last are inverse. A slow search
// compares them.
func FuzzSlots(f *testing.F) {
	zones := []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"}
	for i, text := range []string{"* * * * *", "30 2 * * *", "0 0 29 2 *", "*/7 1-3 * * SUN", "59 59 23 31 12 5", "@every 17m", "0 0 13 * FRI", "*/90 0-2 * * *"} {
		f.Add(text, i, int64(1774746000)) // in March 2026
		f.Add(text, i, int64(1792890000)) // in October
		f.Add(text, i, int64(1325239200)) // when Apia lost a day
	}
	f.Fuzz(func(t *testing.T, text string, zone int, unix int64) {
		name := zones[uint(zone)%uint(len(zones))]
		s, err := Parse(text, name)
		if err != nil {
			return
		}
		at := time.Unix(unix%(1<<33), unix%7*1e6)
		for range 5 {
			next := s.Next(at)
			if !next.After(at) {
				t.Fatalf("%q in %q after %v: %v", text, name, at, next)
			}
			if got := s.Last(next); !got.Equal(next) {
				t.Fatalf("%q in %q: the last slot until %v is %v", text, name, next, got)
			}
			if got := s.Next(next.Add(-time.Nanosecond)); !got.Equal(next) {
				t.Fatalf("%q in %q: the slot after just before %v is %v", text, name, next, got)
			}
			last := s.Last(at)
			if last.After(at) || !s.Next(last).Equal(next) {
				t.Fatalf("%q in %q at %v: last %v, then %v, but next %v", text, name, at, last, s.Next(last), next)
			}
			at = next
		}
	})
}

// TestAllSlots compares the slots of the days on which clocks are changed with
// those that a slow search finds.
func TestAllSlots(t *testing.T) {
	for _, tt := range []struct{ zone, from string }{
		{"Europe/Berlin", "2026-03-28T00:00:00Z"}, {"Europe/Berlin", "2026-10-24T00:00:00Z"}, {"Australia/Lord_Howe", "2026-04-04T00:00:00Z"},
		{"Australia/Lord_Howe", "2026-10-03T00:00:00Z"}, {"Pacific/Apia", "2011-12-29T00:00:00Z"}, {"Africa/Casablanca", "2026-02-14T00:00:00Z"},
	} {
		for _, text := range []string{"*/10 0-22 * * *", "*/10 * * * *", "15 1-3 * * *", "45 23,0 * * *"} {
			s, err := Parse(text, tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			from, err := time.Parse(time.RFC3339, tt.from)
			if err != nil {
				t.Fatal(err)
			}
			end := from.Add(4 * 24 * time.Hour)
			var got []time.Time
			for at := s.Next(from); !at.After(end); at = s.Next(at) {
				got = append(got, at)
			}
			if want := s.slow(from, end); !slices.EqualFunc(got, want, time.Time.Equal) {
				t.Errorf("%q in %s from %v: %d slots\n%v\nwant %d\n%v", text, tt.zone, from, len(got), got, len(want), want)
			}
			var back []time.Time
			for at := s.Last(end); at.After(from); at = s.Last(at.Add(-time.Second)) {
				back = append(back, at)
			}
			if slices.Reverse(back); !slices.EqualFunc(back, got, time.Time.Equal) {
				t.Errorf("%q in %s: backwards %v", text, tt.zone, back)
			}
		}
	}
}

// slow looks at each minute: what the clock shows, and what it skipped just
// before.
func (s *Schedule) slow(from, end time.Time) (all []time.Time) {
	shown := make(map[string]bool)
	has := func(c time.Time) bool {
		return s.hasDay(c.Truncate(24*time.Hour)) && s.hour&(1<<c.Hour()) != 0 && s.minute&(1<<c.Minute()) != 0
	}
	before := civil(from.Add(-48*time.Hour), s.zone)
	for at := from.Add(-48 * time.Hour); !at.After(end); at = at.Add(time.Minute) {
		now := civil(at, s.zone)
		found := has(now) && (s.hour == allHours || !shown[now.String()])
		for c := before.Add(time.Minute); s.hour != allHours && c.Before(now); c = c.Add(time.Minute) {
			found = found || has(c)
		}
		shown[now.String()] = true
		if before = now; found && at.After(from) {
			all = append(all, at)
		}
	}
	return all
}

// TestHost: the host wakes the process at each slot.
func TestHost(t *testing.T) {
	for _, tt := range []struct{ schedule, zone, want string }{
		{"0 6 * * *", "", "0 0 6 * * *"},
		{"0 6 * * *", "UTC", "0 0 6 * * *"},
		{"*/20 9-10 * JAN MON-FRI", "", "0 0,20,40 9,10 * 1 1,2,3,4,5"},
		{"0 0 13 * 7", "", "0 0 0 * * *"},
		{"0 0 * * 7", "", "0 0 0 * * 0"},
		{"20 6 * * *", "Europe/Berlin", "0 0,5,15,20,30,35,45,50 * * * *"},
		{"@every 1s", "", "* * * * * *"}, {"@every 7s", "", "* * * * * *"}, {"@every 90s", "", "*/30 * * * * *"}, {"@every 10m", "", "0 */10 * * * *"},
		{"@every 7m", "", "0 * * * * *"}, {"@every 90m", "", "0 */30 * * * *"}, {"@every 6h", "", "0 0 */6 * * *"}, {"@every 48h", "", "0 0 0 * * *"},
	} {
		s, err := Parse(tt.schedule, tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Host(); got != tt.want {
			t.Errorf("%q in %q: the host has %q, want %q", tt.schedule, tt.zone, got, tt.want)
		}
		host, err := Parse(s.Host(), "")
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 3, 20, 0, 0, 0, 0, time.UTC)
		for range 1000 {
			if at = s.Next(at); !host.Last(at).Equal(at) {
				t.Fatalf("%q in %q has the slot %v, but the host's %q has not", tt.schedule, tt.zone, at, s.Host())
			}
		}
	}
}
