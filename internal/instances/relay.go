package instances

import "time"

// RelaySection has the queues and topics to which a process sends, those that do
// not work first.
var RelaySection = List("relay", &Items[RelayEntity]{
	Texts: func(e *RelayEntity) []*string { return []*string{&e.LastError} },
	Shift: func(e *RelayEntity, d time.Duration) { e.Since = e.Since.Add(d) },
})

// RelayEntity is a queue or topic of Service Bus as a process that sends to it
// sees it.
type RelayEntity struct {
	Entity    string    `json:"entity"`
	State     string    `json:"state"` // "healthy", "suspect" or "failedOver"
	Since     time.Time `json:"since"`
	Throttled bool      `json:"throttled,omitempty"` // sends wait, because the namespace is busy
	LastError string    `json:"error,omitempty"`     // of the primary namespace
}

// BacklogSection has the newest sample that a process made; nil for none.
var BacklogSection = newSection("backlog", &Items[backlogItem]{
	Shift: func(i *backlogItem, d time.Duration) { i.At = i.At.Add(d) },
}, backlogItems, backlogOf, func(_, b *Backlog) *Backlog { return b })

// Backlog is a sample of the messages that wait in the secondary namespace.
type Backlog struct {
	At       time.Time
	More     bool            // there are more messages, of these entities or others
	Entities []BacklogEntity // those whose oldest message is the oldest first
}

// BacklogEntity is a queue or topic for which messages wait.
type BacklogEntity struct {
	Entity        string  `json:"entity"`
	Messages      int64   `json:"n"`
	OldestSeconds float64 `json:"oldest"` // since the oldest of them was stored
}

// backlogItem is an item of the column: the first one is the sample as a whole,
// and each other one an entity.
type backlogItem struct {
	At    time.Time `json:"at,omitzero"`
	More  bool      `json:"more,omitempty"`
	Count int       `json:"count,omitempty"` // of the entities, of which the column may lack the last ones
	*BacklogEntity
}

func backlogItems(b *Backlog) (items []backlogItem) {
	if b == nil {
		return nil
	}
	items = append(items, backlogItem{At: b.At, More: b.More, Count: len(b.Entities)})
	for i := range b.Entities {
		items = append(items, backlogItem{BacklogEntity: &b.Entities[i]})
	}
	return items
}

func backlogOf(items []backlogItem) *Backlog {
	if len(items) == 0 {
		return nil
	}
	b := &Backlog{At: items[0].At, More: items[0].More || len(items)-1 < items[0].Count}
	for _, i := range items[1:] {
		if i.BacklogEntity != nil {
			b.Entities = append(b.Entities, *i.BacklogEntity)
		}
	}
	return b
}

// SendSection counts the messages that a process sent.
var SendSection = One[Sends]("sends", nil)

// Sends counts the messages for Service Bus of a process since it started, by
// their end. Each count only grows.
type Sends struct {
	Primary   int64 `json:"primary,omitempty"` // stored where they belong
	Backlog   int64 `json:"backlog,omitempty"` // stored in the backlog
	Failed    int64 `json:"failed,omitempty"`
	Ambiguous int64 `json:"ambiguous,omitempty"` // attempts without an answer: each may have stored a copy
	Throttled int64 `json:"throttled,omitempty"` // attempts
	Failovers int64 `json:"failovers,omitempty"`
	Failbacks int64 `json:"failbacks,omitempty"`

	// The messages in the backlog, by their end.
	Moved        int64 `json:"moved,omitempty"`
	DeadLettered int64 `json:"dead,omitempty"`
	Expired      int64 `json:"expired,omitempty"`
}
