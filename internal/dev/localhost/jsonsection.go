package localhost

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A section is one object of a JSON file. Keys are not case-sensitive. Keys
// that are not read are ignored. A value of the wrong type is recorded with its
// full key and reading continues, so that all problems of a file are reported
// together. As in the real host, a number or a boolean may also be a string.
type section struct {
	path     string // "customHandler.description", for messages
	values   map[string]any
	problems *[]error
}

// newSection parses the text of a file that contains an object.
func newSection(text []byte, problems *[]error) (section, error) {
	var values map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(withoutBOM(text))))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return section{}, err
	}
	return section{values: values, problems: problems}, nil
}

func (s section) key(name string) string {
	if s.path == "" {
		return name
	}
	return s.path + "." + name
}

func (s section) problem(name, want string) {
	*s.problems = append(*s.problems, fmt.Errorf("%s must be %s", s.key(name), want))
}

// get returns a value. null is treated as absent.
func (s section) get(name string) (any, bool) {
	value, ok := s.values[name]
	if !ok {
		for _, key := range slices.Sorted(maps.Keys(s.values)) {
			if strings.EqualFold(key, name) {
				value, ok = s.values[key], true
				break
			}
		}
	}
	return value, ok && value != nil
}

// set replaces the value at a path. Missing objects in the path are created.
func (s section) set(path []string, value any) {
	for key := range s.values {
		if strings.EqualFold(key, path[0]) {
			path = append([]string{key}, path[1:]...)
		}
	}
	if len(path) == 1 {
		s.values[path[0]] = value
		return
	}
	child, ok := s.values[path[0]].(map[string]any)
	if !ok {
		child = map[string]any{}
		s.values[path[0]] = child
	}
	section{values: child}.set(path[1:], value)
}

func (s section) section(name string) section {
	value, ok := s.get(name)
	object, isObject := value.(map[string]any)
	if ok && !isObject {
		s.problem(name, "an object")
	}
	return section{path: s.key(name), values: object, problems: s.problems}
}

func (s section) text(name, fallback string) string {
	value, ok := s.get(name)
	if !ok {
		return fallback
	}
	switch value := value.(type) {
	case string:
		return value
	case json.Number:
		return value.String()
	}
	s.problem(name, "a string")
	return fallback
}

func (s section) flag(name string, fallback bool) bool {
	value, ok := s.get(name)
	if !ok {
		return fallback
	}
	if flag, isFlag := value.(bool); isFlag {
		return flag
	}
	if text, isText := value.(string); isText {
		if flag, err := strconv.ParseBool(strings.ToLower(text)); err == nil {
			return flag
		}
	}
	s.problem(name, "true or false")
	return fallback
}

func (s section) number(name string, fallback, low, high int) int {
	value, ok := s.get(name)
	if !ok {
		return fallback
	}
	if text := fmt.Sprint(value); value != true && value != false {
		if n, err := strconv.Atoi(text); err == nil && n >= low && n <= high {
			return n
		}
	}
	s.problem(name, fmt.Sprintf("a whole number from %d to %d", low, high))
	return fallback
}

func (s section) duration(name string, fallback, low, high time.Duration) time.Duration {
	value, ok := s.get(name)
	if !ok {
		return fallback
	}
	d, err := parseTimeSpan(fmt.Sprint(value))
	if err != nil || d < low || d > high {
		s.problem(name, fmt.Sprintf("a time span hh:mm:ss from %s to %s", formatTimeSpan(low), formatTimeSpan(high)))
		return fallback
	}
	return d
}

// texts reads a list of strings. In a setting the list is one string with a
// JSON list.
func (s section) texts(name string) []string {
	value, ok := s.get(name)
	if !ok {
		return nil
	}
	var list []any
	switch value := value.(type) {
	case []any:
		list = value
	case string:
		if json.Unmarshal([]byte(value), &list) != nil {
			s.problem(name, "a list of strings")
		}
	default:
		s.problem(name, "a list of strings")
	}
	var texts []string
	for _, element := range list {
		text, isText := element.(string)
		if !isText {
			s.problem(name, "a list of strings")
			return nil
		}
		texts = append(texts, text)
	}
	return texts
}
