package format

import (
	"encoding/json"
	"errors"
	"time"
)

// The items that are tried again are recorded in the batch's row, so that a
// batch shows why it does not advance. The write that counts the results of a
// try records what remains of it, so that costs no request. It is bounded in
// size and number, and is no part of the promise: what a later delivery counts
// is not recorded.

// Retry is the items of one parcel that are tried again.
type Retry struct {
	Parcel int       `json:"parcel"`
	Try    int       `json:"try"`
	Items  int       `json:"items"` // that remain
	Item   string    `json:"item"`  // one of those with the most attempts
	Error  string    `json:"error"`
	NextAt time.Time `json:"nextAt"`

	Attempts    int `json:"attempts"` // of Item; 0: it was only put off
	MaxAttempts int `json:"of"`
}

const (
	retryingColumn = "retrying"
	MaxRetries     = 10  // entries of a row; about 4 KiB
	MaxRetryError  = 200 // bytes
)

// retries are the entries of a row.
type retries []Retry

func (r retries) Text() string {
	if len(r) == 0 {
		return ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot occur: numbers, times and valid texts
	}
	return string(text)
}

// readRetries reads the column, which builds that do not know it drop.
func readRetries(text string) (r retries, err error) {
	if text == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(text), &r)
	return r, err
}

// EndRetry is what is known of calls after the end of a batch that failed. The zero
// value is none.
type EndRetry struct {
	Tries  int       `json:"tries"` // that failed
	NextAt time.Time `json:"nextAt"`
	Error  string    `json:"error"` // of the last one
}

const endColumn = "end"

// Text returns the column.
func (r EndRetry) Text() string {
	if r == (EndRetry{}) {
		return ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot occur: a number, a time and a valid text
	}
	return string(text)
}

func readEndRetry(text string) (r EndRetry, err error) {
	if text == "" {
		return EndRetry{}, nil
	}
	if err = json.Unmarshal([]byte(text), &r); err == nil && r.Tries < 1 {
		err = errors.New("no tries")
	}
	return r, err
}
