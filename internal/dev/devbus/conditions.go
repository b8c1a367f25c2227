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
	condAuthFailed      = "com.microsoft:auth-failed"

	nameSessionFilter     = "com.microsoft:session-filter"
	nameSessionLockedTill = "com.microsoft:locked-until-utc"
	nameMaxBatchSize      = "com.microsoft:max-message-batch-size"
	nameTimeout           = "com.microsoft:timeout"

	codeSessionFilter uint64 = 0x0000137000000C
)

// uri returns the form in which errors show an address, which may be a path or
// a URL.
func (b *Broker) uri(address string) string {
	_, rest, isURL := strings.Cut(address, "://")
	if !isURL {
		rest = b.namespace + "/" + strings.Trim(address, "/")
	}
	return "sb://" + rest
}

func (b *Broker) unknown(address string) *amqp.Error {
	return amqp.Errorf(amqp.CondNotFound, "The messaging entity '%s' could not be found.", b.uri(address))
}

func (e *entity) full() *amqp.Error {
	return amqp.Errorf(amqp.CondResourceLimit, "The maximum entity size has been reached or exceeded for '%s'.", e.path)
}

func (e *entity) disabled() *amqp.Error {
	return amqp.Errorf(condEntityDisabled, "The messaging entity '%s' is disabled.", e.path)
}
