package localhost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// settings are the app's settings: the environment, plus what local.settings.json adds to it. Names are
// looked up without regard to case, as the host's configuration does; an exact match wins.
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

// loadSettings joins the environment with <root>/local.settings.json, in which only names not yet in the
// environment count. A missing file is fine. The warnings are things `func start` would stumble over too.
func loadSettings(root string, env map[string]string) (all settings, warnings []string, err error) {
	all = settings(maps.Clone(env))
	if all == nil {
		all = settings{}
	}
	text, err := os.ReadFile(filepath.Join(root, "local.settings.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}

	var file struct {
		IsEncrypted       *bool
		Values            map[string]json.RawMessage
		ConnectionStrings map[string]json.RawMessage
	}
	if err := json.Unmarshal(withoutBOM(text), &file); err != nil {
		return nil, nil, fmt.Errorf("read local.settings.json: %w", err)
	}
	if file.IsEncrypted == nil || *file.IsEncrypted {
		return nil, nil, errors.New(`read local.settings.json: "IsEncrypted": false is missing, and without it the Core Tools take the values for encrypted; add the line`)
	}

	values, broken := textValues(file.Values)
	if len(broken) > 0 {
		warnings = append(warnings, fmt.Sprintf("local.settings.json: Values.%s is an object or a list; the Core Tools then drop ALL Values, and so does this host. Write it as one text.", broken[0]))
		values = nil
	}
	for name, raw := range file.ConnectionStrings {
		var text string
		var object struct{ ConnectionString string }
		if json.Unmarshal(raw, &text) != nil && json.Unmarshal(raw, &object) == nil {
			text = object.ConnectionString
		}
		if text == "" {
			warnings = append(warnings, fmt.Sprintf("local.settings.json: ConnectionStrings.%s is no text and is left out", name))
			continue
		}
		if values == nil {
			values = map[string]string{}
		}
		values["ConnectionStrings:"+name] = text
	}
	for name, value := range values {
		if _, ok := all[name]; !ok {
			all[name] = value
		}
	}
	return all, warnings, nil
}

// textValues turns numbers and booleans into their text, leaves nulls out, and names the objects and lists.
func textValues(raw map[string]json.RawMessage) (values map[string]string, broken []string) {
	values = make(map[string]string, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		value := bytes.TrimSpace(raw[name])
		switch value[0] {
		case '{', '[':
			broken = append(broken, name)
		case 'n':
		case '"':
			var text string
			if json.Unmarshal(value, &text) == nil {
				values[name] = text
			}
		default:
			values[name] = string(value)
		}
	}
	return values, broken
}

// withoutBOM drops the byte order mark that Windows editors put in front of a file.
func withoutBOM(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) }
