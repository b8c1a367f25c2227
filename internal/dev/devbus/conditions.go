package devbus

import (
	"strings"

	"kennel/internal/dev/devbus/amqp"
)

// Conditions and names that Service Bus adds to AMQP. Faults may use any
// other condition.
const (
	condLockLost        = "com.microsoft:message-lock-lost"
	condMessageNotFound = "com.microsoft:message-not-found"
	condSessionLockLost = "com.microsoft:session-lock-lost"
	condSessionLocked   = "com.microsoft:session-cannot-be-locked"
	condTimeout         = "com.microsoft:timeout"
	condServerBusy      = "com.microsoft:server-busy"
	condEntityDisabled  = "com.microsoft:entity-disabled"
	condArgument        = "com.microsoft:argument-error"

	nameSessionFilter     = "com.microsoft:session-filter"
	nameSessionLockedTill = "com.microsoft:locked-until-utc"
	nameMaxBatchSize      = "com.microsoft:max-message-batch-size"
	nameTimeout           = "com.microsoft:timeout"

	codeSessionFilter uint64 = 0x0000137000000C
)

// unknown is the error for an entity that does not exist. It names the URI of
// the entity, whether the client gave a path or a URL.
func (b *Broker) unknown(address string) *amqp.Error {
	_, uri, isURL := strings.Cut(address, "://")
	if !isURL {
		uri = b.namespace + "/" + strings.Trim(address, "/")
	}
	return amqp.Errorf(amqp.CondNotFound, "The messaging entity 'sb://%s' could not be found.", uri)
}

func (e *entity) full() *amqp.Error {
	return amqp.Errorf(amqp.CondResourceLimit, "The maximum entity size has been reached or exceeded for '%s'.", e.path)
}

func (e *entity) disabled() *amqp.Error {
	return amqp.Errorf(condEntityDisabled, "The messaging entity '%s' is disabled.", e.path)
}
