package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
)

// LocalSettings reads the values of local.settings.json as the Azure Functions
// Core Tools do. Without the file there are no values. The file is only for
// this machine: it is neither staged nor packed.
func (p *Project) LocalSettings() (map[string]string, error) {
	return readLocalSettings(filepath.Join(p.Root, "local.settings.json"))
}

func readLocalSettings(path string) (map[string]string, error) {
	var file struct {
		IsEncrypted *bool
		Values      map[string]json.RawMessage
	}
	switch err := readJSON(path, &file); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case file.IsEncrypted == nil || *file.IsEncrypted:
		return nil, errors.New(`local.settings.json: add "IsEncrypted": false; otherwise the values are treated as encrypted`)
	}
	values := make(map[string]string, len(file.Values))
	for _, name := range slices.Sorted(maps.Keys(file.Values)) {
		raw := string(file.Values[name])
		switch raw[0] {
		case '{', '[':
			return nil, fmt.Errorf("local.settings.json: %s is an object or a list; write it as a string", name)
		case 'n': // null is treated as absent
		case '"':
			var text string
			if err := json.Unmarshal(file.Values[name], &text); err != nil {
				return nil, fmt.Errorf("local.settings.json: %s: %w", name, err)
			}
			values[name] = text
		default: // a number or a boolean becomes a string
			values[name] = raw
		}
	}
	return values, nil
}
