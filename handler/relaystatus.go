package main

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"kennel/internal/instances"
	"kennel/relay"
)

func (f *relayFunctions) routes() []route {
	const function = "Relay"
	return []route{
		{function: "SendMessage", pattern: "POST /api/messages/{entity}", body: true, handler: http.HandlerFunc(f.send)},
		{function: function, pattern: "GET /api/relay", handler: serve(nil, func(r *http.Request) (reply, error) { return limited(r, f.list) })},
		{function: function, pattern: "POST /api/relay/syphon", handler: http.HandlerFunc(f.runSyphon)},
	}
}

// relayItem is a queue or topic in the answer.
type relayItem struct {
	Entity    string       `json:"entity"`
	State     string       `json:"state"` // the worst one of all instances
	Since     *time.Time   `json:"since"` // nil: no instance sends to it
	Throttled bool         `json:"throttled"`
	LastError string       `json:"lastError,omitempty"`
	Backlog   *backlogItem `json:"backlog"` // nil: the backlog was not sampled
}

// backlogItem is what waits for an entity.
type backlogItem struct {
	Messages      int64     `json:"messages"`
	OldestSeconds float64   `json:"oldestSeconds"`
	More          bool      `json:"more"` // the backlog has more messages than the sample, of this entity or others
	At            time.Time `json:"at"`
}

// list serves GET /api/relay.
func (f *relayFunctions) list(r *http.Request) (reply, error) {
	if f.sender == nil {
		return reply{}, errBusOff
	}
	others, known := f.members.live(r.Context(), instances.PartRelay, instances.PartBacklog)
	own := instances.Report{Relay: f.entities(), Backlog: f.backlog.latest()}
	answer := struct {
		Items   []relayItem `json:"items"`
		Partial bool        `json:"partial,omitempty"` // the other instances are not known
	}{joinRelay(append([]instances.Report{own}, reportsOf(others)...)), !known}
	return reply{status: http.StatusOK, body: answer}, nil
}

// states are those of entities, the worst one last.
var states = []string{relay.Healthy.String(), relay.Suspect.String(), relay.FailedOver.String()}

// sortEntities sorts entities, the worst ones first.
func sortEntities(all []instances.RelayEntity) {
	slices.SortFunc(all, func(a, b instances.RelayEntity) int {
		return cmp.Or(cmp.Compare(slices.Index(states, b.State), slices.Index(states, a.State)), strings.Compare(a.Entity, b.Entity))
	})
}

// joinRelay returns the entities that processes report, by name, with the newest
// sample of the backlog.
func joinRelay(reports []instances.Report) []relayItem {
	items := make(map[string]*relayItem)
	item := func(entity string) *relayItem {
		if items[entity] == nil {
			items[entity] = &relayItem{Entity: entity, State: states[0]}
		}
		return items[entity]
	}
	for _, r := range reports {
		for _, e := range r.Relay {
			i, rank := item(e.Entity), slices.Index(states, e.State)
			if rank < 0 {
				continue // a newer build has other states
			}
			i.Throttled = i.Throttled || e.Throttled
			worse := cmp.Compare(rank, slices.Index(states, i.State))
			if i.Since == nil || worse > 0 || worse == 0 && e.Since.Before(*i.Since) {
				since := e.Since.UTC()
				i.State, i.Since = e.State, &since
				i.LastError = e.LastError
			}
		}
	}
	if b := newestBacklog(reports); b != nil {
		for _, e := range b.Entities {
			item(e.Entity)
		}
		for _, i := range items {
			i.Backlog = &backlogItem{More: b.More, At: b.At.UTC()}
		}
		for _, e := range b.Entities {
			of := items[e.Entity].Backlog
			of.Messages, of.OldestSeconds = e.Messages, e.OldestSeconds
		}
	}
	all := make([]relayItem, 0, len(items))
	for _, i := range items {
		all = append(all, *i)
	}
	slices.SortFunc(all, func(a, b relayItem) int { return strings.Compare(a.Entity, b.Entity) })
	return all
}

// relayStatus is the relay in the status.
type relayStatus struct {
	FailedOver int          `json:"failedOver"` // queues and topics, of the process that has the most
	Backlog    *backlogItem `json:"backlog"`    // of all queues and topics; nil: it was not sampled
}

// relayStatusOf sums up what processes report, without their entities: there
// may be hundreds, and a status has little time to read them.
func relayStatusOf(reports []instances.Report) *relayStatus {
	s := &relayStatus{}
	for _, r := range reports {
		s.FailedOver = max(s.FailedOver, r.FailedOver)
	}
	if b := newestBacklog(reports); b != nil {
		s.Backlog = &backlogItem{More: b.More, At: b.At.UTC()}
		for _, e := range b.Entities {
			s.Backlog.Messages += e.Messages
			s.Backlog.OldestSeconds = max(s.Backlog.OldestSeconds, e.OldestSeconds)
		}
	}
	return s
}

// newestBacklog returns the newest sample, or nil without one.
func newestBacklog(reports []instances.Report) (newest *instances.Backlog) {
	for _, r := range reports {
		if r.Backlog != nil && (newest == nil || r.Backlog.At.After(newest.At)) {
			newest = r.Backlog
		}
	}
	return newest
}

func reportsOf(all []instances.Instance) []instances.Report {
	reports := make([]instances.Report, len(all))
	for i := range all {
		reports[i] = all[i].Report
	}
	return reports
}
