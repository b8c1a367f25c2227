package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/internal/control"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/internal/program"
	"kennel/internal/queues"
	"kennel/internal/table"
	"kennel/queue"
)

// QueueResource serves the queues of a program: those that it declares, and the
// built-in ones.
type QueueResource struct {
	Own     *queues.Queues  // nil: the program declares none
	Pauses  *control.Pauses // of the declared ones; nil without any
	Members *observe.Members
	Works   []string      // the built-in queues on which this process works
	Timeout time.Duration // of an attempt of a message of a built-in queue
	People
}

func (q QueueResource) Routes() []edge.Route {
	const function = "Queues"
	return []edge.Route{
		{Function: function, Pattern: "GET /api/queues", Quota: &edge.Quota{}, Handler: q.serve(q.list)},
		{Function: function, Pattern: "GET /api/queues/{queue}", Quota: &edge.Quota{}, Handler: q.serve(q.show)},
		{Function: function, Pattern: "POST /api/queues/{queue}/messages", Query: []string{"delay"}, Body: true, MaxBody: maxLines, Handler: q.serve(q.send)},
		{Function: function, Pattern: "POST /api/queues/{queue}/pause", Body: true, Quota: &edge.Quota{}, Handler: q.serveChange(q.pause)},
		{Function: function, Pattern: "POST /api/queues/{queue}/resume", Body: true, Quota: &edge.Quota{}, Handler: q.serveChange(q.resume)},
	}
}

func (q QueueResource) serve(do func(*http.Request) (edge.Reply, error)) http.Handler {
	return Serve(queueFailures, func(r *http.Request) (edge.Reply, error) { return edge.Limited(r, do) })
}

func (q QueueResource) serveChange(do func(*http.Request) (edge.Reply, error)) http.Handler {
	return Serve(queuePauseFailures, func(r *http.Request) (edge.Reply, error) { return edge.Limited(r, do) })
}

// The errors of a call for a queue.
var (
	errNoQueue      = errors.New("the program has no such queue")
	errQueueBuiltIn = errors.New("the queue is built in")
)

// undeclared reports a name of storage for which the program declares a queue of
// another name.
func undeclared(text string) error {
	return &customhandler.Error{Status: http.StatusNotFound, Code: "queue_not_found", Message: text}
}

var queueFailures = []Failure{
	{errNoQueue, http.StatusNotFound, "queue_not_found", "The program declares no queue of this name. GET /api/queues lists them.", ""},
	{errQueueBuiltIn, http.StatusConflict, "queue_built_in", "The queue belongs to a built-in part, which alone puts messages into it.", ""},
	{queues.ErrTooLarge, http.StatusRequestEntityTooLarge, "message_too_large", "The message is too long. Send up to 1 MiB, or put the content into a store of yours and send its address.", ""},
	{queue.ErrLimit, http.StatusRequestEntityTooLarge, "message_too_large", "Storage cannot hold the message.", ""},
	{queue.ErrUnclear, http.StatusServiceUnavailable, "change_unclear", "Storage did not confirm the message, which may have been sent. Sending it again may send it twice.", "5"},
	storageUnavailable,
}

// queuePauseFailures are those of pauses.
var queuePauseFailures = []Failure{
	queueFailures[0],
	{errQueueBuiltIn, http.StatusConflict, "queue_built_in", "The queue belongs to a built-in part. Only queues that the program declares can be paused.", ""},
	{table.ErrUnclear, http.StatusServiceUnavailable, "change_unclear", unconfirmed, "5"},
	{table.ErrRefused, http.StatusServiceUnavailable, edge.CodeUnavailable, edge.Rejected, "5"},
	storageUnavailable,
}

// queueItem is a queue in an answer.
type queueItem struct {
	Queue           string         `json:"queue"`
	Own             bool           `json:"own"`
	Paused          *control.Pause `json:"paused"` // null: it is not
	Ready           int64          `json:"ready"`
	InFlight        int64          `json:"inFlight"`
	Delayed         int64          `json:"delayed"`
	Scheduled       int64          `json:"scheduled"` // reserved: 0
	OldestSeconds   float64        `json:"oldestSeconds"`
	DeadLetters     int64          `json:"deadLetters"`
	StorageQueue    string         `json:"storageQueue"`        // whose messages the numbers count
	DrainedBy       []string       `json:"drainedBy,omitempty"` // the declared queues of which this is a former name; nil: it is none
	Concurrency     int            `json:"concurrency"`         // 0: the program does not work on it, or the queue is built in
	Limits          []string       `json:"limits"`              // reserved: none
	DonePerSecond   float64        `json:"donePerSecond"`       // messages, by all living instances
	FailedPerSecond float64        `json:"failedPerSecond"`     // attempts
	LastOkAt        *time.Time     `json:"lastOkAt"`            // by this process, or null
	*queueDetails
}

// queueDetails is what a single queue has besides.
type queueDetails struct {
	MaxAttempts    int     `json:"maxAttempts"`
	TimeoutSeconds float64 `json:"timeoutSeconds"`
	Handled        bool    `json:"handled"` // by a living instance
}

// seen is what the answer to a call is made of.
type seen struct {
	samples map[string]instances.QueueSample
	pauses  map[string]*control.Pause
	rates   observe.Rates
}

// item returns a queue with the numbers of its storage queue.
func (s seen) item(name, storage string, rate observe.Rate) queueItem {
	n := s.samples[storage]
	return queueItem{
		Queue: name, StorageQueue: storage, Ready: n.Ready, InFlight: n.InFlight, Delayed: n.Delayed, OldestSeconds: n.OldestSeconds, DeadLetters: n.Poison,
		Limits: []string{}, DonePerSecond: thousandths(rate.Done), FailedPerSecond: thousandths(rate.Failed),
	}
}

