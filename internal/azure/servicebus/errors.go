// Package servicebus carries the signals of gates and queues over a topic of
// Azure Service Bus, and reaches the namespaces of package relay.
//
// # Delivery
//
// Signals: a topic delivers a signal at least once to every subscription that
// exists when the signal is published, and drops it after a minute. Signals may
// be lost, repeated or reordered.
//
// Messages of package relay: a send that returned nil stored the message. A
// message that was received is locked, and is delivered again unless it is
// settled before its lock ends.
//
// # Errors
//
// No error contains a query string, a key, a signature or a message body.
package servicebus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"kennel/internal/azure/identity"
)

// ErrDenied reports that this process lacks a right, or that the topic does not
// exist. Retrying does not help until an operator fixes the cause.
var ErrDenied = errors.New("denied by Service Bus")

// ErrNoTopic reports that the topic does not exist. Its errors are ErrDenied
// too.
var ErrNoTopic = errors.New("there is no such topic")

var (
	errDisconnected = errors.New("the connection to Service Bus broke") // the SDK returns neither messages nor an error
	errUnreadable   = errors.New("a message that the SDK cannot read")
)

// cleanError converts an error of the SDK to one line without addresses and
// secrets.
func cleanError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer from Service Bus in time")
	}
	if response, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return adminError(response.StatusCode)
	}
	if failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok {
		return errors.New("sign in to Service Bus: " + identity.OneLine(failed))
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("connect to the administration of Service Bus: %w", failed.Err)
	}
	if coded, ok := errors.AsType[*azservicebus.Error](err); ok && coded.Code == azservicebus.CodeUnauthorizedAccess {
		return fmt.Errorf("%w: this app has no right to listen or send, its identity or key is unknown, or the clock of this machine is wrong", ErrDenied)
	}
	if condition, ok := errors.AsType[*amqp.Error](err); ok { // its text is that of a Go value
		err = fmt.Errorf("%s: %s", condition.Condition, condition.Description)
	}
	return errors.New("call Service Bus: " + identity.OneLine(err))
}

// adminError explains an HTTP status of the administration.
func adminError(status int) error {
	answer := fmt.Sprintf("the administration answered %d %s", status, http.StatusText(status))
	switch status {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: %s: this app needs the role Azure Service Bus Data Owner, or a valid key of a shared access policy with Manage, and a correct clock", ErrDenied, answer)
	case http.StatusForbidden:
		return fmt.Errorf("%w: %s: the topic has reached its limit of subscriptions, or this app has no right to manage", ErrDenied, answer)
	case http.StatusBadRequest, http.StatusNotFound:
		return fmt.Errorf("%w: %s: %w, or the namespace has the Basic tier, which has no topics", ErrDenied, answer, ErrNoTopic)
	}
	return fmt.Errorf("create a subscription in Service Bus: %s", answer)
}

// isNotFound reports whether an entity does not exist or was deleted.
func isNotFound(err error) bool {
	if coded, ok := errors.AsType[*azservicebus.Error](err); ok {
		return coded.Code == azservicebus.CodeNotFound
	}
	condition, ok := errors.AsType[*amqp.Error](err)
	return ok && condition.Condition == amqp.ErrCondNotFound
}

// withoutPanic returns a panic of call as errUnreadable. The SDK panics on a
// message that has properties of unexpected types, and every sender can set
// them.
func withoutPanic(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errUnreadable, p)
		}
	}()
	return call()
}
