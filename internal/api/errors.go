// Package api serves the resources of the app over HTTP, one file for each.
// errors.go is the table of errors with their status and code.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"kennel/channels"
	"kennel/deadletters"
	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/scale"
	scalecheck "kennel/internal/scale/check"
	"kennel/internal/table"
	"kennel/relay"
	"kennel/work"
)

// errPartly reports a failure after some dead letters were moved or deleted.
var errPartly = errors.New("some were moved or deleted before")

// errRaiseUnclear reports a raise whose outcome storage did not confirm.
var errRaiseUnclear = errors.New("storage did not confirm the raise")

// errUnchecked reports a raise that could not be compared with what the
// instances of the app have reserved.
var errUnchecked = errors.New("the raise could not be checked")

// busWait and deniedWait are values of Retry-After: after an outage, which may
// end at any time, and after a failure that an operator has to mend.
const (
	busWait    = "5"
	deniedWait = "60"
)

// Failure is a row of a table from errors to answers. The first row that
// matches counts.
type Failure struct {
	is         error // nil matches every error
	status     int
	Code       string
	Message    string // "" sends the text of the error
	retryAfter string // in seconds; "" sends none
}

// answersTo returns the answers of a table.
func answersTo(failures []Failure) edge.Faults {
	return func(err error) *edge.Fault {
		i := slices.IndexFunc(failures, func(f Failure) bool { return f.is == nil || errors.Is(err, f.is) })
		if i < 0 {
			return nil
		}
		f := failures[i]
		return &edge.Fault{Status: f.status, Code: f.Code, Message: f.Message, RetryAfter: f.retryAfter}
	}
}

// SequenceFailures are those of the call that issues numbers.
var SequenceFailures = []Failure{
	{ids.ErrExhausted, http.StatusConflict, "sequence_exhausted",
		"The sequence has fewer numbers left than requested. Use a new sequence name.", ""},
	sequenceCorrupt,
	sequenceMissing,
	{ids.ErrTooMany, http.StatusServiceUnavailable, "too_many_sequences",
		"This instance already uses the maximum of different sequences, and storage takes none of them back. Use fewer sequences.", "60"},
	{ids.ErrClosed, http.StatusServiceUnavailable, edge.CodeStopping,
		"This instance is stopping. Send the request again.", "1"},
	{nil, http.StatusServiceUnavailable, edge.CodeUnavailable,
		"No numbers were issued: storage did not respond in time, or too many instances are reserving at once. Retry later.", "5"},
}

// sequenceFailuresOf returns SequenceFailures with the answer of storage, if that
// is why no numbers were issued.
func sequenceFailuresOf(err error) []Failure {
	answer, ok := errors.AsType[*azure.Error](err)
	if !ok || answer.Refused() {
		return SequenceFailures
	}
	last := len(SequenceFailures) - 1
	failed := SequenceFailures[last]
	failed.Message = fmt.Sprintf("No numbers were issued: storage answered %d %s. Retry later.", answer.Status, cmp.Or(answer.Code, http.StatusText(answer.Status)))
	return append(slices.Clone(SequenceFailures[:last]), failed)
}

// sequenceStateFailures are those of the calls that issue no numbers.
var sequenceStateFailures = []Failure{
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
	sequenceCorrupt = Failure{ids.ErrCorrupt, http.StatusInternalServerError, "sequence_corrupt",
		`The stored number of the sequence is invalid or went down. No number is issued until an operator raises the sequence above every number issued, with "force":true if what is stored is not a number; see the log.`, ""}
	sequenceMissing = Failure{ids.ErrMissing, http.StatusInternalServerError, "sequence_missing",
		"The stored number of the sequence was deleted. No number is issued until an operator restores it or raises the sequence; see the log.", ""}
)

// GateFailures are those of the calls for one gate.
var GateFailures = []Failure{
	{gate.ErrStopped, http.StatusServiceUnavailable, edge.CodeStopping,
		"This instance is stopping. Repeat the request with the same generation.", "1"},
	{gate.ErrInvalid, http.StatusBadRequest, "bad_change", "", ""},
	{gate.ErrCorrupt, http.StatusInternalServerError, "gate_corrupt",
		`The stored state of the gate is invalid, so the gate stays closed until an operator repairs it; see the log. A release or close with "force":true replaces it.`, ""},
	{gate.ErrTooMany, http.StatusServiceUnavailable, "too_many_gates",
		"This instance already watches the maximum of different gates.", "60"},
	{gate.ErrUnclear, http.StatusServiceUnavailable, "change_unclear", unconfirmed, "5"},
	{gate.ErrUnknown, http.StatusServiceUnavailable, edge.CodeUnavailable,
		"The gate's state could not be read from storage. Nothing was changed. Retry later.", "5"},
}

