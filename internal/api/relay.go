package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/relay"
)

// RelayResource sends messages, and serves what is known of the relay.
type RelayResource struct {
	Relay   relayJob // nil without Service Bus
	Members *observe.Members
}

// relayJob is the relay of this process.
type relayJob interface {
	sender
	Entities() []instances.RelayEntity // those that do not work, and those to which messages were sent lately
	BacklogNow() *instances.Backlog    // nil: not sampled
	HasBacklog() bool                  // there is a secondary namespace
	Move(ctx context.Context) (relay.Result, error)
}

func (f RelayResource) Routes() []edge.Route {
	const function = "Relay"
	return []edge.Route{
		{Function: "SendMessage", Pattern: "POST /api/messages/{entity}", Body: true, Handler: http.HandlerFunc(sendResource{f.Relay}.serveSend)},
		{Function: function, Pattern: "GET /api/relay", Handler: Serve(nil, func(r *http.Request) (edge.Reply, error) { return edge.Limited(r, f.list) })},
		{Function: function, Pattern: "POST /api/relay/syphon", Handler: http.HandlerFunc(f.runSyphon)},
	}
}

// RelayItem is a queue or topic in the answer.
type RelayItem struct {
	Entity    string               `json:"entity"`
	State     string               `json:"state"` // the worst one of all instances
	Since     *time.Time           `json:"since"` // nil: no instance sends to it
	Throttled bool                 `json:"throttled"`
	LastError string               `json:"lastError,omitempty"`
	Backlog   *observe.BacklogItem `json:"backlog"` // nil: the backlog was not sampled
}

// list serves GET /api/relay.
func (f RelayResource) list(r *http.Request) (edge.Reply, error) {
	if f.Relay == nil {
		return edge.Reply{}, errBusOff
	}
	others, known := f.Members.Live(r.Context(), instances.RelaySection, instances.BacklogSection)
	var own instances.Report
	instances.RelaySection.Add(&own, f.Relay.Entities())
	instances.BacklogSection.Add(&own, f.Relay.BacklogNow())
	answer := struct {
		Items   []RelayItem `json:"items"`
		Partial bool        `json:"partial,omitempty"` // the other instances are not known
	}{JoinRelay(append([]instances.Report{own}, observe.ReportsOf(others)...)), !known}
	return edge.Reply{Status: http.StatusOK, Body: answer}, nil
}

// states are those of entities, the worst one last.
var states = []string{relay.Healthy.String(), relay.Suspect.String(), relay.FailedOver.String()}

// SortEntities sorts entities, the worst ones first.
func SortEntities(all []instances.RelayEntity) {
	slices.SortFunc(all, func(a, b instances.RelayEntity) int {
		return cmp.Or(cmp.Compare(slices.Index(states, b.State), slices.Index(states, a.State)), strings.Compare(a.Entity, b.Entity))
	})
}

// JoinRelay returns the entities that processes report, by name, with the newest
// sample of the backlog.
func JoinRelay(reports []instances.Report) []RelayItem {
	items := make(map[string]*RelayItem)
	item := func(entity string) *RelayItem {
		if items[entity] == nil {
			items[entity] = &RelayItem{Entity: entity, State: states[0]}
		}
		return items[entity]
	}
	for _, r := range reports {
		for _, e := range instances.RelaySection.Of(r) {
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
	if b := observe.NewestBacklog(reports); b != nil {
		for _, e := range b.Entities {
			item(e.Entity)
		}
		for _, i := range items {
			i.Backlog = &observe.BacklogItem{More: b.More, At: b.At.UTC()}
		}
		for _, e := range b.Entities {
			of := items[e.Entity].Backlog
			of.Messages, of.OldestSeconds = e.Messages, e.OldestSeconds
		}
	}
	all := make([]RelayItem, 0, len(items))
	for _, i := range items {
		all = append(all, *i)
	}
	slices.SortFunc(all, func(a, b RelayItem) int { return strings.Compare(a.Entity, b.Entity) })
	return all
}

// callPass is how long a pass may take that a call makes, which has 30 s.
const callPass = 15 * time.Second

// SyphonRun is the answer to a pass.
type SyphonRun struct {
	Moved        int64 `json:"moved"`
	DeadLettered int64 `json:"deadLettered"`
	Expired      int64 `json:"expired"`
	Held         int64 `json:"held"`       // cannot be moved now
	Unreadable   int64 `json:"unreadable"` // cannot be decoded, and stay
	More         bool  `json:"more"`
}

// runSyphon serves POST /api/relay/syphon.
func (f RelayResource) runSyphon(w http.ResponseWriter, r *http.Request) {
	run, err := f.passOnCall(r)
	if failed, ok := errors.AsType[*relay.Error](err); ok {
		edge.WriteFailure(w, r, answersTo([]Failure{syphonFailure(failed)}), err)
		return
	}
	Serve([]Failure{busUnavailable}, func(*http.Request) (edge.Reply, error) {
		return edge.Reply{Status: http.StatusOK, Body: run}, err
	}).ServeHTTP(w, r)
}

func (f RelayResource) passOnCall(r *http.Request) (SyphonRun, error) {
	switch {
	case f.Relay == nil:
		return SyphonRun{}, errBusOff
	case !f.Relay.HasBacklog():
		return SyphonRun{}, errRelayOff
	}
	ctx, cancel := context.WithTimeout(r.Context(), callPass)
	defer cancel()
	result, err := f.Relay.Move(ctx)
	if result.Moved+result.DeadLettered+result.Expired > 0 {
		err = nil // it is logged, and the caller continues
	}
	return SyphonRun{result.Moved, result.DeadLettered, result.Expired, result.Held, result.Unreadable, result.More}, err
}
