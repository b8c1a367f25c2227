package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"kennel/channels"
	"kennel/deadletters"
	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/scale"
	"kennel/internal/table"
	"kennel/work"
)

// failure is a row of a table from errors to answers. The first row that
// matches counts.
type failure struct {
	is         error // nil matches every error
	status     int
	code       string
	message    string // "" sends the text of the error
	retryAfter string // in seconds; "" sends none
}

var sequenceFailures = []failure{
	{ids.ErrExhausted, http.StatusConflict, "sequence_exhausted",
		"The sequence has fewer numbers left than requested. Use a new sequence name.", ""},
	sequenceCorrupt,
	sequenceMissing,
	{ids.ErrTooMany, http.StatusServiceUnavailable, "too_many_sequences",
		"This instance already uses the maximum of different sequences, and storage takes none of them back. Use fewer sequences.", "60"},
	{ids.ErrClosed, http.StatusServiceUnavailable, codeStopping,
		"This instance is stopping. Send the request again.", "1"},
	{nil, http.StatusServiceUnavailable, codeUnavailable,
		"No numbers were issued: storage did not respond in time, or too many instances are reserving at once. Retry later.", "5"},
}

// sequenceFailuresOf returns sequenceFailures with the answer of storage, if that
// is why no numbers were issued.
func sequenceFailuresOf(err error) []failure {
	answer, ok := errors.AsType[*azure.Error](err)
	if !ok || answer.Refused() {
		return sequenceFailures
	}
	last := len(sequenceFailures) - 1
	failed := sequenceFailures[last]
	failed.message = fmt.Sprintf("No numbers were issued: storage answered %d %s. Retry later.", answer.Status, cmp.Or(answer.Code, http.StatusText(answer.Status)))
	return append(slices.Clone(sequenceFailures[:last]), failed)
}

// sequenceStateFailures are those of the calls that issue no numbers.
var sequenceStateFailures = []failure{
	{ids.ErrNotFound, http.StatusNotFound, "sequence_not_found",
		"No number of the sequence was ever issued.", ""},
	invalidContinuation,
	sequenceCorrupt,
	sequenceMissing,
	{errUnchecked, http.StatusServiceUnavailable, "instances_unknown",
		`The numbers that other instances have reserved could not be read from storage, so the raise was not checked and nothing was changed. Retry later, or send "force":true to raise the sequence without the check.`, "5"},
	{errRaiseUnclear, http.StatusServiceUnavailable, "change_unclear", unconfirmed, "5"},
	storageUnavailable,
}

var (
	sequenceCorrupt = failure{ids.ErrCorrupt, http.StatusInternalServerError, "sequence_corrupt",
		`The stored number of the sequence is invalid or went down. No number is issued until an operator raises the sequence above every number issued, with "force":true if what is stored is not a number; see the log.`, ""}
	sequenceMissing = failure{ids.ErrMissing, http.StatusInternalServerError, "sequence_missing",
		"The stored number of the sequence was deleted. No number is issued until an operator restores it or raises the sequence; see the log.", ""}
)

var gateFailures = []failure{
	{gate.ErrStopped, http.StatusServiceUnavailable, codeStopping,
		"This instance is stopping. Repeat the request with the same generation.", "1"},
	{gate.ErrInvalid, http.StatusBadRequest, "bad_change", "", ""},
	{gate.ErrCorrupt, http.StatusInternalServerError, "gate_corrupt",
		`The stored state of the gate is invalid, so the gate stays closed until an operator repairs it; see the log. A release or close with "force":true replaces it.`, ""},
	{gate.ErrTooMany, http.StatusServiceUnavailable, "too_many_gates",
		"This instance already watches the maximum of different gates.", "60"},
	{gate.ErrUnclear, http.StatusServiceUnavailable, "change_unclear", unconfirmed, "5"},
	{gate.ErrUnknown, http.StatusServiceUnavailable, codeUnavailable,
		"The gate's state could not be read from storage. Nothing was changed. Retry later.", "5"},
}

var gateListFailures = []failure{invalidContinuation, storageUnavailable}

// invalidContinuation is a failure of the lists of sequences and gates.
var invalidContinuation = failure{azure.ErrContinuation, http.StatusBadRequest, "bad_continuation",
	"The continuation is invalid. Begin the list again.", ""}

