// Package servicebus reaches Azure Service Bus: the signals of gates over a
// topic.
//
// # Errors
//
// No error holds an address with its query, a key, a signature or a body.
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

// ErrDenied says that this process may not do with Service Bus what it has to,
// or that what it needs is not there. Asking again soon does not help.
var ErrDenied = errors.New("denied by Service Bus")

// busFailed turns what the SDK returned into what this package returns: one
// line, without addresses and without secrets.
func busFailed(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer from Service Bus in time")
	}
	if refusal, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return adminFailed(refusal.StatusCode)
	}
	if failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok {
		return errors.New("sign in to Service Bus: " + identity.OneLine(failed))
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("reach the administration of Service Bus: %w", failed.Err)
	}
	if coded, ok := errors.AsType[*azservicebus.Error](err); ok && coded.Code == azservicebus.CodeUnauthorizedAccess {
		return fmt.Errorf("%w: this app is not known there or has no right to listen or send, or the clock of this machine is wrong", ErrDenied)
	}
	return errors.New("talk to Service Bus: " + identity.OneLine(err))
}

// adminFailed says what a refusal by the administration of the namespace means.
func adminFailed(status int) error {
	said := fmt.Sprintf("its administration answers %d %s", status, http.StatusText(status))
	switch status {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: %s: this app needs the right to manage (the role Azure Service Bus Data Owner, or a shared access policy with Manage, whose key has not been renewed), and a clock that is right", ErrDenied, said)
	case http.StatusForbidden:
		return fmt.Errorf("%w: %s: the topic has as many subscriptions as it may, or this app has no right to manage", ErrDenied, said)
	case http.StatusBadRequest, http.StatusNotFound:
		return fmt.Errorf("%w: %s: there is no such topic, or the namespace is of the Basic tier, which has none", ErrDenied, said)
	}
	return fmt.Errorf("make a subscription in Service Bus: %s", said)
}

// isGone says that an entity does not exist, or no longer.
func isGone(err error) bool {
	if coded, ok := errors.AsType[*azservicebus.Error](err); ok {
		return coded.Code == azservicebus.CodeNotFound
	}
	condition, ok := errors.AsType[*amqp.Error](err)
	return ok && condition.Condition == amqp.ErrCondNotFound
}
