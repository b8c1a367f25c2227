package servicebus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"kennel/internal/azure/identity"
	"kennel/relay"
)

// neverISO is how the service writes that messages never expire, or that an
// entity is never deleted.
const neverISO = "P10675199DT2H48M5.4775807S"

// Ensure implements [relay.Queues].
func (r *Relay) Ensure(ctx context.Context, queue string) error {
	_, err := r.connector.admin.CreateQueue(ctx, queue, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{
		LockDuration:                     to.Ptr("PT1M"),
		MaxDeliveryCount:                 to.Ptr[int32](math.MaxInt32), // no outage of the primary may dead-letter the backlog
		MaxSizeInMegabytes:               to.Ptr[int32](5120),
		DefaultMessageTimeToLive:         to.Ptr(neverISO),
		AutoDeleteOnIdle:                 to.Ptr(neverISO),
		DeadLetteringOnMessageExpiration: to.Ptr(true),
		EnableBatchedOperations:          to.Ptr(true),
		RequiresSession:                  to.Ptr(false),
	}})
	if response, ok := errors.AsType[*azcore.ResponseError](err); ok && response.StatusCode == http.StatusConflict && !inProgress(response) {
		return nil
	}
	return administered("create queue "+queue, err)
}

// inProgress reports whether a conflict is not with an existing queue, but with
// another request that creates or deletes it.
func inProgress(conflict *azcore.ResponseError) bool {
	return strings.Contains(conflict.Error(), "SubCode=40901")
}

// Depth implements [relay.Queues].
func (r *Relay) Depth(ctx context.Context, queue string) (int64, error) {
	counts, err := r.connector.admin.GetQueueRuntimeProperties(ctx, queue, nil)
	switch {
	case err != nil:
		return 0, administered("count the messages of queue "+queue, err)
	case counts == nil:
		return 0, &relay.Error{Class: relay.NotFound, Err: fmt.Errorf("count the messages of queue %s: it does not exist", queue)}
	}
	return int64(counts.ActiveMessageCount), nil
}

// administered returns the error of an administrative request, classified,
// without addresses and secrets.
func administered(what string, err error) error {
	if err == nil {
		return nil
	}
	cause := errors.New(identity.OneLine(err))
	if response, ok := errors.AsType[*azcore.ResponseError](err); ok {
		cause = fmt.Errorf("the administration answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
		if response.StatusCode == http.StatusUnauthorized {
			cause = fmt.Errorf("%w: this app needs the role Azure Service Bus Data Owner, or a valid key of a shared access policy with Manage, and a correct clock", cause)
		}
	} else if failed, ok := errors.AsType[*url.Error](err); ok {
		cause = failed.Err
	} else if errors.Is(err, context.DeadlineExceeded) {
		cause = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	}
	return &relay.Error{Class: classOf(err), Err: fmt.Errorf("%s: %w", what, cause)}
}
