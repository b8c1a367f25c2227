package customhandler

import "time"

// QueueMessage is a storage queue message on its way through a queue trigger.
// All but Text is advisory: a payload may have replaced it (see Metadata), and an administrator's run leaves it zero.
type QueueMessage struct {
	Text         string // exactly what the sender sent, the queue's base64 removed; base64 if dataType is "binary"
	ID           string
	PopReceipt   string // stale after five minutes; never delete the message with it
	DequeueCount int64
	Inserted     time.Time
	Expires      time.Time
	NextVisible  time.Time
	Metadata     Metadata // as received; ignored when an envelope is built
}

func decodeQueue(e Envelope, binding string) (QueueMessage, error) {
	raw, err := e.data(binding)
	if err != nil {
		return QueueMessage{}, err
	}
	md := Metadata(e.Metadata)
	return QueueMessage{
		Text:         textOf(raw),
		ID:           md.Text("Id"),
		PopReceipt:   md.Text("PopReceipt"),
		DequeueCount: md.Int("DequeueCount"),
		Inserted:     md.Time("InsertionTime"),
		Expires:      md.Time("ExpirationTime"),
		NextVisible:  md.Time("NextVisibleTime"),
		Metadata:     md,
	}, nil
}
