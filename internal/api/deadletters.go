package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"kennel/deadletters"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/observe"
	"kennel/queue"
)

// LetterResource serves the dead letters of all queues of the account, also of
// those that belong to other programs.
type LetterResource struct {
	Open   func() (*OpenLetters, error) // for the first use: a start needs nothing of it
	Counts func(queue string) *observe.LetterCount
	Log    *slog.Logger
}

// OpenLetters is dead letters on the stores of an account.
type OpenLetters struct {
	Letters *deadletters.Letters
	Queues  queue.Counter
}

func (l LetterResource) Routes() []edge.Route {
	const function = "DeadLetters"
	return []edge.Route{
		{Function: function, Pattern: "GET /api/deadletters", Handler: l.serve(letterFailures, inTime(l.list))},
		{Function: function, Pattern: "GET /api/deadletters/{queue}", Handler: l.serve(letterFailures, inTime(l.front))},
		{Function: function, Pattern: "POST /api/deadletters/{queue}/redrive", Body: true, Quota: &edge.Quota{}, Handler: l.serve(LetterMoveFailures, l.redrive)},
		{Function: function, Pattern: "POST /api/deadletters/{queue}/delete", Body: true, Handler: l.serve(LetterMoveFailures, l.remove)},
	}
}

// letterCall serves a call for dead letters.
type letterCall func(opened *OpenLetters, r *http.Request) (edge.Reply, error)

func (l LetterResource) serve(failures []Failure, do letterCall) http.Handler {
	return Serve(failures, func(r *http.Request) (edge.Reply, error) {
		opened, err := l.Open()
		if err != nil {
			return edge.Reply{}, errLettersOff
		}
		return do(opened, r)
	})
}

// inTime does a call within the time limit of most calls.
func inTime(do letterCall) letterCall {
	return func(opened *OpenLetters, r *http.Request) (edge.Reply, error) {
		return edge.Limited(r, func(r *http.Request) (edge.Reply, error) { return do(opened, r) })
	}
}

// list serves GET /api/deadletters.
func (l LetterResource) list(opened *OpenLetters, r *http.Request) (edge.Reply, error) {
	queues, err := opened.Letters.Queues(r.Context())
	if err != nil {
		return edge.Reply{}, err
	}
	answer := struct {
		Items []deadletters.Queue `json:"items"`
	}{append([]deadletters.Queue{}, queues...)} // [] for none
	return edge.Reply{Status: http.StatusOK, Body: answer}, nil
}

// front serves GET /api/deadletters/{queue}.
func (l LetterResource) front(opened *OpenLetters, r *http.Request) (edge.Reply, error) {
	name, _, err := letterQueueOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	list, err := opened.Letters.Front(r.Context(), name)
	return edge.Reply{Status: http.StatusOK, Body: list}, err
}

// letterQueueOf reads the name of a dead-letter queue.
func letterQueueOf(r *http.Request) (name, source string, err error) {
	name = r.PathValue("queue")
	if source, err = deadletters.Source(name); err != nil {
		return "", "", edge.BadRequest("bad_queue", "The name must be that of a dead-letter queue: up to 63 lower-case letters, digits and single hyphens, with "+queue.PoisonSuffix+" at the end.")
	}
	return name, source, nil
}

// Limits of a selection besides those of the package.
const (
	maxLetterID = 64     // bytes
	maxRate     = 10_000 // letters a second
)

// selectionOf reads which dead letters a call is for.
func selectionOf(r *http.Request) (s deadletters.Selection, err error) {
	var body struct {
		All           bool      `json:"all"`
		IDs           []string  `json:"ids"`
		Limit         *int      `json:"limit"`
		RatePerSecond *float64  `json:"ratePerSecond"`
		DryRun        bool      `json:"dryRun"`
		Before        time.Time `json:"before"`
	}
	if err := customhandler.ReadJSON(r, edge.MaxBody, &body); err != nil {
		return s, err
	}
	bad := func(format string, args ...any) error {
		return edge.BadRequest("bad_selection", fmt.Sprintf(format, args...))
	}
	s = deadletters.Selection{All: body.All, IDs: body.IDs, Limit: deadletters.MaxLimit, DryRun: body.DryRun, Before: body.Before}
	switch {
	case body.All == (len(body.IDs) > 0):
		return s, bad(`The body must have either "all":true or "ids" with the ids of dead letters.`)
	case len(body.IDs) > deadletters.MaxLimit:
		return s, bad("There are %d ids. Send at most %d.", len(body.IDs), deadletters.MaxLimit)
	case slices.ContainsFunc(body.IDs, func(id string) bool { return id == "" || len(id) > maxLetterID }):
		return s, bad("ids must be those of dead letters, as GET of the queue returns them.")
	}
	if body.Limit != nil {
		if s.Limit = *body.Limit; s.Limit < 1 || s.Limit > deadletters.MaxLimit {
			return s, bad("limit must be a whole number from 1 to %d.", deadletters.MaxLimit)
		}
	}
	if body.RatePerSecond != nil {
		if s.PerSecond = *body.RatePerSecond; s.PerSecond < deadletters.MinRate || s.PerSecond > maxRate {
			return s, bad("ratePerSecond must be a number from %v to %d.", deadletters.MinRate, maxRate)
		}
	}
	return s, nil
}

// redrive serves POST /api/deadletters/{queue}/redrive. The call has the time of
// an invocation, and ends after a minute.
func (l LetterResource) redrive(opened *OpenLetters, r *http.Request) (edge.Reply, error) {
	return take(l, opened, r, opened.Letters.Redrive, "dead letters redriven", func(d deadletters.Redriven) (deadletters.Result, int) { return d.Result, d.Moved })
}

// remove serves POST /api/deadletters/{queue}/delete, which takes as long.
func (l LetterResource) remove(opened *OpenLetters, r *http.Request) (edge.Reply, error) {
	return take(l, opened, r, opened.Letters.Delete, "dead letters deleted", func(d deadletters.Deleted) (deadletters.Result, int) { return d.Result, d.Deleted })
}

// take serves a call that takes dead letters out of a queue. It logs done with
// what parts returns: the result, and how many they were.
func take[T any](l LetterResource, opened *OpenLetters, r *http.Request, do func(context.Context, string, deadletters.Selection) (T, error), done string, parts func(T) (deadletters.Result, int)) (edge.Reply, error) {
	name, source, err := letterQueueOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	s, err := selectionOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	ctx := r.Context()
	answer, err := do(ctx, name, s)
	result, taken := parts(answer)
	if !s.DryRun && (err == nil || taken > 0) {
		l.Log.InfoContext(ctx, done, "queue", name, "letters", taken, "left", len(result.Left), "more", result.More)
	}
	if known := l.Counts(source); known != nil && taken > 0 {
		known.CountNow(ctx, opened.Queues) // for the status; an error is a problem of storage
	}
	if err != nil && taken > 0 {
		err = fmt.Errorf("%w: %w", errPartly, err)
	}
	return edge.Reply{Status: http.StatusOK, Body: answer}, err
}
