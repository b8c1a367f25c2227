package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kennel/internal/names"
)

// PoisonSuffix turns the name of a queue into that of its dead-letter queue. The
// Functions host uses the same.
const PoisonSuffix = names.PoisonSuffix

// DeadLetter is a message that goes to the dead-letter queue, whole, with the
// reason. A move is a put and then a delete, so after a crash or a lost reply a
// dead letter may be there twice: with the same Queue and Message.
type DeadLetter struct {
	Queue    string    // where it came from
	Message  string    // Message.ID there
	Reason   string    // why it is moved
	Attempts int64     // that were made
	At       time.Time // of the move
	Text     string    // Message.Body
}

// storedLetter is a DeadLetter as it is stored.
type storedLetter struct {
	Version  int       `json:"v"`
	Queue    string    `json:"queue"`
	Message  string    `json:"message"`
	Reason   string    `json:"reason"`
	Attempts int64     `json:"attempts,omitempty"`
	At       time.Time `json:"at"`
	Text     string    `json:"text"`
}

const letterVersion = 1

// Encode returns the body of a message that ReadDeadLetter decodes. If the text
// leaves no space for the reason, even without its end, the body is the text
// alone, as the Functions host stores it.
func (d DeadLetter) Encode() (body string) {
	for _, reason := range []int{1000, 100} { // bytes
		s := storedLetter{letterVersion, d.Queue, d.Message, d.Reason, d.Attempts, d.At.UTC(), d.Text}
		if len(s.Reason) > reason {
			s.Reason = s.Reason[:reason] + " …"
		}
		text, err := json.Marshal(s)
		if err == nil && checkBody(string(text)) == nil {
			return string(text)
		}
	}
	return d.Text
}

// ReadDeadLetter decodes the body of a message in a dead-letter queue. An error
// means that it has another format: another codec or the Functions host put it
// there.
func ReadDeadLetter(body string) (DeadLetter, error) {
	var s storedLetter
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		return DeadLetter{}, fmt.Errorf("read a dead letter: %w", err)
	}
	if s.Version != letterVersion || s.Queue == "" || s.Message == "" {
		return DeadLetter{}, errors.New("read a dead letter: it has another format")
	}
	return DeadLetter{s.Queue, s.Message, s.Reason, s.Attempts, s.At, s.Text}, nil
}
