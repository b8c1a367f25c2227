package devbus

import (
	"encoding/xml"
	"fmt"
	"slices"
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
	MaxMessageSizeInKilobytes           *int64
	RequiresDuplicateDetection          *bool
	RequiresSession                     *bool
	DefaultMessageTimeToLive            *isoDuration
	DeadLetteringOnMessageExpiration    *bool
	DuplicateDetectionHistoryTimeWindow *isoDuration
	MaxDeliveryCount                    *int32
	AutoDeleteOnIdle                    *isoDuration
	EnablePartitioning                  *bool
	Status                              *Status

	ineffective
	unsupported
	runtimeDescription
}

// ineffective holds elements that are stored and shown, but have no effect.
type ineffective struct {
	EnableBatchedOperations                   *bool
	EnableExpress                             *bool
	SupportOrdering                           *bool
	UserMetadata                              *string
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
	accessed := e.accessed
	if kind == kindSub && accessed.IsZero() {
		accessed = e.created
	}
	d.CreatedAt, d.UpdatedAt, d.AccessedAt = showTime(e.created), showTime(e.updated), showTime(accessed)
	show(&d.EnableBatchedOperations, true)
	if kind == kindSub {
		show(&d.DeadLetteringOnFilterEvaluationExceptions, true)
	} else {
		show(&d.EnableExpress, false)
		show(&d.SupportOrdering, !s.partitioned)
		d.EnablePartitioning = &s.partitioned
		d.MaxSizeInMegabytes = new(s.MaxBytes >> 20)
		d.MaxMessageSizeInKilobytes = new(s.MaxMessageBytes >> 10)
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

func showTime(t time.Time) string {
	if t.IsZero() {
		return "0001-01-01T00:00:00"
	}
	return t.UTC().Format(atomTime)
}

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
func (d *description) settings(old *Settings, premium bool) (Settings, error) {
	s, err := d.fixed(old)
	if err != nil {
		return s, err
	}
	if s.partitioned && premium {
		return s, refuse("Partitioning is not supported in a Premium namespace")
	}
	if s.MaxBytes, err = d.maxBytes(old, s.partitioned, premium); err != nil {
		return s, err
	}
	if s.MaxMessageBytes, err = d.maxMessageBytes(old, premium); err != nil {
		return s, err
	}
	if w := d.DuplicateDetectionHistoryTimeWindow; w != nil && s.DuplicateWindow > 0 {
		s.DuplicateWindow = time.Duration(*w)
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

// fixed returns the settings that cannot be changed, or an error if the
// description changes one.
func (d *description) fixed(old *Settings) (Settings, error) {
	var s Settings
	if old != nil {
		s.RequiresSession, s.DuplicateWindow, s.partitioned = old.RequiresSession, old.DuplicateWindow, old.partitioned
	}
	duplicates := s.DuplicateWindow > 0
	set(&s.RequiresSession, d.RequiresSession)
	set(&duplicates, d.RequiresDuplicateDetection)
	set(&s.partitioned, d.EnablePartitioning)
	kind := strings.TrimSuffix(d.XMLName.Local, "Description")
	switch {
	case old == nil && duplicates:
		s.DuplicateWindow = 10 * time.Minute
	case old == nil:
	case s.RequiresSession != old.RequiresSession:
		return s, refuse("The value for the RequiresSession property of an existing %s cannot be changed", kind)
	case duplicates != (old.DuplicateWindow > 0):
		return s, refuse("The value for the RequiresDuplicateDetection property of an existing %s cannot be changed", kind)
	case s.partitioned != old.partitioned:
		return s, refuse("Partitioning cannot be changed for %s", kind)
	}
	return s, nil
}

// refusal is the reason why a description is invalid, in the words of the
// service.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// partitions is how many times its size a partitioned entity has.
const partitions = 16

// maxSizes are the sizes that an entity can have, in MB. Those above 5120 need
// a premium namespace.
var maxSizes = []int64{1024, 2048, 3072, 4096, 5120, 10240, 20480, 40960, 81920}

// maxBytes returns the described size of the entity, or 0 for the default.
func (d *description) maxBytes(old *Settings, partitioned, premium bool) (int64, error) {
	size := maxSizes[0]
	set(&size, d.MaxSizeInMegabytes)
	if old != nil && size == old.MaxBytes>>20 {
		return old.MaxBytes, nil // already multiplied
	}
	sizes := maxSizes
	if !premium {
		sizes = sizes[:5]
	}
	if !slices.Contains(sizes, size) {
		values := strings.ReplaceAll(strings.Trim(fmt.Sprint(sizes), "[]"), " ", ";")
		return 0, refuse("The specified value %d is invalid. The property 'MaxSizeInMegabytes', must be one of the following values: %s", size, values)
	}
	if partitioned {
		size *= partitions
	}
	return size << 20, nil
}

// maxMessageBytes returns the described size of a message, or 0 for the
// default.
func (d *description) maxMessageBytes(old *Settings, premium bool) (int64, error) {
	size := d.MaxMessageSizeInKilobytes
	switch {
	case size == nil:
		return 0, nil
	case old != nil && *size == old.MaxMessageBytes>>10:
		return old.MaxMessageBytes, nil
	case premium && (*size < 1024 || *size > 102400):
		return 0, refuse("The property value for 'MaxMessageSizeInKilobytes' must be between 1024 and 102400 when the namespace is using 'Premium' tier")
	case !premium && *size != 256:
		return 0, refuse("Bad Request. The property 'MaxMessageSizeInKilobytes' can be set only in a Premium namespace")
	}
	return *size << 10, nil
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
