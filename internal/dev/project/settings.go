package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// LocalSettings are the contents of local.settings.json. The file is only for
// this machine: it is neither staged nor packed.
type LocalSettings struct {
	Values map[string]string
	Port   int  // Host.LocalHttpPort; 0: not set
	CORS   bool // Host.CORS is set
}

// LocalSettings reads local.settings.json as the Azure Functions Core Tools do.
// Without the file nothing is set.
func (p *Project) LocalSettings() (LocalSettings, error) {
	return readLocalSettings(filepath.Join(p.Root, "local.settings.json"))
}

func readLocalSettings(path string) (LocalSettings, error) {
	var file struct {
		IsEncrypted *bool
		Values      map[string]json.RawMessage
		Host        struct{ LocalHttpPort, CORS json.RawMessage }
	}
	var local LocalSettings
	switch err := readJSON(path, &file); {
	case errors.Is(err, fs.ErrNotExist):
		return local, nil
	case err != nil:
		return local, err
	case file.IsEncrypted == nil || *file.IsEncrypted:
		return local, errors.New(`local.settings.json: add "IsEncrypted": false; otherwise the values are treated as encrypted`)
	}
	local.CORS = isSet(file.Host.CORS)
	if port := file.Host.LocalHttpPort; isSet(port) {
		var err error
		if local.Port, err = strconv.Atoi(strings.Trim(string(port), `"`)); err != nil || local.Port < 1 || local.Port > 65535 {
			return local, fmt.Errorf("local.settings.json: Host.LocalHttpPort is %s; use a number from 1 to 65535", port)
		}
	}
	local.Values = make(map[string]string, len(file.Values))
	for _, name := range slices.Sorted(maps.Keys(file.Values)) {
		raw := string(file.Values[name])
		switch raw[0] {
		case '{', '[':
			return local, fmt.Errorf("local.settings.json: %s is an object or a list; write it as a string", name)
		case 'n': // null is treated as absent
		case '"':
			var text string
			if err := json.Unmarshal(file.Values[name], &text); err != nil {
				return local, fmt.Errorf("local.settings.json: %s: %w", name, err)
			}
			local.Values[name] = text
		default: // a number or a boolean becomes a string
			local.Values[name] = raw
		}
	}
	return local, nil
}

// isSet reports whether a member is present and neither null nor empty.
func isSet(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "null" && string(raw) != `""`
}
