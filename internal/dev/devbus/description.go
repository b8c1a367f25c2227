package devbus

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// This file converts settings to the XML of the administration endpoint and
// back, and enforces the service's limits.

const (
	nsAtom    = "http://www.w3.org/2005/Atom"
	nsBus     = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
	nsCounts  = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
	nsSchema  = "http://www.w3.org/2001/XMLSchema-instance"
	atomTime  = "2006-01-02T15:04:05.0000000Z"
	kindQueue = "QueueDescription"
	kindTopic = "TopicDescription"
	kindSub   = "SubscriptionDescription"
)

// description is a QueueDescription, a TopicDescription or a
// SubscriptionDescription. A field is nil if the kind has no such element, or
// if the administrator did not set it.
type description struct {
	XMLName  xml.Name
	Instance string `xml:"xmlns:i,attr,omitempty"`

	LockDuration                        *isoDuration
	MaxSizeInMegabytes                  *int64
	RequiresDuplicateDetection          *bool
	RequiresSession                     *bool
	DefaultMessageTimeToLive            *isoDuration
	DeadLetteringOnMessageExpiration    *bool
	DuplicateDetectionHistoryTimeWindow *isoDuration
	MaxDeliveryCount                    *int32
	AutoDeleteOnIdle                    *isoDuration
	Status                              *Status

	ineffective
	unsupported
	runtimeDescription
}

// ineffective holds elements that are stored and shown, but have no effect.
type ineffective struct {
	EnableBatchedOperations                   *bool
	EnablePartitioning                        *bool
	EnableExpress                             *bool
	SupportOrdering                           *bool
	UserMetadata                              *string
	MaxMessageSizeInKilobytes                 *int64
	DeadLetteringOnFilterEvaluationExceptions *bool
	AuthorizationRules                        *rawXML
}

// unsupported holds elements that the broker rejects.
type unsupported struct {
	ForwardTo                     string `xml:",omitempty"`
	ForwardDeadLetteredMessagesTo string `xml:",omitempty"`
	DefaultRuleDescription        *struct {
		Filter struct {
			Type string `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
		}
		Action *struct {
			Type string `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
		}
	}
}

type runtimeDescription struct {
	SizeInBytes       *int64
	MessageCount      *int64
	CreatedAt         string `xml:",omitempty"`
	UpdatedAt         string `xml:",omitempty"`
	AccessedAt        string `xml:",omitempty"`
	CountDetails      *countDetails
	SubscriptionCount *int

	EntityAvailabilityStatus string `xml:",omitempty"`
}

type countDetails struct {
	Prefix             string `xml:"xmlns:d2p1,attr"`
	Active             int    `xml:"d2p1:ActiveMessageCount"`
	DeadLetter         int    `xml:"d2p1:DeadLetterMessageCount"`
	Scheduled          int    `xml:"d2p1:ScheduledMessageCount"`
	Transfer           int    `xml:"d2p1:TransferMessageCount"`
	TransferDeadLetter int    `xml:"d2p1:TransferDeadLetterMessageCount"`
}

type rawXML struct {
	XML string `xml:",innerxml"`
}

func (e *entity) describe(kind string) *description {
	s := e.settings
	maxSize := s.MaxBytes >> 20
	duplicates := s.DuplicateWindow > 0
	window := isoDuration(s.DuplicateWindow)
	if !duplicates {
		window = isoDuration(10 * time.Minute)
	}
	d := &description{
		XMLName:                  xml.Name{Space: nsBus, Local: kind},
		Instance:                 nsSchema,
		DefaultMessageTimeToLive: new(endless(s.TimeToLive)),
		AutoDeleteOnIdle:         new(endless(s.AutoDeleteOnIdle)),
		Status:                   &s.Status,
		ineffective:              e.ineffective,
	}
	d.EntityAvailabilityStatus = "Available"
	d.CreatedAt, d.UpdatedAt, d.AccessedAt = showTime(e.created), showTime(e.updated), showTime(e.accessed)
	show(&d.EnableBatchedOperations, true)
	if kind == kindSub {
		show(&d.DeadLetteringOnFilterEvaluationExceptions, true)
	} else {
		show(&d.EnablePartitioning, false)
		show(&d.EnableExpress, false)
		show(&d.SupportOrdering, true)
		d.MaxSizeInMegabytes = &maxSize
		d.RequiresDuplicateDetection = &duplicates
		d.DuplicateDetectionHistoryTimeWindow = &window
	}
	if kind != kindTopic {
		d.LockDuration = new(isoDuration(s.LockDuration))
		d.RequiresSession = &s.RequiresSession
		d.DeadLetteringOnMessageExpiration = &s.DeadLetterOnExpiry
		d.MaxDeliveryCount = &s.MaxDeliveryCount
	}
	return d
}

