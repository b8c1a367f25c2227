package customhandler

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Metadata is what the host sends beside an invocation's data. Do not rely on
// it: a property of the payload replaces the host's value of the same name, in
// any case.
type Metadata map[string]json.RawMessage

// Text returns a value as text, without the quotes that the host adds; "" if it
// is missing. It ignores the case of the name.
func (m Metadata) Text(name string) string {
	raw, ok := lookup(m, name)
	if !ok || isNull(raw) {
		return ""
	}
	return textOf(raw)
}

// Int returns a value as a number; 0 if it is missing or not an integer. Hosts
// send numbers as 1, "1" and "\"1\"".
func (m Metadata) Int(name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(m.Text(name)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Time returns a value as a time in UTC; the zero time if it is missing or not
// a time.
func (m Metadata) Time(name string) time.Time { return parseTime(m.Text(name)) }

// parseTime reads the two forms that .NET writes: with an offset, and without
// one, which means UTC. Year 1 means never in .NET, at any offset, and gives the
// zero time.
func parseTime(text string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			if t = t.UTC(); t.Year() <= 1 {
				return time.Time{}
			}
			return t
		}
	}
	return time.Time{}
}

// QueueMessage is a storage queue message of a queue trigger. Rely on Text
// only: a payload may have replaced the other fields (see Metadata), and if an
// administrator runs the function they are zero, or times in the year 9999.
type QueueMessage struct {
	Text         string // as the sender sent it, the queue's base64 removed; base64 if dataType is "binary"
	ID           string
	PopReceipt   string // stale after five minutes; never delete the message with it
	DequeueCount int64
	Inserted     time.Time
	Expires      time.Time
	NextVisible  time.Time
	Metadata     Metadata // as received; Trigger ignores it
}

func decodeQueue(e Envelope, binding string) (QueueMessage, error) {
	raw, err := e.data(binding)
	if err != nil {
		return QueueMessage{}, err
	}
	md := Metadata(e.Metadata)
	return QueueMessage{
		Text:         textOf(raw),
		ID:           md.Text("Id"),
		PopReceipt:   md.Text("PopReceipt"),
		DequeueCount: md.Int("DequeueCount"),
		Inserted:     md.Time("InsertionTime"),
		Expires:      md.Time("ExpirationTime"),
		NextVisible:  md.Time("NextVisibleTime"),
		Metadata:     md,
	}, nil
}

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
