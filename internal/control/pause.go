// Package control is what people change about how a program runs, in all of its
// processes: so far, what they have paused.
package control

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// Pause is that a person has paused a queue or a timer.
type Pause struct {
	At     time.Time `json:"at"`
	By     Person    `json:"by"`
	Reason string    `json:"reason"`
}

// Person is who made a change.
type Person struct {
	Name     string `json:"name"`
	Verified bool   `json:"verified"` // the platform has signed the person in; otherwise the caller chose the name
}

// Limits of a pause, in characters.
const (
	MaxName   = 200
	MaxReason = 1000
)

// Text returns a pause as the value of a column; "" for nil.
func (p *Pause) Text() string {
	if p == nil {
		return ""
	}
	text, _ := json.Marshal(p) // a struct of texts and a time always has a JSON form
	return string(text)
}

// ParsePause reads what [Pause.Text] returned.
func ParsePause(text string) (*Pause, error) {
	if text == "" {
		return nil, nil
	}
	p := &Pause{}
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return nil, err
	}
	if p.At.IsZero() {
		return nil, errors.New("the pause has no time")
	}
	return p, nil
}

// Cut returns the pause with texts that fit into a row.
func (p Pause) Cut() Pause {
	p.By.Name, p.Reason = cut(p.By.Name, MaxName), cut(p.Reason, MaxReason)
	return p
}

func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "�")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most])
}
