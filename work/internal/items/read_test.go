package items

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"kennel/work/internal/model"
)

// readAll reads a body, and returns the compact items.
func readAll(s model.Submission, maxBytes int64, maxItems int) (items []string, err error) {
	r, err := NewReader(s, maxBytes)
	if err != nil {
		return nil, err
	}
	refuse := func(item json.RawMessage) error {
		if bytes.Contains(item, []byte(`"refuse"`)) {
			return errors.New("refused")
		}
		return nil
	}
	err = r.Read(context.Background(), maxItems, refuse, func(_ context.Context, item model.Item) error {
		items = append(items, item.ID+" "+string(item.Data))
		return nil
	})
	return items, err
}

func TestRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", model.MaxItem)
	vast := `{"id":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, test := range []struct {
		name  string
		array bool
		body  string
		want  []string
		bad   []model.ItemError
	}{
		{name: "lines", body: `{"id":"a"}` + "\n" + `{"id":"b"}` + "\n", want: []string{`a {"id":"a"}`, `b {"id":"b"}`}},
		{name: "no last end of line", body: `{"id":"a"}`, want: []string{`a {"id":"a"}`}},
		{name: "CRLF, blank lines and a mark", body: "\ufeff\r\n{\"id\": \"a\"}\r\n \t\r\n", want: []string{`a {"id":"a"}`}},
		{name: "escapes", body: `{"\u0069d":"\u0061\"é"}`, want: []string{`a"é {"\u0069d":"\u0061\"é"}`}},
		{name: "nested ids", body: `{"x":{"id":1},"y":["id","}"],"id":"a"}`, want: []string{`a {"x":{"id":1},"y":["id","}"],"id":"a"}`}},
		{name: "nothing"},
		{name: "only blanks", body: "\n \r\n"},
		{name: "empty lines count", body: "\n\n{\n", bad: []model.ItemError{{Line: 3, Message: "the item is not JSON: unexpected end of JSON input"}}},
		{name: "not an object", body: "[]\n1\nnull", bad: []model.ItemError{{Line: 1, Message: ErrNotObject.Error()}, {Line: 2, Message: ErrNotObject.Error()}, {Line: 3, Message: ErrNotObject.Error()}}},
		{name: "no id", body: `{"ID":"a"}`, bad: []model.ItemError{{Line: 1, Message: "the item has no id"}}},
		{name: "id of another type", body: `{"id":1}`, bad: []model.ItemError{{Line: 1, Message: "the id is not a text"}}},
		{name: "two ids", body: `{"id":"a","\u0069d":"b"}`, bad: []model.ItemError{{Line: 1, Message: `the item has two members "id"`}}},
		{name: "a member twice", body: `{"id":"a","x":1,"x":1}`, bad: []model.ItemError{{Line: 1, Message: `the item has two members "x"`}}},
		{name: "a member twice, in another case", body: `{"id":"a","skill":1,"\u017fKiLl":1}`, bad: []model.ItemError{{Line: 1, Message: `the item has two members "ſKiLl"`}}},
		{name: "a member of a member twice", body: `{"id":"a","x":[{"y":{"z":1,"Z":2,"\u007a":3}}]}`, bad: []model.ItemError{{Line: 1, Message: `the item has two members "z"`}}},
		{name: "one of many members twice", body: `{"id":"a",` + manyMembers(100) + `,"M99":1}`, bad: []model.ItemError{{Line: 1, Message: `the item has two members "M99"`}}},
		{name: "one of many members twice, in another case", body: `{"id":"a",` + manyMembers(100) + `,"skill":1,"\u017fKiLl":1}`, bad: []model.ItemError{{Line: 1, Message: `the item has two members "ſKiLl"`}}},
		{name: "different members of many, with and without dots", body: `{"id":"a",` + manyMembers(100) + `,"i":1,"İ":2,"ı":3}`, want: []string{`a {"id":"a",` + manyMembers(100) + `,"i":1,"İ":2,"ı":3}`}},
		{name: "equal members of different objects", body: `{"id":"a","x":{"id":1,"x":[{"x":1},{"x":2}],` + manyMembers(100) + `,"M99":1},` + manyMembers(100) + `}`,
			want: []string{`a {"id":"a","x":{"id":1,"x":[{"x":1},{"x":2}],` + manyMembers(100) + `,"M99":1},` + manyMembers(100) + `}`}},
		{name: "deep", body: `{"id":"a","x":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`, bad: []model.ItemError{{Line: 1, Message: "the item has objects and arrays more than 32 deep in each other"}}},
		{name: "almost deep", body: `{"id":"a","x":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}`,
			want: []string{`a {"id":"a","x":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}`}},
		{name: "empty id", body: `{"id":""}`, bad: []model.ItemError{{Line: 1, Message: "the id has 0 bytes: use 1 to 200"}}},
		{name: "long id", body: `{"id":"` + long[:201] + `"}`, bad: []model.ItemError{{Line: 1, Message: "the id has 201 bytes: use 1 to 200"}}},
		{name: "control characters", body: `{"id":"a\n"}`, bad: []model.ItemError{{Line: 1, Message: "the id contains control characters"}}},
		{name: "not UTF-8", body: "{\"id\":\"a\xff\"}", bad: []model.ItemError{{Line: 1, Message: "the item is not UTF-8"}}},
		{name: "id twice", body: "{\"id\":\"a\"}\n\n{\"id\":\"b\"}\n{\"id\":\"\\u0061\"}", bad: []model.ItemError{{Line: 4, Message: `the id "a" is used in line 1 too`}}},
		{name: "id twice in an array", array: true, body: `[{"id":"a"},{"id":"a"}]`, bad: []model.ItemError{{Line: 2, Message: `the id "a" is used in element 1 too`}}},
		{name: "refused", body: "{\"id\":\"a\"}\n{\"id\":\"b\",\"do\":\"refuse\"}", bad: []model.ItemError{{Line: 2, Message: "refused"}}},
		{name: "item of the longest length", body: `{"id":"a","x":"` + long[:model.MaxItem-17] + `"}`, want: []string{`a {"id":"a","x":"` + long[:model.MaxItem-17] + `"}`}},
		{name: "long item", body: `{"id":"a","x":"` + long[:model.MaxItem-16] + `"}` + "\n{}", bad: []model.ItemError{{Line: 1, Message: errLong.Error()}, {Line: 2, Message: "the item has no id"}}},
		{name: "vast line", body: "{\"id\":\"a\"}\n" + vast + "\n{}", bad: []model.ItemError{{Line: 2, Message: errLong.Error()}, {Line: 3, Message: "the item has no id"}}},
		{name: "array", array: true, body: "\ufeff [ {\"id\" : \"a\"} ,\n{\"id\":\"]\\\",\"} ] \n", want: []string{`a {"id":"a"}`, `]", {"id":"]\","}`}},
		{name: "empty array", array: true, body: " [ ] "},
		{name: "vast element", array: true, body: `[` + vast + `,{}]`, bad: []model.ItemError{{Line: 1, Message: errLong.Error()}, {Line: 2, Message: "the item has no id"}}},
		{name: "no array", array: true, body: `{"id":"a"}`, bad: []model.ItemError{{Line: 1, Message: "the body is not a JSON array"}}},
		{name: "empty body for an array", array: true, body: ` `, bad: []model.ItemError{{Line: 1, Message: "the body is not a JSON array"}}},
		{name: "cut array", array: true, body: `[{"id":"a"},`, bad: []model.ItemError{{Line: 2, Message: "the array does not end: the body is cut"}}},
		{name: "cut string", array: true, body: `[{"id":"a]`, bad: []model.ItemError{{Line: 1, Message: "the array does not end: the body is cut"}}},
		{name: "text after the array", array: true, body: `[{"id":"a"}] x`, bad: []model.ItemError{{Line: 1, Message: "text follows the array, beginning with x"}}},
		{name: "last comma", array: true, body: `[{"id":"a"},]`, bad: []model.ItemError{{Line: 2, Message: "the item is not JSON: unexpected end of JSON input"}}},
		{name: "two values", array: true, body: `[{"id":"a"} {"id":"b"}]`, bad: []model.ItemError{{Line: 1, Message: "the item is not JSON: invalid character '{' after top-level value"}}},
		{name: "wrong bracket", array: true, body: `[{"id":["a"}]]`, bad: []model.ItemError{{Line: 1, Message: "the item is not JSON: invalid character '}' after array element"}}},
		{name: "deep nesting", body: `{"id":"a","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, bad: []model.ItemError{{Line: 1, Message: "the item is not JSON: invalid character '[' exceeded max depth"}}},
	} {
		for _, zipped := range []bool{false, true} {
			var body io.Reader = strings.NewReader(test.body)
			if zipped {
				body = strings.NewReader(zip(test.body))
			}
			items, err := readAll(model.Submission{Body: body, Array: test.array}, 64<<20, 1000)
			if test.want != nil {
				if diff := cmp.Diff(test.want, items); err != nil || diff != "" {
					t.Errorf("%s: %v, items wanted (-), read (+):\n%s", test.name, err, diff)
				}
				continue
			}
			var invalid *model.ItemErrors
			if !errors.As(err, &invalid) || invalid.More {
				t.Errorf("%s: %v, want ItemErrors", test.name, err)
				continue
			}
			if diff := cmp.Diff(test.bad, invalid.Items); diff != "" {
				t.Errorf("%s: errors wanted (-), reported (+):\n%s", test.name, diff)
			}
		}
	}
}

// manyMembers returns the members m0, m1, and so on of an object.
func manyMembers(n int) string {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`"m%d":%d`, i, i))
	}
	return strings.Join(members, ",")
}

// zip compresses a text in two members, as tools that append do.
func zip(text string) string {
	var zipped bytes.Buffer
	for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
		w := gzip.NewWriter(&zipped)
		io.WriteString(w, part)
		w.Close()
	}
	return zipped.String()
}

// TestReadFirstErrors reports the first invalid items, and that there are
// others.
func TestReadFirstErrors(t *testing.T) {
	t.Parallel()
	for _, n := range []int{model.MaxItemErrors, model.MaxItemErrors + 1, 1000} {
		body := &countingReader{Reader: strings.NewReader(strings.Repeat("{}\n", n) + strings.Repeat("\n", 1<<20))}
		_, err := readAll(model.Submission{Body: body}, 64<<20, 1000)
		var invalid *model.ItemErrors
		if !errors.As(err, &invalid) || len(invalid.Items) != model.MaxItemErrors || invalid.More != (n > model.MaxItemErrors) {
			t.Errorf("%d invalid items: %+v", n, err)
		}
		if n > model.MaxItemErrors && body.read > 1<<18 {
			t.Errorf("%d invalid items: %d bytes were read", n, body.read)
		}
	}
}

type countingReader struct {
	io.Reader
	read int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

// TestReadTooLarge reads bodies at their limits and above.
func TestReadTooLarge(t *testing.T) {
	t.Parallel()
	two := "{\"id\":\"a\"}\n{\"id\":\"b\"}\n"
	bomb := zip(strings.Repeat("\n", 8<<20))
	for _, test := range []struct {
		name     string
		body     string
		array    bool
		maxBytes int
		maxItems int
		want     error
	}{
		{"at the limits", two, false, len(two), 2, nil},
		{"bytes", two, false, len(two) - 1, 2, model.ErrTooLarge},
		{"items", two, false, len(two), 1, model.ErrTooLarge},
		{"gzip at the limits", zip(two), false, len(two), 2, nil},
		{"gzip", zip(two), false, len(two) - 1, 2, model.ErrTooLarge},
		{"gzip bomb", bomb, false, 1 << 20, 2, model.ErrTooLarge},
		{"gzip bomb for an array", bomb, true, 1 << 20, 2, model.ErrTooLarge},
		{"a line without end", strings.Repeat("x", 2<<20), false, 1 << 20, 2, model.ErrTooLarge},
	} {
		body := &countingReader{Reader: strings.NewReader(test.body)}
		_, err := readAll(model.Submission{Body: body, Array: test.array}, int64(test.maxBytes), test.maxItems)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		if test.body == bomb && body.read > len(bomb)/2 {
			t.Errorf("%s: read %d bytes of %d", test.name, body.read, len(bomb))
		}
	}
}

// TestReadBroken reads bodies that break off.
func TestReadBroken(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	var lines, elements strings.Builder
	elements.WriteString("[")
	for i := range 2000 {
		fmt.Fprintf(&lines, "{\"id\":\"%x\"}\n", i*i*i)
		fmt.Fprintf(&elements, "{\"id\":\"%x\"},", i*i*i)
	}
	for _, array := range []bool{false, true} {
		text := lines.String()
		if array {
			text = strings.TrimSuffix(elements.String(), ",") + "]"
		}
		for _, whole := range []string{text, zip(text)} {
			for _, cut := range []int{0, 1, 5, 12, 1000, len(whole) / 2, len(whole) - 1, len(whole)} {
				body := io.MultiReader(strings.NewReader(whole[:cut]), failing{lost})
				if _, err := readAll(model.Submission{Body: body, Array: array}, 64<<20, 5000); !errors.Is(err, lost) {
					t.Errorf("array %v, connection lost after %d of %d bytes: %v", array, cut, len(whole), err)
				}
				if whole == text || cut < 2 || cut == len(whole) {
					continue
				}
				_, err := readAll(model.Submission{Body: strings.NewReader(whole[:cut]), Array: array}, 64<<20, 5000)
				var invalid *model.ItemErrors
				if !errors.As(err, &invalid) || len(invalid.Items) != 1 || !strings.Contains(invalid.Items[0].Message, "gzip") {
					t.Errorf("array %v, gzip cut after %d of %d bytes: %v", array, cut, len(whole), err)
				}
			}
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzItemID compares the id of items with that of encoding/json, and checks that
// plain items are compact, and that no item with a repeated member is accepted.
func FuzzItemID(f *testing.F) {
	for _, text := range []string{
		`{"id":"a"}`, `{"a":{"id":1},"id":"b"}`, `{"id":["a"],"id":"b"}`, `{"\u0069d":"\ud800"}`, `{"id":"\\","x":"\""}`,
		`{"id":"a","x":-1.50,"y":0}`, `{"x":01}`, `{"x":1.}`, `{"x":-}`, `{"x" :"1"}`, `{"x":"1",}`, `{"x":"1"}}`, `{"x":1 }`,
		"{\"x\":\"\n\"}", `{"x"`, `{"x":`, `{"x":""`, `{}`, `[]`, `"id"`, `{"x":[{"id":"}"}],"id":null}`, `{"":0,"id":"a\u0000"}`, `{"id":"a"`, `{"id":"a",}`, `{`,
		`{"id":"a","x":1,"X":2}`, `{"id":"a","x":{"y":1,"Y":2,"y":3}}`, `{"k":1,"\u212a":2,"id":"a"}`, `{"id":"a","x":[[[{}],{"a":1}],{"a":{}}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ID(text) // must not panic, whatever it gets
		var compact bytes.Buffer
		if IsPlain(text) && (json.Compact(&compact, text) != nil || compact.String() != string(text)) {
			t.Errorf("%q is plain, but in compact form it is %q", text, compact.Bytes())
		}
		compact.Reset()
		if !utf8.Valid(text) || json.Compact(&compact, text) != nil {
			return
		}
		id, err := ID(compact.Bytes())
		want, ok := slowID(compact.Bytes())
		if (err == nil) != ok || id != want {
			t.Errorf("%s has the id %q, %v; want %q, %v", compact.Bytes(), id, err, want, ok)
		}
		var items itemChecker
		ok = ok && !slowRepeats(json.NewDecoder(strings.NewReader(compact.String())), 1)
		if id, err := items.check(compact.Bytes()); (err == nil) != ok || ok && id != want {
			t.Errorf("%q is accepted with the id %q, %v; want %q, %v", text, id, err, want, ok)
		}
	})
}

// slowRepeats reads a value by tokens, and reports whether an object in it has two
// members of one name, or it is too deep.
func slowRepeats(d *json.Decoder, depth int) (repeats bool) {
	begin, _ := d.Token()
	if begin != json.Delim('{') && begin != json.Delim('[') {
		return false
	}
	repeats = depth > maxDepth
	var names []string
	for d.More() {
		if begin == json.Delim('{') {
			token, _ := d.Token()
			name := token.(string)
			same := func(other string) bool { return name == other || depth == 1 && strings.EqualFold(name, other) }
			repeats = repeats || slices.ContainsFunc(names, same)
			names = append(names, name)
		}
		repeats = slowRepeats(d, depth+1) || repeats
	}
	d.Token()
	return repeats
}

// slowID reads the id by tokens.
func slowID(text []byte) (id string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, _ := d.Token(); begin != json.Delim('{') {
		return "", false
	}
	found := 0
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		d.Decode(&value)
		if name == "id" {
			found++
			var text *string
			if json.Unmarshal(value, &text) != nil || text == nil {
				return "", false
			}
			id = *text
		}
	}
	if found != 1 || id == "" || len(id) > model.MaxItemID || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
		return "", false
	}
	return id, true
}