func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }

// items returns all queues, by name.
func (q QueueResource) items(s seen) []queueItem {
	all := make(map[string]queueItem)
	own := make(map[string]bool)
	if q.Own != nil {
		for _, d := range q.Own.Declared() {
			one := s.item(d.Name, d.Storage(), s.rates.Declared[d.Name])
			one.Own, one.Paused, own[d.Storage()] = true, s.pauses[d.Name], true
			if d.Handled > 0 {
				one.Concurrency = d.Concurrency
			}
			if at := q.Own.LastDone(d.Storage()); !at.IsZero() {
				one.LastOkAt = &at
			}
			all[d.Name] = one
		}
		for _, d := range q.Own.Declared() {
			for _, former := range d.FormerNames {
				one, found := all[former]
				if own[former] || found && one.Own {
					continue // it is declared, or the storage queue of another one
				}
				if !found {
					one = s.item(former, former, s.rates.Storage[former])
				}
				one.DrainedBy = append(one.DrainedBy, d.Name)
				all[former] = one
			}
		}
	}
	for storage := range s.samples {
		if _, known := all[storage]; !known && !own[storage] {
			all[storage] = s.item(storage, storage, s.rates.Storage[storage])
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b queueItem) int { return strings.Compare(a.Queue, b.Queue) })
}

// read samples the queues, and reads their pauses and rates.
func (q QueueResource) read(ctx context.Context) (s seen, err error) {
	var rates observe.Rates
	var beside sync.WaitGroup
	beside.Go(func() { rates = q.Members.Rates(ctx) })
	if s.samples, err = q.Members.SampleAll(ctx); err == nil && q.Pauses != nil {
		s.pauses, err = q.Pauses.Read(ctx)
	}
	beside.Wait()
	s.rates = rates
	return s, err
}

// list serves GET /api/queues.
func (q QueueResource) list(r *http.Request) (edge.Reply, error) {
	s, err := q.read(r.Context())
	if err != nil {
		return edge.Reply{}, err
	}
	answer := struct {
		Items []queueItem `json:"items"`
	}{append([]queueItem{}, q.items(s)...)} // [] for none
	return edge.Reply{Status: http.StatusOK, Body: answer}, nil
}

// show serves GET /api/queues/{queue}.
func (q QueueResource) show(r *http.Request) (edge.Reply, error) {
	name := r.PathValue("queue")
	if _, err := q.sendable(name); err != nil && !errors.Is(err, errQueueBuiltIn) && len(q.drainers(name)) == 0 {
		return edge.Reply{}, err
	}
	s, err := q.read(r.Context())
	if err != nil {
		return edge.Reply{}, err
	}
	return edge.Reply{Status: http.StatusOK, Body: q.item(r.Context(), name, s)}, nil
}

// item returns one queue with its details.
func (q QueueResource) item(ctx context.Context, name string, s seen) queueItem {
	all := q.items(s)
	one := s.item(name, name, s.rates.Storage[name]) // a built-in one that is not used yet
	if at := slices.IndexFunc(all, func(item queueItem) bool { return item.Queue == one.Queue }); at >= 0 {
		one = all[at]
	}
	works := q.drainers(name)
	if d := q.declared(name); d != nil {
		works = []*program.Queue{d}
	}
	if len(works) == 0 {
		one.queueDetails = &queueDetails{observe.MaxDeliveries, q.Timeout.Seconds(), slices.Contains(q.Works, name)}
		return one
	}
	one.queueDetails = &queueDetails{works[0].MaxAttempts, works[0].Timeout.Seconds(), false}
	one.Handled = slices.ContainsFunc(works, func(d *program.Queue) bool {
		handled, _ := q.Own.HandledBy(ctx, d, one.StorageQueue)
		return handled
	})
	return one
}

// drainers returns the declared queues of which a name is a former one; none if
// it is declared, or the storage queue of a declared one.
func (q QueueResource) drainers(name string) (all []*program.Queue) {
	if q.Own == nil || len(q.sharers(name)) > 0 || q.declared(name) != nil {
		return nil
	}
	for _, d := range q.Own.Declared() {
		if slices.Contains(d.FormerNames, name) {
			all = append(all, d)
		}
	}
	return all
}

// sharers returns the declared queues whose messages are in a storage queue.
func (q QueueResource) sharers(storage string) (all []*program.Queue) {
	if q.Own == nil {
		return nil
	}
	for _, d := range q.Own.Declared() {
		if d.Storage() == storage {
			all = append(all, d)
		}
	}
	return all
}

// sendable returns a queue that the program declares, to which messages can be
// sent, or an error that states what else the name is.
func (q QueueResource) sendable(name string) (*program.Queue, error) {
	if d := q.declared(name); d != nil {
		return d, nil
	}
	if all := q.drainers(name); len(all) > 0 {
		return nil, undeclared(fmt.Sprintf("%s is a former name that is drained by queue %s. Use queue %s.", name, namesOf(all), all[0].Name))
	}
	if all := q.sharers(name); len(all) > 0 {
		return nil, undeclared(fmt.Sprintf("%s is the storage queue of queue %s. Use the name of the queue.", name, namesOf(all)))
	}
	if q.Members.LetterCount(name) != nil {
		return nil, errQueueBuiltIn
	}
	return nil, errNoQueue
}

func namesOf(all []*program.Queue) string {
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	return strings.Join(names, " and ")
}

// declared returns a queue that the program declares; nil if it does not.
func (q QueueResource) declared(name string) *program.Queue {
	if q.Own == nil {
		return nil
	}
	for _, d := range q.Own.Declared() {
		if d.Name == name {
			return d
		}
	}
	return nil
}
