package table

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzObject reads the same members as the decoder of the standard library.
func FuzzObject(f *testing.F) {
	for _, text := range []string{`{}`, ` { "a" : 1 , "b":"x\n\"\u00fc" } `, `{"a":null,"b":true,"c":-1.5e3}`, `{"a":[1]}`, `{"a":"` + "\xff" + `"}`, `{"a":1}{`, `[]`, `"x"`, ``, `{"a":1,}`, `{"\\":"\\"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, gotOK := membersOf(body)
		want, wantOK := membersByDecoder(body)
		if gotOK != wantOK || wantOK && !cmp.Equal(got, want) {
			t.Errorf("%q: %v, %t, want %v, %t", body, got, gotOK, want, wantOK)
		}
	})
}

func membersOf(body []byte) (members []any, ok bool) {
	o, ok := openObject(body)
	if !ok {
		return nil, false
	}
	for o.more() {
		members = append(members, o.name())
		v, simple := o.value()
		if !simple {
			return nil, false
		}
		members = append(members, tokenOf(v))
	}
	return members, true
}

// tokenOf returns a scalar as [json.Decoder.Token] does.
func tokenOf(s scalar) any {
	switch s.form {
	case isText:
		return s.text
	case isNumber:
		return json.Number(s.text)
	case isBoolean:
		return s.yes
	default:
		return nil
	}
}

func membersByDecoder(body []byte) (members []any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		t, err := d.Token()
		if _, nested := t.(json.Delim); err != nil || nested {
			return nil, false
		}
		members = append(members, t)
	}
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	_, err := d.Token()
	return members, err == io.EOF
}
