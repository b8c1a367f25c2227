package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"kennel/internal/attempt"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/queues"
	"kennel/queue"
	"kennel/relay"
)

// WriteOwn answers a call of a program's own route with an error of one of the
// jobs, as the built-in route for the job does. An error of none is 500, and the
// log has it.
func WriteOwn(w http.ResponseWriter, err error) {
	edge.WriteFailure(w, customhandler.RequestOf(w), ownFaults, meaning(err))
}

// ownFailures are those that the routes for the jobs cannot have, or answer in
// another way: a change that is unclear is one error of all jobs, and a message
// that is sent again comes twice.
var ownFailures = []Failure{
	{queue.ErrUnclear, http.StatusServiceUnavailable, "change_unclear", "Storage did not confirm the change or message, which may have been made or sent. Repeating the request may do it twice.", "5"},
	{attempt.ErrStopping, http.StatusServiceUnavailable, edge.CodeStopping, "This instance is stopping. Send the request again.", "1"},
	{queues.ErrTooLarge, http.StatusRequestEntityTooLarge, "message_too_large", "A message is too long, and was not sent.", ""},
}

// ownFaults returns the answer to an error of a job; nil: it is of none.
func ownFaults(err error) *edge.Fault {
	if e, ok := errors.AsType[*relay.SendError](err); ok {
		return answersTo([]Failure{sendFailure(e)})(err)
	}
	rows := slices.Concat(ownFailures, SequenceFailures, GateFailures, BatchSubmitFailures)
	rows = slices.DeleteFunc(rows, func(f Failure) bool { return f.is == nil || f.is == context.DeadlineExceeded })
	if _, ok := errors.AsType[*azure.Error](err); ok {
		rows = append(rows, ownUnavailable)
	}
	return answersTo(rows)(err)
}

// ownUnavailable cannot say that nothing was changed: the route may have done
// something before.
var ownUnavailable = Failure{nil, http.StatusServiceUnavailable, edge.CodeUnavailable, "Storage did not respond. Try again later.", "5"}
