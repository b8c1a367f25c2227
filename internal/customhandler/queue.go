package customhandler

import "time"

// QueueMessage is a storage queue message of a queue trigger. Rely on Text
// only: a payload may have replaced the other fields (see Metadata), and if an
// administrator runs the function they are zero, or times in the year 9999.
type QueueMessage struct {
	Text         string // as the sender sent it, the queue's base64 removed; base64 if dataType is "binary"
	ID           string
	PopReceipt   string // stale after five minutes; never delete the message with it
	DequeueCount int64
	Inserted     time.Time
	Expires      time.Time
	NextVisible  time.Time
	Metadata     Metadata // as received; Trigger ignores it
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