var gateListFailures = []Failure{invalidContinuation, storageUnavailable}

// invalidContinuation is a failure of the lists of sequences and gates.
var invalidContinuation = Failure{azure.ErrContinuation, http.StatusBadRequest, "bad_continuation",
	"The continuation is invalid. Begin the list again.", ""}

// The calls that concern channels share channelsFailures. Before it they have
// rows for what their address names.
var (
	ChannelFailures = concat(unclear(unconfirmed), channelNotFound, channelChanged)

	ChannelDeleteFailures = concat(unclear("Storage did not confirm the deletion, which may have begun. Repeat the request, with the channel's ETag in If-Match if the name may be in use again by then."),
		channelNotFound, channelChanged)
	DeletionFailures = concat(Failure{channels.ErrNotFound, http.StatusNotFound, "deletion_not_found",
		"No deletion is recorded under this name: no such channel was deleted, or its record has expired.", ""})
	BlogPostFailures = concat(unclear("Storage did not confirm the blog, which may exist. Repeat the request with the same Idempotency-Key. If it had none, look for the blog near the end of the channel's list before you send it again."),
		channelNotFound, channelChanged,
		Failure{channels.ErrKeyReused, http.StatusConflict, "key_reused",
			"In the last 24 hours, this Idempotency-Key was sent with another blog. Nothing was added. Use a new key for each blog.", ""},
		Failure{channels.ErrRemoved, http.StatusGone, "blog_deleted",
			"An earlier request with this Idempotency-Key added the blog, which was deleted since. Nothing was added.", ""})
	BlogFailures = concat(unclear(unconfirmed),
		Failure{channels.ErrNotFound, http.StatusNotFound, "blog_not_found",
			"The channel or the blog does not exist or was deleted.", ""},
		Failure{channels.ErrChanged, http.StatusPreconditionFailed, "blog_changed",
			"The blog has changed since you read it. Read it again before retrying.", ""})

	channelNotFound = Failure{channels.ErrNotFound, http.StatusNotFound, "channel_not_found",
		"The channel does not exist or was deleted.", ""}
	channelChanged = Failure{channels.ErrChanged, http.StatusPreconditionFailed, "channel_changed",
		"The channel has changed since you read it. Read it again before retrying.", ""}

	channelsFailures = []Failure{
		{channels.ErrOwned, http.StatusConflict, "channel_owned",
			"A channel of this name belongs to another owner. Choose another name.", ""},
		{channels.ErrNoCondition, http.StatusPreconditionRequired, "no_condition",
			"An update needs If-Match with the ETag of the blog that you read, so that it does not overwrite the work of others. If-Match: * overwrites any version.", ""},
		{channels.ErrCorrupt, http.StatusInternalServerError, "channel_corrupt",
			"A stored row was not written by this app. It is left unchanged until an operator repairs it; the log names the row.", ""},
		storageUnavailable,
	}

	storageUnavailable = Failure{nil, http.StatusServiceUnavailable, edge.CodeUnavailable,
		"Storage did not respond. Nothing was changed. Retry later.", "5"}
)

