package localhost

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// settings are the app's settings. Names are looked up without regard to case, as
// the host's configuration does; an exact match wins.
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

// truth reports whether a setting switches something on: the host accepts true in any case, and 1.
func (s settings) truth(name string) bool {
	value, _ := s.lookup(name)
	return isTrue(value)
}

func isTrue(text string) bool {
	return strings.EqualFold(strings.TrimSpace(text), "true") || text == "1"
}

var percentName = regexp.MustCompile(`%[^%]+%`)

// expand replaces each %NAME% by that setting and returns the names which are not set. Those are replaced by
// nothing, which the host accepts in paths and arguments and refuses everywhere else.
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

// resolve is expand for places where every setting must exist.
func (s settings) resolve(text string) (string, error) {
	expanded, missing := s.expand(text)
	if len(missing) > 0 {
		return "", fmt.Errorf("%q names the setting %s, which is not set", text, missing[0])
	}
	return expanded, nil
}

// withoutBOM drops the byte order mark that Windows editors put in front of a file.
func withoutBOM(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) }
