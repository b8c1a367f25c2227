package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/names"
	"kennel/relay"
)

// SendTimeout is how long a send is tried.
const SendTimeout = 30 * time.Second

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
