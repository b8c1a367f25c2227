package relay

import (
	"errors"
	"fmt"
	"time"
)

// The envelope is a set of application properties of a message in a backlog
// queue. The names with x-ms are those of paired namespaces in .NET; the types
// are ours, and no other type is accepted.
const (
	propPath      = "x-ms-path"                    // string: the entity
	propSession   = "x-ms-sessionid"               // string
	propTTL       = "x-ms-timetolive"              // int64: milliseconds, as it was sent
	propScheduled = "x-ms-scheduledenqueuetimeutc" // timestamp

	// The end of the time to live. Without it, the time in the backlog would
	// not count.
	propExpires = "x-kennel-expires" // timestamp

	// The absolute expiry time of AMQP. It would end the message in the backlog
	// queue.
	propAbsolute = "x-kennel-absolute-expiry" // timestamp
)

var envelopeNames = map[string]struct{}{propPath: {}, propSession: {}, propTTL: {}, propScheduled: {}, propExpires: {}, propAbsolute: {}}

// errExpired reports that the time to live of a message ended in the backlog.
var errExpired = errors.New("the time to live ended in the backlog")

// seal returns the copy of a checked message that goes to a backlog queue.
func seal(entity string, m *Message, now time.Time) *Message {
	c := clone(m)
	if c.ApplicationProperties == nil {
		c.ApplicationProperties = make(map[string]any)
	}
	properties := c.ApplicationProperties
	properties[propPath] = entity
	if session := c.Properties.GroupID; session != nil {
		properties[propSession], c.Properties.GroupID = *session, nil
	}
	enqueued := now
	if at, ok := annotation(c, ScheduledTime); ok {
		at := at.(time.Time)
		properties[propScheduled] = at
		deleteAnnotation(c, ScheduledTime)
		if at.After(now) {
			enqueued = at // from which Service Bus counts the time to live
		}
	}
	if ttl := c.Header.TTL; ttl > 0 {
		properties[propTTL], properties[propExpires], c.Header.TTL = ttl.Milliseconds(), enqueued.Add(ttl), 0
	}
	if at := c.Properties.AbsoluteExpiryTime; at != nil {
		properties[propAbsolute], c.Properties.AbsoluteExpiryTime = *at, nil
	}
	return c
}

// unseal returns the entity and the message for it, as it is to be sent now.
// The error is errExpired, or the envelope is missing or broken.
func unseal(sealed *Message, now time.Time) (entity string, m *Message, err error) {
	m = clone(sealed)
	deleteAnnotation(m, ScheduledTime) // of the backlog queue
	e := envelope{m.ApplicationProperties, nil}
	entity, _ = take[string](&e, propPath)
	session, hasSession := take[string](&e, propSession)
	ttl, hasTTL := take[int64](&e, propTTL)
	expires, hasExpires := take[time.Time](&e, propExpires)
	scheduled, hasScheduled := take[time.Time](&e, propScheduled)
	absolute, hasAbsolute := take[time.Time](&e, propAbsolute)
	switch {
	case e.err != nil:
		return "", nil, e.err
	case entity == "":
		return "", nil, fmt.Errorf("the property %q is missing", propPath)
	case CheckEntity(entity) != nil:
		return "", nil, fmt.Errorf("the property %q is not the path of an entity: %.300q", propPath, entity)
	case hasTTL != hasExpires:
		return "", nil, fmt.Errorf("one of the properties %q and %q is missing", propTTL, propExpires)
	case hasTTL && (ttl < 0 || ttl > maxTTL.Milliseconds()):
		return "", nil, fmt.Errorf("the property %q is out of range: %d", propTTL, ttl)
	}
	if len(m.ApplicationProperties) == 0 {
		m.ApplicationProperties = nil
	}
	if hasSession {
		m.Properties.GroupID = &session
	}
	later := hasScheduled && scheduled.After(now)
	if later {
		annotate(m, ScheduledTime, scheduled)
	}
	m.Header.TTL = 0
	if hasTTL {
		remaining := time.Duration(ttl) * time.Millisecond
		if !later {
			remaining = min(remaining, expires.Sub(now))
		}
		// Service Bus counts milliseconds, and 0 means no end.
		if m.Header.TTL = remaining.Truncate(time.Millisecond); m.Header.TTL <= 0 {
			return entity, m, errExpired
		}
	}
	if hasAbsolute {
		m.Properties.AbsoluteExpiryTime = &absolute
		if !absolute.After(now) {
			return entity, m, errExpired
		}
	}
	return entity, m, nil
}

// envelope collects the first error of several properties.
type envelope struct {
	properties map[string]any
	err        error
}

// take removes a property and returns its value.
func take[T any](e *envelope, name string) (T, bool) {
	var none T
	value, ok := e.properties[name]
	if !ok {
		return none, false
	}
	delete(e.properties, name)
	typed, ok := value.(T)
	if !ok && e.err == nil {
		e.err = fmt.Errorf("the property %q has the type %T instead of %T", name, value, none)
	}
	return typed, ok
}