// The calls that concern batches.
var (
	BatchSubmitFailures = append([]Failure{
		{work.ErrName, http.StatusBadRequest, "bad_name",
			fmt.Sprintf("name must have at most %d bytes of UTF-8 and no control characters.", work.MaxName), ""},
		{work.ErrTooLarge, http.StatusRequestEntityTooLarge, "batch_too_large",
			"The batch has more bytes or items than KENNEL_BATCH_MAX_BYTES and KENNEL_BATCH_MAX_ITEMS allow. Nothing was queued. Split it.", ""},
		{work.ErrKeyReused, http.StatusConflict, "key_reused",
			"In the last 24 hours, this Idempotency-Key was sent with another batch. Nothing was queued. Use a new key for each batch.", ""},
		{table.ErrUnclear, http.StatusServiceUnavailable, "change_unclear",
			"Storage did not confirm the batch, which may be processed. Repeat the request with the same Idempotency-Key. If it had none, look for the batch in the list before you send it again.", "5"},
		{context.DeadlineExceeded, http.StatusServiceUnavailable, edge.CodeUnavailable,
			"The batch was not read and stored within the time limit of the call. Nothing was queued. Retry later, or split the batch.", "5"},
	}, BatchFailures...)

	BatchFailures = []Failure{
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
	letterFailures = []Failure{storageUnavailable}

	LetterMoveFailures = []Failure{
		{deadletters.ErrNoSource, http.StatusConflict, "source_missing",
			"The queue from which the messages came does not exist, so nothing was moved. Create the queue, or delete the dead letters.", ""},
		{errPartly, http.StatusServiceUnavailable, "change_unclear",
			"Storage rejected a request after some of the dead letters were moved or deleted. Retrying will not help until an operator fixes the cause; see the log.", "5"},
		storageUnavailable,
	}
)

// ScaleFailures are those of reads, and ScaleRulesFailures those of changes.
var (
	ScaleFailures = []Failure{
		{scalecheck.ErrNone, http.StatusNotFound, "scale_not_checked",
			"Scaling was not checked yet. The timer ScaleCheck and workers check it once a minute; if this lasts, search the log for \"cannot check scaling\".", ""},
		{scalecheck.ErrContinuation, http.StatusBadRequest, "bad_continuation",
			"The continuation is invalid. Begin the list again.", ""},
		storageUnavailable,
	}
	ScaleRulesFailures = []Failure{
		{table.ErrRefused, http.StatusServiceUnavailable, edge.CodeUnavailable, edge.Rejected, "5"},
		{nil, http.StatusServiceUnavailable, "change_unclear", unconfirmed, "5"},
	}
)

const unconfirmed = "Storage did not confirm the change, which may have been made. It is safe to repeat the request."

func unclear(message string) Failure {
	return Failure{channels.ErrUnclear, http.StatusServiceUnavailable, "change_unclear", message, "5"}
}

func concat(rows ...Failure) []Failure { return slices.Concat(rows, channelsFailures) }

// Serve turns the replies and errors of a call into answers.
func Serve(failures []Failure, do func(*http.Request) (edge.Reply, error)) http.Handler {
	return edge.Respond(answersTo(failures), func(r *http.Request) (edge.Reply, error) {
		answer, err := do(r)
		return answer, meaning(err)
	})
}

// meaning returns the error of a job in the words of the API, if it is about
// the input.
func meaning(err error) error {
	if input, ok := errors.AsType[*channels.InputError](err); ok {
		return edge.BadRequest("bad_"+input.Field, input.Error())
	}
	if items, ok := errors.AsType[*work.ItemErrors](err); ok {
		return invalidItems(items)
	}
	if rules, ok := errors.AsType[*scale.RulesError](err); ok {
		return &edge.BadItems{Code: "bad_rules", Message: err.Error(), Items: rules.Faults}
	}
	return err
}

// invalidItems returns the error of a submission with invalid items.
func invalidItems(e *work.ItemErrors) error {
	message := fmt.Sprintf("Nothing was queued, because of %d invalid items.", len(e.Items))
	switch {
	case len(e.Items) == 0:
		message = "The batch has no items."
	case e.More:
		message = fmt.Sprintf("Nothing was queued, because of invalid items. These are the first %d.", len(e.Items))
	case len(e.Items) == 1:
		message = "Nothing was queued, because of an invalid item."
	}
	return &edge.BadItems{Code: "bad_items", Message: message, Items: append([]work.ItemError{}, e.Items...)} // [] for none
}

// The answers to calls of what this app does not have, and to a creation of what
// exists. All answers to invalid input have a code that begins with "bad_", and
// status 400; they stand beside the check.
var (
	errBatchesOff = &customhandler.Error{Status: http.StatusNotImplemented, Code: "batches_off",
		Message: "This app has no tables or queues for batches. Name them in AzureWebJobsStorage; the app's log states what is missing."}
	errChannelsOff = &customhandler.Error{Status: http.StatusNotImplemented, Code: "channels_off",
		Message: "This app has no tables or queues for channels. Name them in AzureWebJobsStorage; the app's log states what is missing."}
	errLettersOff = &customhandler.Error{Status: http.StatusNotImplemented, Code: "dead_letters_off",
		Message: "This app has no tables or queues. Name them in AzureWebJobsStorage; the app's log states what is missing."}
	errScaleOff = &customhandler.Error{Status: http.StatusNotImplemented, Code: "scale_off",
		Message: "This app has no tables, so scaling is not checked. Name them in AzureWebJobsStorage; the app's log states what is missing."}
	errChannelExists = &customhandler.Error{Status: http.StatusPreconditionFailed, Code: "channel_exists",
		Message: "A channel of this name exists, and the request has If-None-Match: *."}
	errRelayOff = &customhandler.Error{Status: http.StatusNotImplemented, Code: "relay_off",
		Message: "This app has no secondary namespace, so there is no backlog. Name one in the setting ServiceBusSecondary."}
	errBusOff = &customhandler.Error{Status: http.StatusNotImplemented, Code: "bus_off",
		Message: "This app has no Service Bus, so it sends no messages. Name the namespace in the setting ServiceBus."}
)

// sendFailure returns the answer to a send that failed.
func sendFailure(e *relay.SendError) Failure {
	if e.Unclear {
		return Failure{nil, http.StatusGatewayTimeout, "send_unclear",
			"Service Bus did not confirm the message, which may have been stored. Send it again with the same MessageId: where duplicates are detected it is stored once, elsewhere perhaps twice.", ""}
	}
	class, cause := e.Class, e.Primary
	if second, ok := errors.AsType[*relay.Error](e.Secondary); ok && class == relay.Unavailable && slices.Contains([]relay.Class{relay.Denied, relay.Invalid, relay.TooLarge}, second.Class) {
		class, cause = second.Class, second // an outage of the primary is no news then
	}
	switch class {
	case relay.Invalid:
		return Failure{nil, http.StatusBadRequest, "bad_message", fmt.Sprintf("The message is invalid: %v.", withoutClass(cause)), ""}
	case relay.TooLarge:
		return Failure{nil, http.StatusRequestEntityTooLarge, "message_too_large",
			fmt.Sprintf("The message is too large: %v.", withoutClass(cause)), ""}
	case relay.NotFound:
		return Failure{nil, http.StatusNotFound, "entity_not_found",
			"The namespace of the setting ServiceBus has no such queue or topic, or it is disabled. Nothing was sent.", ""}
	case relay.Denied:
		return Failure{nil, http.StatusServiceUnavailable, "bus_denied",
			"Service Bus refused access, so nothing was sent. Retrying will not help until an operator fixes the cause; see the log.", deniedWait}
	case relay.Throttled:
		return Failure{nil, http.StatusServiceUnavailable, "bus_busy",
			"Service Bus is busy and accepts no more messages now. Nothing was sent. Retry later.", strconv.Itoa(busyWait(e))}
	case relay.Full:
		return Failure{nil, http.StatusServiceUnavailable, "bus_full",
			"The queue or topic is full, so nothing was sent. Retry after messages were received from it.", deniedWait}
	}
	return Failure{nil, http.StatusServiceUnavailable, "bus_unavailable",
		"Service Bus did not take the message in time. Nothing was sent. Retry later.", busWait}
}

// busyWait returns after how many seconds a busy namespace may be asked again.
func busyWait(e *relay.SendError) int {
	const least = 10 // as the SDKs of Service Bus wait
	return max(least, int(math.Ceil(e.RetryAfter.Seconds())))
}

// withoutClass returns the cause in an error of the relay.
func withoutClass(err error) error {
	if e, ok := errors.AsType[*relay.Error](err); ok {
		return e.Err
	}
	return err
}

// busUnavailable is the failure of a pass that moved nothing.
var busUnavailable = Failure{nil, http.StatusServiceUnavailable, "bus_unavailable",
	"The secondary namespace did not respond, so nothing was moved. Retry later.", busWait}

func syphonFailure(e *relay.Error) Failure {
	switch e.Class {
	case relay.Denied:
		return Failure{nil, http.StatusServiceUnavailable, "bus_denied",
			"The secondary namespace refused access, so nothing was moved. Retrying will not help until an operator fixes the cause; see the log.", deniedWait}
	case relay.Throttled:
		return Failure{nil, http.StatusServiceUnavailable, "bus_busy", "The secondary namespace is busy, so nothing was moved. Retry later.", "10"}
	}
	return busUnavailable
}
