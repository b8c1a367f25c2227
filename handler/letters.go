package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"kennel/deadletters"
	"kennel/internal/azure"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/queue"
	"kennel/work"
)

// letterFunctions serve the dead letters of all queues of the account, also of
// those that belong to other programs.
type letterFunctions struct {
	open   func() (*openLetters, error) // for the first use: a start needs nothing of it
	counts func(queue string) *letterCount
	log    *slog.Logger
}

// openLetters is dead letters on the stores of an account.
type openLetters struct {
	letters *deadletters.Letters
	queues  queue.Counter
}

// newLetters wires dead letters and sends no request. Only batches have long
// messages, and so claims. counts returns what this process knows of the dead
// letters of a queue, nil for nothing.
func newLetters(account azure.Account, o azure.Options, batches *batchFunctions, counts func(queue string) *letterCount, log *slog.Logger) *letterFunctions {
	o.Job = "deadletters"
	l := &letterFunctions{counts: counts, log: log}
	l.open = sync.OnceValues(func() (*openLetters, error) {
		queues, err := account.OpenQueues(&o)
		var ofBatches *openBatches
		if err == nil {
			ofBatches, err = batches.open()
		}
		if err != nil {
			log.Warn("dead letters are not served: they need tables and queues", "error", err)
			return nil, err
		}
		return l.openOn(queues, ofBatches)
	})
	return l
}

// openOn returns the dead letters of these queues.
func (l *letterFunctions) openOn(queues deadletters.Store, batches *openBatches) (*openLetters, error) {
	areOfBatches := append(workQueues(config.MaxPartitions), work.ResultsQueue)
	letters, err := deadletters.New(queues, &deadletters.Options{
		Claims: func(source string) (*queue.Claims, error) {
			if !slices.Contains(areOfBatches, source) {
				return nil, nil
			}
			return batches.claims, nil
		},
		Text:     func(_ string, body []byte) []byte { return batches.batches.Readable(body) },
		Announce: batches.signals.Announce,
		Log:      l.log,
	})
	if err != nil {
		return nil, err
	}
	return &openLetters{letters, queues}, nil
}

func (l *letterFunctions) routes() []route {
	const function = "DeadLetters"
	return []route{
		{function: function, pattern: "GET /api/deadletters", handler: l.serve(letterFailures, inTime(l.list))},
		{function: function, pattern: "GET /api/deadletters/{queue}", handler: l.serve(letterFailures, inTime(l.front))},
		{function: function, pattern: "POST /api/deadletters/{queue}/redrive", body: true, quota: &quota{}, handler: l.serve(letterMoveFailures, l.redrive)},
		{function: function, pattern: "POST /api/deadletters/{queue}/delete", body: true, handler: l.serve(letterMoveFailures, l.remove)},
	}
}

// letterCall serves a call for dead letters.
type letterCall func(opened *openLetters, r *http.Request) (reply, error)

func (l *letterFunctions) serve(failures []failure, do letterCall) http.Handler {
	return serve(failures, func(r *http.Request) (reply, error) {
		opened, err := l.open()
		if err != nil {
			return reply{}, &customhandler.Error{Status: http.StatusNotImplemented, Code: "dead_letters_off",
				Message: "This app has no tables or queues. Name them in AzureWebJobsStorage; the app's log states what is missing."}
		}
		return do(opened, r)
	})
}

// inTime does a call within the time limit of most calls.
func inTime(do letterCall) letterCall {
	return func(opened *openLetters, r *http.Request) (reply, error) {
		return limited(r, func(r *http.Request) (reply, error) { return do(opened, r) })
	}
}

// list serves GET /api/deadletters.
func (l *letterFunctions) list(opened *openLetters, r *http.Request) (reply, error) {
	queues, err := opened.letters.Queues(r.Context())
	if err != nil {
		return reply{}, err
	}
	answer := struct {
		Items []deadletters.Queue `json:"items"`
	}{append([]deadletters.Queue{}, queues...)} // [] for none
	return reply{status: http.StatusOK, body: answer}, nil
}

// front serves GET /api/deadletters/{queue}.
func (l *letterFunctions) front(opened *openLetters, r *http.Request) (reply, error) {
	name, _, err := letterQueueOf(r)
	if err != nil {
		return reply{}, err
	}
	list, err := opened.letters.Front(r.Context(), name)
	return reply{status: http.StatusOK, body: list}, err
}

// letterQueueOf reads the name of a dead-letter queue.
func letterQueueOf(r *http.Request) (name, source string, err error) {
	name = r.PathValue("queue")
	if source, err = deadletters.Source(name); err != nil {
		return "", "", badRequest("bad_queue", "The name must be that of a dead-letter queue: up to 63 lower-case letters, digits and single hyphens, with "+queue.PoisonSuffix+" at the end.")
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
	if err := customhandler.ReadJSON(r, maxBody, &body); err != nil {
		return s, err
	}
	bad := func(format string, args ...any) error {
		return badRequest("bad_selection", fmt.Sprintf(format, args...))
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
func (l *letterFunctions) redrive(opened *openLetters, r *http.Request) (reply, error) {
	return take(l, opened, r, opened.letters.Redrive, "dead letters redriven", func(d deadletters.Redriven) (deadletters.Result, int) { return d.Result, d.Moved })
}

// remove serves POST /api/deadletters/{queue}/delete, which takes as long.
func (l *letterFunctions) remove(opened *openLetters, r *http.Request) (reply, error) {
	return take(l, opened, r, opened.letters.Delete, "dead letters deleted", func(d deadletters.Deleted) (deadletters.Result, int) { return d.Result, d.Deleted })
}

// errPartly reports a failure after some dead letters were moved or deleted.
var errPartly = errors.New("some were moved or deleted before")

// take serves a call that takes dead letters out of a queue. It logs done with
// what parts returns: the result, and how many they were.
func take[T any](l *letterFunctions, opened *openLetters, r *http.Request, do func(context.Context, string, deadletters.Selection) (T, error), done string, parts func(T) (deadletters.Result, int)) (reply, error) {
	name, source, err := letterQueueOf(r)
	if err != nil {
		return reply{}, err
	}
	s, err := selectionOf(r)
	if err != nil {
		return reply{}, err
	}
	ctx := r.Context()
	answer, err := do(ctx, name, s)
	result, taken := parts(answer)
	if !s.DryRun && (err == nil || taken > 0) {
		l.log.InfoContext(ctx, done, "queue", name, "letters", taken, "left", len(result.Left), "more", result.More)
	}
	if known := l.counts(source); known != nil && taken > 0 {
		known.countNow(ctx, opened.queues) // for the status; an error is a problem of storage
	}
	if err != nil && taken > 0 {
		err = fmt.Errorf("%w: %w", errPartly, err)
	}
	return reply{status: http.StatusOK, body: answer}, err
}
