package model

import "encoding/json"

// Item is one item of a batch.
type Item struct {
	ID   string          // unique in the batch
	Data json.RawMessage // the whole item, compact JSON

	Batch string // for [Processor.Process]: the batch of the item,
	Try   int    // and which attempt of it this is, from 1
}

// Outcome is how an item ended.
type Outcome string

// The outcomes of an item.
const (
	ItemDone     Outcome = "done"
	ItemRejected Outcome = "rejected" // the item itself is unusable
	ItemFailed   Outcome = "failed"   // its last try failed
)

// Result is how one item ended.
type Result struct {
	ID      string          `json:"id"`
	Outcome Outcome         `json:"outcome"`
	Result  json.RawMessage `json:"result,omitempty"` // what the processor returned, if the item is done
	Error   string          `json:"error,omitempty"`
}

// ItemErrors reports that a batch was not accepted because items are invalid.
type ItemErrors struct {
	Items []ItemError // the first MaxItemErrors
	More  bool        // there are others
}

// ItemError is one invalid item. Lines, or elements of an array, count from 1.
type ItemError struct {
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// Error implements error.
func (e *ItemErrors) Error() string {
	if len(e.Items) == 0 {
		return "the batch has no items"
	}
	return "invalid items"
}
