package customhandler

import (
	"encoding/json"
	"strconv"
	"time"
)

// Tick is one firing of a timer. Make the work idempotent per slot, and compute the slot from the clock: a tick may
// come late, twice or not at all around a restart of the host.
type Tick struct {
	PastDue      bool            // the one catch-up run at the start of a host that was down
	AdjustForDST bool            // true for a CRON schedule, false for an interval
	Schedule     *ScheduleStatus // nil when the host does not monitor the schedule
	Metadata     Metadata        // as received; ignored when an envelope is built
}

// ScheduleStatus is the host's memory of a schedule.
type ScheduleStatus struct {
	Last        time.Time // zero: never
	Next        time.Time
	LastUpdated time.Time
}

// wireTick is a tick as the host writes it. The values stay raw: nothing in a tick is worth failing it for.
type wireTick struct {
	Schedule struct {
		AdjustForDST json.RawMessage
	}
	ScheduleStatus map[string]json.RawMessage
	IsPastDue      json.RawMessage
}

// decodeTimer never fails: what it cannot read is as if the host had not said it. The firing itself is the message.
func decodeTimer(e Envelope, binding string) Tick {
	tick := Tick{Metadata: e.Metadata}
	raw, _ := lookup(e.Data, binding)
	var wire wireTick
	_ = json.Unmarshal([]byte(textOf(raw)), &wire) // a value of another type leaves its field empty and the rest read
	tick.PastDue = isTrue(wire.IsPastDue)
	tick.AdjustForDST = isTrue(wire.Schedule.AdjustForDST)
	if s := Metadata(wire.ScheduleStatus); s != nil {
		tick.Schedule = &ScheduleStatus{Last: s.Time("Last"), Next: s.Time("Next"), LastUpdated: s.Time("LastUpdated")}
	}
	return tick
}

// isTrue accepts true, "true" and .NET's "True".
func isTrue(raw json.RawMessage) bool {
	b, err := strconv.ParseBool(textOf(raw))
	return err == nil && b
}
