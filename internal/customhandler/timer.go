package customhandler

import (
	"encoding/json"
	"strconv"
	"time"
)

// Tick is one firing of a timer. Make the work idempotent per time slot, and
// compute the slot from the clock: around a restart of the host a tick may come
// late, twice or not at all.
type Tick struct {
	PastDue      bool            // the one run at the start of a host that missed firings
	AdjustForDST bool            // true for a CRON schedule, false for an interval
	Schedule     *ScheduleStatus // nil if the host does not monitor the schedule
	Metadata     Metadata        // as received; Trigger ignores it
}

// ScheduleStatus is what the host stores about a schedule.
type ScheduleStatus struct {
	Last        time.Time // zero: never
	Next        time.Time
	LastUpdated time.Time
}

// decodeTimer never fails: a value that it cannot read counts as missing,
// because the firing matters, and not what the host sends with it.
func decodeTimer(e Envelope, binding string) Tick {
	raw, _ := lookup(e.Data, binding)
	var wire struct {
		Schedule       struct{ AdjustForDST json.RawMessage }
		ScheduleStatus Metadata
		IsPastDue      json.RawMessage
	}
	_ = json.Unmarshal(objectOf(raw), &wire) // leaves a field of another type empty and reads the rest
	tick := Tick{PastDue: isTrue(wire.IsPastDue), AdjustForDST: isTrue(wire.Schedule.AdjustForDST), Metadata: e.Metadata}
	if s := wire.ScheduleStatus; s != nil {
		tick.Schedule = &ScheduleStatus{Last: s.Time("Last"), Next: s.Time("Next"), LastUpdated: s.Time("LastUpdated")}
	}
	return tick
}

// isTrue accepts true, "true" and .NET's "True".
func isTrue(raw json.RawMessage) bool {
	b, err := strconv.ParseBool(textOf(raw))
	return err == nil && b
}
