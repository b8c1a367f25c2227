package localhost

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// settings are the app's settings. As in the host's configuration, names are
// not case-sensitive; an exact match takes precedence.
type settings map[string]string

func (s settings) lookup(name string) (string, bool) {
	if value, ok := s[name]; ok {
		return value, true
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if strings.EqualFold(key, name) {
			return s[key], true
		}
	}
	return "", false
}

// truth reports whether a setting is true: the host accepts "true" in any case
// and "1".
func (s settings) truth(name string) bool {
	value, _ := s.lookup(name)
	return isTrue(value)
}

func isTrue(text string) bool {
	return strings.EqualFold(strings.TrimSpace(text), "true") || text == "1"
}

var percentName = regexp.MustCompile(`%[^%]+%`)

// expand replaces each %NAME% with the setting and returns the names that are
// not set. It replaces those with "", which the host accepts only in paths and
// arguments.
func (s settings) expand(text string) (string, []string) {
	var missing []string
	expanded := percentName.ReplaceAllStringFunc(text, func(quoted string) string {
		name := strings.Trim(quoted, "%")
		value, ok := s.lookup(name)
		if !ok {
			missing = append(missing, name)
		}
		return value
	})
	return expanded, missing
}

// resolve is expand for values in which every setting must be set.
func (s settings) resolve(text string) (string, error) {
	expanded, missing := s.expand(text)
	if len(missing) > 0 {
		return "", fmt.Errorf("%q names the setting %s, which is not set", text, missing[0])
	}
	return expanded, nil
}

// withoutBOM removes the byte order mark that Windows editors add to a file.
func withoutBOM(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) }
