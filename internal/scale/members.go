package scale

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
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

// decode reads a table whose members are known. The defaults replace missing
// members. If there are faults, there is no table.
func decode(text []byte) (t ruleTable, faults []Fault) {
	var lists struct {
		Version    int               `json:"version"`
		Depth      []json.RawMessage `json:"depth"`
		AgeSeconds []json.RawMessage `json:"ageSeconds"`
		Windows    []json.RawMessage `json:"windows"`
	}
	if err := json.Unmarshal(text, &lists); err != nil {
		return t, invalidTable(explain(err))
	}
	if lists.Version != formatOfRules {
		return t, []Fault{{Member: "version", Message: fmt.Sprintf("the member version of the rules is %d; this program reads version %d", lists.Version, formatOfRules)}}
	}
	faults = slices.Concat(faultsOf[row]("depth", lists.Depth), faultsOf[row]("ageSeconds", lists.AgeSeconds), faultsOf[window]("windows", lists.Windows))
	if len(faults) > 0 {
		return t, faults
	}
	t = defaultTable()
	if lists.Depth != nil {
		t.Depth = nil // the decoder would change the rows that are there
	}
	if err := decodeStrictly(text, &t); err != nil {
		return t, invalidTable(err)
	}
	return t, nil
}

func invalidTable(why error) []Fault {
	return []Fault{{Message: fmt.Sprintf("the rules are not a valid rule table: %v", why)}}
}

// faultsOf returns which rows of a list are not of a type.
func faultsOf[T any](list string, rows []json.RawMessage) (faults []Fault) {
	if len(rows) > maxRows {
		return []Fault{{Member: list, Message: fmt.Sprintf("%s has %d rows; use at most %d", list, len(rows), maxRows)}}
	}
	for i, text := range rows {
		if err := decodeStrictly(text, new(T)); err != nil {
			faults = append(faults, Fault{i + 1, list, err.Error()})
		}
	}
	return faults
}

// decodeStrictly reads one value.
func decodeStrictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return explain(decoder.Decode(into))
}

// explain returns an error of the decoder in the words of the text.
func explain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s has the wrong type: %s instead of %s", cmp.Or(wrong.Field, "it"), wrong.Value, kindOf(wrong.Type))
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// kindOf names the kind of JSON of a type.
func kindOf(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.String, reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "string"
	case t.Kind() == reflect.Int:
		return "whole number"
	case t.Kind() == reflect.Struct:
		return "object"
	case t.Kind() == reflect.Slice:
		return "array"
	}
	return "number"
}
