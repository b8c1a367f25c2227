package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"kennel/internal/config"
)

// The settings that kennel gives a value itself.
const (
	storageSetting     = "AzureWebJobsStorage" // followed by "__" and more for an account that is reached by identity
	runtimeSetting     = "FUNCTIONS_WORKER_RUNTIME"
	executableSetting  = "AzureFunctionsJobHost__customHandler__description__defaultExecutablePath"
	developmentStorage = "UseDevelopmentStorage=true"

	busSetting = "ServiceBus" // like storage in one of two forms
	standInBus = "ServiceBusSecondary"
)

// keyVariable holds the key that "kennel next" shows to the app. It is none of
// the app's settings.
const keyVariable = "KENNEL_KEY"

// settings is what the app runs with: the environment and, where that is
// silent, the values of local.settings.json. That file is for this machine
// alone: it is neither staged nor packed. Where no storage is mentioned at all,
// it is that of this machine.
func (p project) settings(env map[string]string) (map[string]string, error) {
	all := map[string]string{runtimeSetting: "custom"} // without it `func` stops and asks
	values, err := readLocalSettings(filepath.Join(p.root, "local.settings.json"))
	if err != nil {
		return nil, err
	}
	maps.Copy(all, values)
	maps.Copy(all, env)
	delete(all, keyVariable)
	if !mentions(all, storageSetting) {
		all[storageSetting] = developmentStorage
	}
	return all, nil
}

// readLocalSettings reads the values of a local.settings.json, in the way of
// the Azure Functions Core Tools. No file means no values.
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
		return nil, errors.New(`local.settings.json: write "IsEncrypted": false: without it the values count as encrypted`)
	}
	values := make(map[string]string, len(file.Values))
	for _, name := range slices.Sorted(maps.Keys(file.Values)) {
		raw := string(file.Values[name])
		switch raw[0] {
		case '{', '[':
			return nil, fmt.Errorf("local.settings.json: %s is an object or a list: write it as one text", name)
		case 'n': // null is as good as absent
		case '"':
			var text string
			if err := json.Unmarshal(file.Values[name], &text); err != nil {
				return nil, fmt.Errorf("local.settings.json: %s: %w", name, err)
			}
			values[name] = text
		default: // a number or a boolean becomes its text
			values[name] = raw
		}
	}
	return values, nil
}

// mentions reports whether the settings say anything on a connection, in any of
// the spellings that the host understands.
func mentions(settings map[string]string, connection string) bool {
	prefix := strings.ToLower(connection)
	for name, value := range settings {
		rest, ok := strings.CutPrefix(strings.ToLower(name), prefix)
		if ok && value != "" && (rest == "" || rest[0] == ':' || strings.HasPrefix(rest, "__")) {
			return true
		}
	}
	return false
}

// isDevelopment reports whether the app is to use the storage of this machine.
func isDevelopment(s config.Storage) bool {
	return strings.TrimRight(s.ConnectionString, ";") == developmentStorage
}
