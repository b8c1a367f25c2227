package servicebus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"kennel/internal/azure/identity"
	"kennel/relay"
)

// Conditions of Service Bus.
const (
	condBusy     = amqp.ErrCond("com.microsoft:server-busy")
	condDisabled = amqp.ErrCond("com.microsoft:entity-disabled")
	condLockLost = amqp.ErrCond("com.microsoft:message-lock-lost")
)

// clientFaults are the conditions that report a mistake in a message or in the
// name of an entity, or a missing right.
var clientFaults = map[amqp.ErrCond]relay.Class{
	amqp.ErrCondNotAllowed:                relay.Invalid,
	amqp.ErrCondDecodeError:               relay.Invalid,
	amqp.ErrCondInvalidField:              relay.Invalid,
	amqp.ErrCondNotImplemented:            relay.Invalid,
	"com.microsoft:argument-error":        relay.Invalid,
	"com.microsoft:argument-out-of-range": relay.Invalid,
	amqp.ErrCondUnauthorizedAccess:        relay.Denied,
	"com.microsoft:auth-failed":           relay.Denied,
}

// rpcError is an error of the SDK for a request to $cbs or $management. Its type
// is not exported.
type rpcError interface {
	error
	RPCCode() int
}

// classify returns the error of a call with its class. It has no addresses and
// no secrets.
func classify(ctx context.Context, err error) error {
	class := classOf(err)
	e := &relay.Error{Class: class, Err: cleanError(err)}
	switch {
	case isReleased(err):
		e.Err, e.Unsent = errReleased, true
	case class == relay.Throttled:
		e.After = hint(err)
	case class == relay.Unavailable && ctx.Err() != nil:
		// The SDK has several errors for a context that ended.
		e.Err = fmt.Errorf("no answer from Service Bus in time: %w", ctx.Err())
	case class == relay.Unavailable && errors.Is(err, context.Canceled):
		e.Err = errDisconnected // the line was cut off
	}
	return e
}

func classOf(err error) relay.Class {
	if errors.Is(err, azservicebus.ErrMessageTooLarge) {
		return relay.TooLarge
	}
	if isUnreadable(err) {
		return relay.Unreadable
	}
	if condition, ok := errors.AsType[*amqp.Error](err); ok {
		return classOfCondition(condition.Condition)
	}
	if coded, ok := errors.AsType[*azservicebus.Error](err); ok {
		return classOfCode(coded)
	}
	if rpc, ok := errors.AsType[rpcError](err); ok {
		return classOfStatus(rpc.RPCCode())
	}
	if response, ok := errors.AsType[*azcore.ResponseError](err); ok {
		if response.StatusCode == http.StatusBadRequest {
			return relay.Invalid // the name of the queue
		}
		return classOfStatus(response.StatusCode)
	}
	if failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && failed.RawResponse != nil {
		return relay.Denied
	}
	return relay.Unavailable
}

func classOfCondition(condition amqp.ErrCond) relay.Class {
	switch condition {
	case condBusy:
		return relay.Throttled
	case amqp.ErrCondMessageSizeExceeded:
		return relay.TooLarge
	case amqp.ErrCondNotFound, condDisabled:
		return relay.NotFound
	case amqp.ErrCondResourceLimitExceeded:
		return relay.Full
	case condLockLost:
		return relay.LockLost
	}
	if class, ok := clientFaults[condition]; ok {
		return class
	}
	return relay.Unavailable
}

func classOfCode(err *azservicebus.Error) relay.Class {
	switch err.Code {
	case azservicebus.CodeUnauthorizedAccess:
		return relay.Denied
	case azservicebus.CodeNotFound:
		return relay.NotFound
	case azservicebus.CodeLockLost:
		return relay.LockLost
	}
	// The SDK reports answers that it does not know as a lost connection. It
	// hides their cause, except in the text.
	text := err.Error()
	for condition, class := range clientFaults {
		if strings.Contains(text, "Condition: "+string(condition)) {
			return class
		}
	}
	if strings.Contains(text, "status code 403") {
		return relay.Denied
	}
	return relay.Unavailable
}

func classOfStatus(status int) relay.Class {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest:
		// A bad request for a token is no fault of the message that needs it.
		return relay.Denied
	case http.StatusNotFound:
		return relay.NotFound
	case http.StatusTooManyRequests:
		return relay.Throttled
	case http.StatusGone:
		return relay.LockLost
	}
	return relay.Unavailable
}

// isAnswer reports whether err is an answer of the bus, rather than a failure to
// reach it.
func isAnswer(err error) bool {
	if classOf(err) != relay.Unavailable {
		return true
	}
	_, isCondition := errors.AsType[*amqp.Error](err)
	_, isStatus := errors.AsType[rpcError](err)
	return isCondition || isStatus
}

// isRejection reports whether err is the answer to a message. A link that ended
// for the same reason does not show whether the messages on it arrived.
func isRejection(err error) bool {
	_, ended := errors.AsType[*amqp.LinkError](err)
	return !ended && classOf(err) != relay.Unavailable
}

// endsLink reports whether a sender may never work again after the error. Its
// connection may have ended, which the line learns a moment later. After a bare
// condition it works: only one message was rejected.
func endsLink(err error) bool {
	if _, ok := errors.AsType[*amqp.LinkError](err); ok {
		return true
	}
	_, ok := errors.AsType[*azservicebus.Error](err)
	return ok
}

// seconds matches how long a busy bus wants its clients to wait.
var seconds = regexp.MustCompile(`(?i)\bwait (\d{1,4}) seconds?\b`)

// hint returns how long the bus wants the client to wait, or 0.
func hint(err error) time.Duration {
	if match := seconds.FindStringSubmatch(err.Error()); match != nil {
		n, _ := strconv.Atoi(match[1])
		return time.Duration(n) * time.Second
	}
	return 0
}

// notSent marks an error of a call that did not send its message.
func notSent(err error) error {
	if e, ok := errors.AsType[*relay.Error](err); ok {
		e.Unsent = true
	}
	return err
}

// refusedSettings is the error for settings with which the SDK cannot connect.
func refusedSettings(err error) error {
	return &relay.Error{Class: relay.Denied, Unsent: true, Err: errors.New("open Service Bus: " + identity.OneLine(err))}
}

// isUnreadable reports whether the SDK panicked on a message.
func isUnreadable(err error) bool { return errors.Is(err, errUnreadable) }
