package model

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"time"
)

// A batch's ID is the time of its submission to the millisecond, so that IDs
// are in the order of time, and random letters.
const (
	idTime    = "20060102150405.000" // without the dot
	idDigits  = len(idTime) - 1
	idLetters = 8
)

var isID = regexp.MustCompile(fmt.Sprintf(`^[0-9]{%d}-[a-z]{%d}$`, idDigits, idLetters))

// NewID returns the ID of a batch that is submitted at a time.
func NewID(at time.Time) string {
	letters := make([]byte, idLetters)
	for i := 0; i < idLetters; {
		var random [2 * idLetters]byte
		rand.Read(random[:])
		for _, r := range random {
			if r < 234 && i < idLetters { // 9 times 26: each letter is as likely
				letters[i] = 'a' + r%26
				i++
			}
		}
	}
	return IdAt(at) + "-" + string(letters)
}

// IdAt returns the beginning of the IDs of batches submitted at a time.
func IdAt(at time.Time) string {
	text := at.UTC().Format(idTime)
	return text[:idDigits-3] + text[idDigits-2:]
}

// IdTimeOf returns when the batch with this ID was submitted.
func IdTimeOf(id string) (time.Time, error) {
	err := CheckID(id)
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(idTime, id[:idDigits-3]+"."+id[idDigits-3:idDigits])
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not the ID of a batch: %w", id, ErrNotFound)
	}
	return at, nil
}

// CheckID returns ErrNotFound for a text that cannot be the ID of a batch.
func CheckID(id string) error {
	if !isID.MatchString(id) {
		return fmt.Errorf("%.80q is not the ID of a batch: %w", id, ErrNotFound)
	}
	return nil
}
