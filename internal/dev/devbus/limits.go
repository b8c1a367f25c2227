package devbus

import (
	"unicode/utf8"

	"kennel/internal/dev/devbus/amqp"
)

// This file holds the service's limits of messages. Their errors are those that
// users of the service report, unless a comment marks them as a guess.

const (
	// The largest messages by default, in bytes.
	standardMaxMessage = 256 << 10
	premiumMaxMessage  = 1 << 20
	// maxBatch is the largest batch, even where messages may be larger.
	maxBatch = 1 << 20

	maxIDLength   = 128      // characters of a message-id, session id or partition key
	maxProperty   = 32 << 10 // bytes of an application property
	maxProperties = 64 << 10 // bytes of everything but the body
)

// read returns the messages of a transfer, or the error that rejects them.
func (e *entity) read(format uint32, b []byte) ([]*content, *amqp.Error) {
	batch, err := parseTransfer(format, b)
	if err != nil {
		return nil, amqp.Errorf(amqp.CondDecodeError, "%v", err)
	}
	for _, c := range batch {
		if err := c.check(e.settings.MaxMessageBytes); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// check returns an error if the message exceeds a limit.
func (c *content) check(maxMessage int64) *amqp.Error {
	id, _ := c.id.(string)
	for _, limited := range []struct{ name, value string }{{"MessageId", id}, {"SessionId", c.session}, {"PartitionKey", c.partition}} {
		if utf8.RuneCountInString(limited.value) > maxIDLength {
			// This condition is not confirmed. The SDK for .NET turns it into
			// the exception that it throws itself for such an id.
			return amqp.Errorf(condArgument, "The length of '%s' exceeds the limit of %d characters.", limited.name, maxIDLength)
		}
	}
	size := c.size()
	switch {
	case c.hasSession && c.partition != "" && c.partition != c.session:
		// Not confirmed, as above.
		return amqp.Errorf(amqp.CondNotAllowed, "The value of 'PartitionKey' must be equal to 'SessionId' if both are set.")
	case c.largest > maxProperty:
		return amqp.Errorf(amqp.CondInternal, "The service was unable to process the request; please retry the operation.")
	case size-int64(len(c.body)) > maxProperties:
		return amqp.Errorf(amqp.CondMessageSize, "A serialization error occurred while processing the message header stream: The size quota for this stream (%d) has been exceeded.", maxProperties)
	case size > maxMessage:
		return tooLarge(0, size, maxMessage)
	}
	return nil
}

func tooLarge(delivery uint32, size, limit int64) *amqp.Error {
	return amqp.Errorf(amqp.CondMessageSize, "The received message (delivery-id:%d, size:%d bytes) exceeds the limit (%d bytes) currently allowed on the link.", delivery, size, limit)
}
