package format

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// DecodeStrictly decodes JSON that must have the members of v and no others.
// The version is checked first: it determines the other members.
func DecodeStrictly(text []byte, v any, version int) error {
	var head struct {
		Version *int `json:"v"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("decode JSON: %w", err)
	}
	switch {
	case head.Version == nil:
		return errors.New("it has no version")
	case *head.Version != version:
		return fmt.Errorf("version %d is unknown; this program knows %d", *head.Version, version)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("more text follows its end")
	}
	return nil
}

// appendQuoted appends a text as JSON.
func appendQuoted(to []byte, text string) []byte {
	plain := true
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		to = append(to, '"')
		to = append(to, text...)
		return append(to, '"')
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // cannot occur: a text
	}
	return append(to, quoted...)
}

// cutQuoted cuts a JSON text off the beginning of a line.
func cutQuoted(line []byte) (text string, rest []byte, err error) {
	if len(line) == 0 || line[0] != '"' {
		return "", nil, errors.New("it does not begin with a quoted text")
	}
	end := 1 + bytes.IndexByte(line[1:], '"')
	if end > 0 && bytes.IndexByte(line[:end], '\\') < 0 {
		return string(line[1:end]), line[end+1:], nil
	}
	for end = 1; end < len(line) && line[end] != '"'; end++ {
		if line[end] == '\\' {
			end++
		}
	}
	if end >= len(line) {
		return "", nil, errors.New("the end of its quoted text is missing")
	}
	if err := json.Unmarshal(line[:end+1], &text); err != nil {
		return "", nil, fmt.Errorf("its quoted text: %w", err)
	}
	return text, line[end+1:], nil
}

// maxColumn bounds the characters of a column.
const maxColumn = 32_000

// putColumns puts bytes into columns with a name and a number from 0, as many as
// they need, and at least one.
func putColumns(values map[string]string, name string, content []byte) {
	text := base64.RawStdEncoding.EncodeToString(content)
	for i := 0; i == 0 || len(text) > 0; i++ {
		n := min(len(text), maxColumn)
		values[name+strconv.Itoa(i)], text = text[:n], text[n:]
	}
}

// readColumns is the inverse of putColumns.
func readColumns(values map[string]string, name string) ([]byte, error) {
	text, found := values[name+"0"]
	if !found {
		return nil, errors.New("it is missing")
	}
	for i := 1; ; i++ {
		part, ok := values[name+strconv.Itoa(i)]
		if !ok {
			return base64.RawStdEncoding.Strict().DecodeString(text)
		}
		text += part
	}
}
