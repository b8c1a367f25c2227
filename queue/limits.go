package queue

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Azure's limits for queues, some of which the Azurite emulator does not check.
const (
	MaxBody       = 64 << 10           // bytes of a body
	MaxReceive    = 32                 // messages of one Receive or Peek
	MaxVisibility = 7 * 24 * time.Hour // of one lease
	TimeToLive    = 7 * 24 * time.Hour // of a message
)

// MaxContent is the length of the body that a message stands for, with a claim.
const MaxContent = 64 << 20

// CheckPut returns ErrLimit for a message that Azure would reject, or that
// would expire before its delay is over.
func CheckPut(queue, body string, delay time.Duration) error {
	err := cmp.Or(CheckName(queue), checkBody(body))
	if err == nil && (delay < 0 || WholeSeconds(delay) >= TimeToLive) {
		err = fmt.Errorf("delay of %v: use 0 to less than 7 days, after which the message expires: %w", delay, ErrLimit)
	}
	return err
}

// CheckReceive returns ErrLimit for a Receive that Azure would reject.
func CheckReceive(queue string, max int, visibility time.Duration) error {
	err := CheckPeek(queue, max)
	if err == nil && (visibility <= 0 || visibility > MaxVisibility) {
		err = fmt.Errorf("visibility of %v: use more than 0, up to 7 days: %w", visibility, ErrLimit)
	}
	return err
}

// CheckPeek returns ErrLimit for a Peek that Azure would reject.
func CheckPeek(queue string, max int) error {
	err := CheckName(queue)
	if err == nil && (max < 1 || max > MaxReceive) {
		err = fmt.Errorf("%d messages at once: use 1 to %d: %w", max, MaxReceive, ErrLimit)
	}
	return err
}

// CheckUpdate returns ErrLimit for an Update that Azure would reject.
func CheckUpdate(queue, body string, visibility time.Duration) error {
	err := cmp.Or(CheckName(queue), checkBody(body))
	if err == nil && (visibility < 0 || visibility > MaxVisibility) {
		err = fmt.Errorf("visibility of %v: use 0 to 7 days: %w", visibility, ErrLimit)
	}
	return err
}

// WholeSeconds rounds up to seconds, the service's unit.
func WholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// CheckName returns ErrLimit for a name that no queue can have. Each request
// checks its name, so there is no regular expression.
func CheckName(queue string) error {
	valid := len(queue) >= 3 && len(queue) <= 63 && !strings.HasSuffix(queue, "-")
	before := '-' // as if a hyphen preceded the name
	for _, c := range queue {
		valid = valid && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' && before != '-')
		before = c
	}
	if !valid {
		return fmt.Errorf("queue name %.80q: use 3 to 63 lower-case letters, digits and single inner hyphens: %w", queue, ErrLimit)
	}
	return nil
}

// checkBody also rejects characters that XML cannot hold. Messages are sent as
// XML, and Azure's client would silently change such characters.
func checkBody(body string) error {
	if len(body) > MaxBody {
		return fmt.Errorf("body of %d bytes is longer than %d: %w", len(body), MaxBody, ErrLimit)
	}
	if !utf8.ValidString(body) || strings.ContainsFunc(body, notXML) {
		return fmt.Errorf("the body holds characters that cannot be stored; encode it, for example as base64: %w", ErrLimit)
	}
	return nil
}

func notXML(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
}