// The calls that concern channels share channelsFailures. Before it they have
// rows for what their address names.
var (
	channelFailures = concat(unclear(unconfirmed), channelNotFound, channelChanged)

	channelDeleteFailures = concat(unclear("Storage did not confirm the deletion, which may have begun. Repeat the request, with the channel's ETag in If-Match if the name may be in use again by then."),
		channelNotFound, channelChanged)
	deletionFailures = concat(failure{channels.ErrNotFound, http.StatusNotFound, "deletion_not_found",
		"No deletion is recorded under this name: no such channel was deleted, or its record has expired.", ""})
	blogPostFailures = concat(unclear("Storage did not confirm the blog, which may exist. Repeat the request with the same Idempotency-Key. If it had none, look for the blog near the end of the channel's list before you send it again."),
		channelNotFound, channelChanged,
		failure{channels.ErrKeyReused, http.StatusConflict, "key_reused",
			"In the last 24 hours, this Idempotency-Key was sent with another blog. Nothing was added. Use a new key for each blog.", ""},
		failure{channels.ErrRemoved, http.StatusGone, "blog_deleted",
			"An earlier request with this Idempotency-Key added the blog, which was deleted since. Nothing was added.", ""})
	blogFailures = concat(unclear(unconfirmed),
		failure{channels.ErrNotFound, http.StatusNotFound, "blog_not_found",
			"The channel or the blog does not exist or was deleted.", ""},
		failure{channels.ErrChanged, http.StatusPreconditionFailed, "blog_changed",
			"The blog has changed since you read it. Read it again before retrying.", ""})

	channelNotFound = failure{channels.ErrNotFound, http.StatusNotFound, "channel_not_found",
		"The channel does not exist or was deleted.", ""}
	channelChanged = failure{channels.ErrChanged, http.StatusPreconditionFailed, "channel_changed",
		"The channel has changed since you read it. Read it again before retrying.", ""}

	channelsFailures = []failure{
		{channels.ErrOwned, http.StatusConflict, "channel_owned",
			"A channel of this name belongs to another owner. Choose another name.", ""},
		{channels.ErrNoCondition, http.StatusPreconditionRequired, "no_condition",
			"An update needs If-Match with the ETag of the blog that you read, so that it does not overwrite the work of others. If-Match: * overwrites any version.", ""},
		{channels.ErrCorrupt, http.StatusInternalServerError, "channel_corrupt",
			"A stored row was not written by this app. It is left unchanged until an operator repairs it; the log names the row.", ""},
		storageUnavailable,
	}

	storageUnavailable = failure{nil, http.StatusServiceUnavailable, codeUnavailable,
		"Storage did not respond. Nothing was changed. Retry later.", "5"}
)

// The calls that concern batches.
var (
	batchSubmitFailures = append([]failure{
		{work.ErrName, http.StatusBadRequest, "bad_name",
			fmt.Sprintf("name must have at most %d bytes of UTF-8 and no control characters.", work.MaxName), ""},
		{work.ErrTooLarge, http.StatusRequestEntityTooLarge, "batch_too_large",
			"The batch has more bytes or items than KENNEL_BATCH_MAX_BYTES and KENNEL_BATCH_MAX_ITEMS allow. Nothing was queued. Split it.", ""},
		{work.ErrKeyReused, http.StatusConflict, "key_reused",
			"In the last 24 hours, this Idempotency-Key was sent with another batch. Nothing was queued. Use a new key for each batch.", ""},
		{table.ErrUnclear, http.StatusServiceUnavailable, "change_unclear",
			"Storage did not confirm the batch, which may be processed. Repeat the request with the same Idempotency-Key. If it had none, look for the batch in the list before you send it again.", "5"},
		{context.DeadlineExceeded, http.StatusServiceUnavailable, codeUnavailable,
			"The batch was not read and stored within the time limit of the call. Nothing was queued. Retry later, or split the batch.", "5"},
	}, batchFailures...)

	batchFailures = []failure{
		{work.ErrNotFound, http.StatusNotFound, "batch_not_found",
			"The batch does not exist, or its retention has ended.", ""},
		{work.ErrRunning, http.StatusConflict, "batch_running",
			"The batch has no report yet. Read the batch until its state is done.", ""},
		{work.ErrFailed, http.StatusConflict, "batch_failed",
			"The batch failed and has no report. Its member error states why.", ""},
		{work.ErrContinuation, http.StatusBadRequest, "bad_continuation",
			"The continuation is invalid. Begin the list again.", ""},
		{work.ErrCorrupt, http.StatusInternalServerError, "batch_corrupt",
			"What is stored of the batch cannot be used. The log names what is wrong.", ""},
		storageUnavailable,
	}
)

