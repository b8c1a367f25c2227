package observe

import (
	"time"

	"kennel/internal/instances"
)

// BacklogItem is what waits for an entity.
type BacklogItem struct {
	Messages      int64     `json:"messages"`
	OldestSeconds float64   `json:"oldestSeconds"`
	More          bool      `json:"more"` // the backlog has more messages than the sample, of this entity or others
	At            time.Time `json:"at"`
}

// RelayStatus is the relay in the status.
type RelayStatus struct {
	FailedOver int          `json:"failedOver"` // queues and topics, of the process that has the most
	Backlog    *BacklogItem `json:"backlog"`    // of all queues and topics; nil: it was not sampled
}

// FailedOverSection counts the queues and topics whose messages a process sends
// to the backlog.
var FailedOverSection = instances.One[int]("failedOver", nil)

// relayStatusOf sums up what processes report, without their entities: there
// may be hundreds, and a status has little time to read them.
func relayStatusOf(reports []instances.Report) *RelayStatus {
	s := &RelayStatus{}
	for _, r := range reports {
		s.FailedOver = max(s.FailedOver, FailedOverSection.Of(r))
	}
	if b := NewestBacklog(reports); b != nil {
		s.Backlog = &BacklogItem{More: b.More, At: b.At.UTC()}
		for _, e := range b.Entities {
			s.Backlog.Messages += e.Messages
			s.Backlog.OldestSeconds = max(s.Backlog.OldestSeconds, e.OldestSeconds)
		}
	}
	return s
}

// NewestBacklog returns the newest sample, or nil without one.
func NewestBacklog(reports []instances.Report) (newest *instances.Backlog) {
	for _, r := range reports {
		if b := instances.BacklogSection.Of(r); b != nil && (newest == nil || b.At.After(newest.At)) {
			newest = b
		}
	}
	return newest
}

// ReportsOf returns the reports of instances.
func ReportsOf(all []instances.Instance) []instances.Report {
	reports := make([]instances.Report, len(all))
	for i := range all {
		reports[i] = all[i].Report
	}
	return reports
}
