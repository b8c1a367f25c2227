package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"kennel/internal/program"
)

// newSample is the sample of a project without one.
const newSample = `{
  "IsEncrypted": false,
  "Values": {
    "FUNCTIONS_WORKER_RUNTIME": "custom",
    "AzureWebJobsStorage": "UseDevelopmentStorage=true"
  }
}
`

// sample returns the sample settings with all declared ones, or nil if there are
// none to add or remove. A setting that the file lacks is added without a value,
// which stands for its default. One that the last description had, and this one
// has not, is removed if it still has no value: this function has added it.
// Nothing else of the file changes.
func (p *Project) sample(settings []program.SettingDescription) ([]byte, error) {
	declares := func(settings []program.SettingDescription, name string) bool {
		return slices.ContainsFunc(settings, func(s program.SettingDescription) bool { return s.Name == name })
	}
	last, _ := lastDescription(p.Root) // none: nothing was added
	if len(settings) == 0 && len(last.Settings) == 0 {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(p.Root, sampleFile))
	if errors.Is(err, fs.ErrNotExist) {
		if len(settings) == 0 {
			return nil, nil
		}
		text, err = []byte(newSample), nil
	}
	if err != nil {
		return nil, err
	}
	file, err := membersOf(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", sampleFile, err)
	}
	at := slices.IndexFunc(file, func(m member) bool { return m.name == "Values" })
	if at < 0 {
		file = append(file, member{"Values", []byte("{}")})
		at = len(file) - 1
	}
	values, err := membersOf(file[at].value)
	if err != nil {
		return nil, fmt.Errorf("read Values of %s: %w", sampleFile, err)
	}
	known := len(values)
	values = slices.DeleteFunc(values, func(m member) bool {
		return string(m.value) == `""` && declares(last.Settings, m.name) && !declares(settings, m.name)
	})
	removed := known - len(values)
	for _, s := range settings {
		if !slices.ContainsFunc(values, func(m member) bool { return m.name == s.Name }) {
			values = append(values, member{s.Name, []byte(`""`)})
		}
	}
	if removed == 0 && len(values) == known {
		return text, nil
	}
	file[at].value = objectOf(values)
	var out bytes.Buffer
	if err := json.Indent(&out, objectOf(file), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// member is a member of an object, which has an order in a file.
type member struct {
	name  string
	value json.RawMessage
}

func membersOf(text []byte) (all []member, err error) {
	decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.Join(errors.New("it is no object"), err)
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: name.(string)} // of an object
		if err := decoder.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	_, err = decoder.Token()
	return all, err
}

func objectOf(members []member) []byte {
	var b bytes.Buffer
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.name) // a string
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	return slices.Concat([]byte("{"), b.Bytes(), []byte("}"))
}