// The calls that concern dead letters.
var (
	letterFailures = []failure{storageUnavailable}

	letterMoveFailures = []failure{
		{deadletters.ErrNoSource, http.StatusConflict, "source_missing",
			"The queue from which the messages came does not exist, so nothing was moved. Create the queue, or delete the dead letters.", ""},
		{errPartly, http.StatusServiceUnavailable, "change_unclear",
			"Storage rejected a request after some of the dead letters were moved or deleted. Retrying will not help until an operator fixes the cause; see the log.", "5"},
		storageUnavailable,
	}
)

const unconfirmed = "Storage did not confirm the change, which may have been made. It is safe to repeat the request."

func unclear(message string) failure {
	return failure{channels.ErrUnclear, http.StatusServiceUnavailable, "change_unclear", message, "5"}
}

func concat(rows ...failure) []failure { return slices.Concat(rows, channelsFailures) }

const (
	// codeStopping is the code of answers that are not logged: a stopping
	// instance sends one to each of thousands of waiters, and nothing is wrong.
	codeStopping = "stopping"

	// codeUnavailable is the code of failures that changed nothing. If storage
	// rejected a request, their message is rejected.
	codeUnavailable = "storage_unavailable"
)

const rejected = "Storage rejected the request and nothing was changed. Retrying will not help until an operator fixes the cause; see the log."

// writeFailure turns an error into an answer. The caller gets the meaning and
// what to do; the log gets the cause as well. An error without a row is left to
// customhandler.
func writeFailure(w http.ResponseWriter, r *http.Request, failures []failure, err error) {
	known, isKnown := errors.AsType[*customhandler.Error](err)
	input, isInput := errors.AsType[*channels.InputError](err)
	if items, ok := errors.AsType[*work.ItemErrors](err); ok {
		writeItemErrors(w, items)
		return
	}
	if rules, ok := errors.AsType[*scale.RulesError](err); ok {
		writeBadItems(w, "bad_rules", err.Error(), rules.Faults)
		return
	}
	switch {
	case isInput:
		known = badRequest("bad_"+input.Field, input.Error())
	case !isKnown && r.Context().Err() == context.Canceled:
		known = &customhandler.Error{Status: http.StatusRequestTimeout, Code: "gone", Message: "The client closed the connection."}
	}
	if known != nil {
		customhandler.WriteError(w, r, known)
		return
	}
	i := slices.IndexFunc(failures, func(f failure) bool { return f.is == nil || errors.Is(err, f.is) })
	if i < 0 {
		customhandler.WriteError(w, r, err)
		return
	}
	f := failures[i]
	answer := &customhandler.Error{Status: f.status, Code: f.code, Message: f.message}
	if f.message == "" {
		answer.Message = err.Error()
	}
	if f.retryAfter != "" && isRefused(err) {
		f.retryAfter = "60" // an operator has to act first
		if f.code == codeUnavailable {
			answer.Message = rejected
		}
	}
	if f.retryAfter != "" {
		w.Header().Set("Retry-After", f.retryAfter)
	}
	if f.code == codeStopping {
		writeJSON(w, f.status, map[string]any{"error": map[string]string{"code": f.code, "message": f.message}})
		return
	}
	customhandler.WriteError(w, r, fmt.Errorf("%w: %w", err, answer))
}

// writeItemErrors answers a submission with invalid items.
func writeItemErrors(w http.ResponseWriter, e *work.ItemErrors) {
	message := fmt.Sprintf("Nothing was queued, because of %d invalid items.", len(e.Items))
	switch {
	case len(e.Items) == 0:
		message = "The batch has no items."
	case e.More:
		message = fmt.Sprintf("Nothing was queued, because of invalid items. These are the first %d.", len(e.Items))
	case len(e.Items) == 1:
		message = "Nothing was queued, because of an invalid item."
	}
	writeBadItems(w, "bad_items", message, append([]work.ItemError{}, e.Items...)) // [] for none
}

// writeBadItems answers a body of which the parts in items are invalid.
func writeBadItems[T any](w http.ResponseWriter, code, message string, items []T) {
	type detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Items   []T    `json:"items"`
	}
	writeJSON(w, http.StatusBadRequest, map[string]any{"error": detail{code, message, items}})
}

// isRefused reports whether storage rejected a request permanently.
func isRefused(err error) bool {
	answer, ok := errors.AsType[*azure.Error](err)
	return ok && answer.Refused() || errors.Is(err, table.ErrRefused) || errors.Is(err, ids.ErrRefused)
}

func badRequest(code, message string) *customhandler.Error {
	return &customhandler.Error{Status: http.StatusBadRequest, Code: code, Message: message}
}
