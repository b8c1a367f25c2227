package relay

import (
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// The sections of AMQP, with their names in the SDK.
type (
	// Message is a message with all sections of AMQP.
	Message = azservicebus.AMQPAnnotatedMessage

	Properties = azservicebus.AMQPAnnotatedMessageProperties
	Header     = azservicebus.AMQPAnnotatedMessageHeader
	Body       = azservicebus.AMQPAnnotatedMessageBody
)

// Names of annotations that a caller may set.
const (
	ScheduledTime = "x-opt-scheduled-enqueue-time" // time.Time: when the message appears in its entity
	PartitionKey  = "x-opt-partition-key"          // string: chooses a partition
)

// CheckEntity returns an error if a name is not that of a queue or topic.
func CheckEntity(name string) error {
	if len(name) > maxEntity || !entityName.MatchString(name) {
		return fmt.Errorf("the entity name %.300q is invalid: use at most %d letters, digits, '.', '-', '_' and '/', with a letter or digit at both ends", name, maxEntity)
	}
	return nil
}
