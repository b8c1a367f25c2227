package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// settingsName is the name of the file with the settings for this machine.
const settingsName = "local.settings.json"

// sampleFile has the settings of a new machine.
const sampleFile = settingsName + ".sample"

// LocalSettings are the contents of local.settings.json. The file is only for
// this machine: it is never packed.
type LocalSettings struct {
	Values map[string]string
	Port   int  // Host.LocalHttpPort; 0: not set
	CORS   bool // Host.CORS is set
}

// LocalSettings reads the settings for this machine as the Azure Functions Core
// Tools do. Without a file nothing is set.
func (p *Project) LocalSettings() (LocalSettings, error) {
	path, err := p.settingsFile()
	if err != nil {
		return LocalSettings{}, err
	}
	return readLocalSettings(path)
}

// settingsFile returns the file with the settings: local.settings.json of the
// project; without it, the one in dist/ if a developer has changed it; without
// both, the sample.
func (p *Project) settingsFile() (string, error) {
	ours := filepath.Join(p.Root, settingsName)
	staged := filepath.Join(p.Root, "dist", settingsName)
	info, err := os.Stat(staged)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	changed := err == nil && !info.ModTime().Equal(stagedTime)
	_, err = os.Stat(ours)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err == nil && changed {
		same, err := sameBytes(ours, staged)
		if err == nil && !same {
			err = errors.New("local.settings.json of the project and dist/local.settings.json, which was changed there, differ; move the changes to the first and delete the second")
		}
		return ours, err
	}
	switch {
	case err == nil:
		return ours, nil
	case changed:
		return staged, nil
	}
	return filepath.Join(p.Root, sampleFile), nil
}

// stagedTime is the modification time of the settings that are staged: a file
// with another time was changed by a developer, and is kept.
var stagedTime = packageEpoch

// stageSettings stages the settings.
func (p *Project) stageSettings(c *changes) error {
	from, err := p.settingsFile()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // `func` needs none if the environment has them
	}
	if err != nil || from == c.path(settingsName) {
		return err
	}
	return c.write(settingsName, 0o600, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
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
