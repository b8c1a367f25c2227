package scale

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// members are the names of all members of rules.
var members = []string{
	"version", "instances", "min", "max", "step", "coolDown", "startUp", "finish", "cpu", "depth", "ageSeconds",
	"from", "below", "hands", "windows", "days", "to", "zone", "lead",
}

// checkMembers requires one JSON object whose members are known and written once
// in each object. The decoder would take a misspelt case for another member, and
// the last of two members.
func checkMembers(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := checkValue(decoder); err != nil {
		return fmt.Errorf("the rules are not a valid rule table: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the rules are followed by something else; use one JSON object")
	}
	if text = bytes.TrimSpace(text); text[0] != '{' {
		return errors.New("the rules are not a JSON object")
	}
	return nil
}

// checkValue reads one value.
func checkValue(decoder *json.Decoder) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		for decoder.More() {
			if err := checkValue(decoder); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		var seen []string
		for decoder.More() {
			token, err := decoder.Token()
			if err != nil {
				return err
			}
			name, _ := token.(string)
			switch {
			case !slices.Contains(members, name):
				return fmt.Errorf("the member %.50q is unknown", name)
			case slices.Contains(seen, name):
				return fmt.Errorf("the member %q is there twice", name)
			}
			seen = append(seen, name)
			if err := checkValue(decoder); err != nil {
				return err
			}
		}
	case nil:
		return errors.New("a value is null; leave its member out")
	default:
		return nil
	}
	_, err = decoder.Token() // the end
	return err
}

// duration is a time.Duration that JSON writes as "5m0s".
type duration time.Duration

func (d duration) String() string               { return short(time.Duration(d)) }
func (d duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.50q is not a duration such as \"5m\"", text)
	}
	*d = duration(parsed)
	return nil
}

func (d duration) within(low, high time.Duration) bool {
	return time.Duration(d) >= low && time.Duration(d) <= high
}