// show sets an element to its default if the administrator did not set it. Some
// SDKs require the element.
func show(element **bool, value bool) {
	if *element == nil {
		*element = &value
	}
}

func showTime(t time.Time) string { return t.UTC().Format(atomTime) }

func (q *queue) describe() *description {
	kind := kindQueue
	if q.topic != nil {
		kind = kindSub
	}
	d := q.entity.describe(kind)
	n := q.count()
	// The service counts locked and deferred messages as active, too.
	active := n.Ready + n.Locked + n.Deferred
	total := int64(active + n.Scheduled + n.DeadLetters)
	d.MessageCount = &total
	if q.topic == nil {
		d.SizeInBytes = new(q.size())
	}
	d.CountDetails = &countDetails{Prefix: nsCounts, Active: active, DeadLetter: n.DeadLetters, Scheduled: n.Scheduled}
	return d
}

func (t *topic) describe() *description {
	d := t.entity.describe(kindTopic)
	d.SizeInBytes, d.SubscriptionCount = new(t.size()), new(len(t.subscriptions))
	d.CountDetails = &countDetails{Prefix: nsCounts, Scheduled: len(t.scheduled)}
	return d
}

// settings returns the described settings, or an error if they are invalid. old
// are the settings of the entity that is updated, or nil for a new one.
func (d *description) settings(old *Settings) (Settings, error) {
	var s Settings
	if old != nil {
		s.RequiresSession, s.DuplicateWindow = old.RequiresSession, old.DuplicateWindow
	}
	session, duplicates := s.RequiresSession, s.DuplicateWindow > 0
	set(&session, d.RequiresSession)
	set(&duplicates, d.RequiresDuplicateDetection)
	if old != nil && (session != old.RequiresSession || duplicates != (old.DuplicateWindow > 0)) {
		return s, fmt.Errorf("RequiresSession and RequiresDuplicateDetection cannot be changed")
	}
	s.RequiresSession = session
	if duplicates && s.DuplicateWindow == 0 {
		s.DuplicateWindow = 10 * time.Minute
	}
	if w := d.DuplicateDetectionHistoryTimeWindow; w != nil && duplicates {
		s.DuplicateWindow = time.Duration(*w)
	}
	if d.MaxSizeInMegabytes != nil {
		s.MaxBytes = *d.MaxSizeInMegabytes << 20
	}
	set((*isoDuration)(&s.LockDuration), d.LockDuration)
	set((*isoDuration)(&s.TimeToLive), d.DefaultMessageTimeToLive)
	set((*isoDuration)(&s.AutoDeleteOnIdle), d.AutoDeleteOnIdle)
	set(&s.DeadLetterOnExpiry, d.DeadLetteringOnMessageExpiration)
	set(&s.MaxDeliveryCount, d.MaxDeliveryCount)
	set(&s.Status, d.Status)
	s.TimeToLive, s.AutoDeleteOnIdle = finite(s.TimeToLive), finite(s.AutoDeleteOnIdle)
	return s, d.check(s)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// check checks the described settings against the limits of the service.
func (d *description) check(s Settings) error {
	limits := []struct {
		name             string
		described        *isoDuration
		value, low, high time.Duration
	}{
		{"LockDuration", d.LockDuration, s.LockDuration, 5 * time.Second, 5 * time.Minute},
		{"DefaultMessageTimeToLive", d.DefaultMessageTimeToLive, s.TimeToLive, time.Second, forever},
		{"AutoDeleteOnIdle", d.AutoDeleteOnIdle, s.AutoDeleteOnIdle, 5 * time.Minute, forever},
		{"DuplicateDetectionHistoryTimeWindow", d.DuplicateDetectionHistoryTimeWindow, s.DuplicateWindow, 20 * time.Second, 7 * 24 * time.Hour},
	}
	for _, l := range limits {
		if l.described != nil && l.value != 0 && (l.value < l.low || l.value > l.high) {
			return fmt.Errorf("%s is %v: it must be between %v and %v", l.name, l.value, l.low, l.high)
		}
	}
	if d.MaxDeliveryCount != nil && s.MaxDeliveryCount < 1 {
		return fmt.Errorf("MaxDeliveryCount is %d: it must be at least 1", s.MaxDeliveryCount)
	}
	if d.MaxSizeInMegabytes != nil && *d.MaxSizeInMegabytes < 1 {
		return fmt.Errorf("MaxSizeInMegabytes is %d: it must be at least 1", *d.MaxSizeInMegabytes)
	}
	switch s.Status {
	case "", Active, Disabled, SendDisabled, ReceiveDisabled:
		return nil
	}
	return fmt.Errorf("unknown Status %q", s.Status)
}

// refused names an unsupported feature that the description requests, or "".
func (d *description) refused() string {
	rule := d.DefaultRuleDescription
	switch {
	case d.ForwardTo != "" || d.ForwardDeadLetteredMessagesTo != "":
		return "forwarding"
	case rule != nil && (rule.Filter.Type != "TrueFilter" || rule.Action != nil && rule.Action.Type != "EmptyRuleAction"):
		return "rules other than TrueFilter"
	}
	return ""
}

// isoDuration is a duration in ISO 8601, of days and smaller units.
type isoDuration time.Duration

var isoUnits = []struct {
	letter byte
	unit   time.Duration
	inTime bool // after the T
}{
	{'D', 24 * time.Hour, false}, {'H', time.Hour, true}, {'M', time.Minute, true}, {'S', time.Second, true},
}

// forever stands for durations that are too long for time.Duration.
const forever = time.Duration(math.MaxInt64)

// endlessText is the longest duration of .NET as the service encodes it.
const endlessText = "P10675199DT2H48M5.4775807S"

func endless(d time.Duration) isoDuration {
	if d == 0 {
		return isoDuration(forever)
	}
	return isoDuration(d)
}

func finite(d time.Duration) time.Duration {
	if d == forever {
		return 0
	}
	return d
}

func (d isoDuration) MarshalText() ([]byte, error) {
	if time.Duration(d) == forever {
		return []byte(endlessText), nil
	}
	if d == 0 {
		return []byte("PT0S"), nil
	}
	text := []byte("P")
	rest, inTime := time.Duration(d), false
	for _, u := range isoUnits {
		n := rest / u.unit
		if rest -= n * u.unit; n == 0 && (u.letter != 'S' || rest == 0) {
			continue
		}
		if u.inTime && !inTime {
			text, inTime = append(text, 'T'), true
		}
		text = strconv.AppendInt(text, int64(n), 10)
		if u.letter == 'S' && rest > 0 {
			fraction := strconv.FormatFloat(rest.Seconds(), 'f', -1, 64)
			text = append(text, fraction[1:]...) // without its leading zero
		}
		text = append(text, u.letter)
	}
	return text, nil
}

func (d *isoDuration) UnmarshalText(b []byte) error {
	text := string(b)
	rest, ok := strings.CutPrefix(text, "P")
	total, units, inTime := 0.0, 0, false
	for _, u := range isoUnits {
		if !inTime {
			rest, inTime = strings.CutPrefix(rest, "T")
		}
		number, after, found := strings.Cut(rest, string(u.letter))
		if !found || inTime != u.inTime {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || n < 0 {
			ok = false
		}
		total += n * float64(u.unit)
		rest, units = after, units+1
	}
	if !ok || rest != "" || units == 0 {
		return fmt.Errorf("%q is not a duration such as PT1M", text)
	}
	*d = isoDuration(forever)
	if total < float64(forever) {
		*d = isoDuration(math.Round(total))
	}
	return nil
}
