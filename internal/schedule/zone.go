package schedule

import "time"

// A civil time is what a clock on the wall shows, as a time in UTC.

// civil returns what the clock of a zone shows at an instant, in whole seconds.
func civil(at time.Time, zone *time.Location) time.Time {
	return asCivil(at, offset(at, zone))
}

func asCivil(at time.Time, offset int64) time.Time { return time.Unix(at.Unix()+offset, 0).UTC() }

// offset returns by how many seconds the clock of a zone is ahead of UTC.
func offset(at time.Time, zone *time.Location) int64 {
	_, seconds := at.In(zone).Zone()
	return int64(seconds)
}

// latest returns the latest civil time whose instant is not after at. While a
// clock that was set back shows the same times again, it is the last one that it
// showed before.
func latest(at time.Time, zone *time.Location) time.Time {
	now := civil(at, zone)
	start, _ := at.In(zone).ZoneBounds()
	if start.IsZero() {
		return now
	}
	before := start.Add(-time.Second)
	if shown := civil(before, zone); shown.After(now) {
		return shown
	}
	return now
}

// maxOffset is longer than any zone is away from UTC.
const maxOffset = 16 * time.Hour

// instant returns when a clock shows a civil time: of two instants the first
// one, and the end of the gap if it never does.
func instant(shown time.Time, zone *time.Location) time.Time {
	before, after := offset(shown.Add(-maxOffset), zone), offset(shown.Add(maxOffset), zone)
	first, second := asCivil(shown, -max(before, after)), asCivil(shown, -min(before, after))
	for _, at := range []time.Time{first, second} {
		if civil(at, zone).Equal(shown) {
			return at
		}
	}
	end, _ := second.In(zone).ZoneBounds()
	return end.UTC()
}
