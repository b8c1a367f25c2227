package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/names"
	"kennel/relay"
)

// SendTimeout is how long a send is tried.
const SendTimeout = 30 * time.Second

// busWait and deniedWait are values of Retry-After: after an outage, which may
// end at any time, and after a failure that an operator has to mend.
const (
	busWait    = "5"
	deniedWait = "60"
)

// sentMessage is the answer to a send.
type sentMessage struct {
	MessageID string `json:"messageId"`
	SentTo    string `json:"sentTo"` // "primary" or "backlog"
}

// sendResource sends messages.
type sendResource struct{ relay sender }

// A sender is the relay of this process; nil without Service Bus.
type sender interface {
	Send(ctx context.Context, entity string, m *relay.Message) (relay.Receipt, error)
}

// serveSend serves POST /api/messages/{entity}. The body is sent as it is.
func (s sendResource) serveSend(w http.ResponseWriter, r *http.Request) {
	answer, err := s.sendMessage(r)
	if failed, ok := errors.AsType[*relay.SendError](err); ok {
		edge.WriteFailure(w, r, answersTo([]Failure{sendFailure(failed)}), err)
		return
	}
	Serve(nil, func(*http.Request) (edge.Reply, error) { return answer, err }).ServeHTTP(w, r)
}

func (s sendResource) sendMessage(r *http.Request) (edge.Reply, error) {
	// Service Bus ignores the case of names; with one spelling there is one state.
	entity := strings.ToLower(strings.ReplaceAll(r.PathValue("entity"), "~", "/"))
	if err := checkTarget(entity); err != nil {
		return edge.Reply{}, err
	}
	m, err := messageOf(r.Header)
	if err != nil {
		return edge.Reply{}, err
	}
	if s.relay == nil {
		return edge.Reply{}, errBusOff
	}
	// The host drops a chunked body. A caller that sends none on purpose has no
	// reason to describe it.
	if r.ContentLength == 0 && m.Properties.ContentType != nil {
		return edge.Reply{}, customhandler.RequireBody(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return edge.Reply{}, err
	}
	m.Body = relay.Body{Data: [][]byte{body}}
	ctx, cancel := context.WithTimeout(r.Context(), SendTimeout)
	defer cancel()
	receipt, err := s.relay.Send(ctx, entity, m)
	if err != nil {
		return edge.Reply{}, err
	}
	id, _ := receipt.MessageID.(string) // messageOf sets no other type
	sent := sentMessage{MessageID: id, SentTo: "primary"}
	if receipt.Backlog {
		sent.SentTo = "backlog"
	}
	return edge.Reply{Status: http.StatusCreated, Body: sent}, nil
}

// checkTarget returns an error if messages cannot be sent to an entity, or must
// not, because it is the app's own.
func checkTarget(entity string) error {
	if err := relay.CheckEntity(entity); err != nil {
		return edge.BadRequest("bad_entity", "The name of the queue or topic is invalid: use at most 260 letters, digits, '.', '-' and '_', with a letter or digit at both ends, and ~ for each slash.")
	}
	if entity == names.SignalsTopic {
		return edge.BadRequest("bad_entity", "The topic "+names.SignalsTopic+" carries the app's own signals. Use another one.")
	}
	return nil
}

var errBusOff = &customhandler.Error{Status: http.StatusNotImplemented, Code: "bus_off",
	Message: "This app has no Service Bus, so it sends no messages. Name the namespace in the setting ServiceBus."}

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
