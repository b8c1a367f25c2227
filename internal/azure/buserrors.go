package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// ErrDenied says that this process may not do with Service Bus what it has to,
// or that what it needs is not there. Asking again soon does not help.
var ErrDenied = errors.New("Service Bus cannot be used like that")

// busFailed turns what the SDK returned into what this package returns: a
// line, without bodies and addresses.
func busFailed(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("Service Bus gave no answer in time")
	}
	if refusal, ok := errors.AsType[*azcore.ResponseError](err); ok {
		text := fmt.Sprintf("the administration of Service Bus answers %d %s", refusal.StatusCode, http.StatusText(refusal.StatusCode))
		switch refusal.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Errorf("%w: %s: this app needs the right to manage (the role Azure Service Bus Data Owner, or a shared access policy with Manage), or the topic has as many subscriptions as it may", ErrDenied, text)
		case http.StatusBadRequest, http.StatusNotFound:
			return fmt.Errorf("%w: %s: there is no such topic, or the namespace is of the Basic tier, which has none", ErrDenied, text)
		}
		return errors.New(text)
	}
	if failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok {
		return errors.New("sign in to Service Bus: " + oneLine(failed))
	}
	if coded, ok := errors.AsType[*azservicebus.Error](err); ok && coded.Code == azservicebus.CodeUnauthorizedAccess {
		return fmt.Errorf("%w: this app is not known there, or has no right to listen or send", ErrDenied)
	}
	return errors.New("Service Bus: " + oneLine(err))
}

// isGone says that an entity does not exist, or no longer.
func isGone(err error) bool {
	if coded, ok := errors.AsType[*azservicebus.Error](err); ok {
		return coded.Code == azservicebus.CodeNotFound
	}
	condition, ok := errors.AsType[*amqp.Error](err)
	return ok && condition.Condition == amqp.ErrCondNotFound
}
