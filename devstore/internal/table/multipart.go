package table

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// A section is one piece of a multipart body, in the memory of that body.
type section struct {
	kind, id []byte // Content-Type and Content-ID
	body     []byte
}

// maxSections is a little more than any batch may have, so that one with too
// many can be answered as such.
const maxSections = maxOperations + 1

// sectionsOf returns the sections of a multipart body, at most maxSections. It
// reads as [multipart.Reader] does, which copies the body and makes a map for
// each section.
func sectionsOf(body []byte, boundary string) (sections []section, err error) {
	s := newSplitter(boundary)
	sections = make([]section, 0, min(len(body)/256+1, maxSections))
	for len(sections) < maxSections {
		_, after, _ := bytes.Cut(body, []byte("\n"))
		line := body[:len(body)-len(after)] // with its end
		if len(sections) == 0 {
			s.seeNewline(line)
		}
		switch {
		case s.delimits(line):
			var next section
			if next, body, err = s.cutSection(after); err == io.EOF {
				return sections, nil
			} else if err != nil {
				return nil, err
			}
			sections = append(sections, next)
		case s.ends(line):
			return sections, nil
		case len(sections) > 0 || len(after) == 0:
			return nil, errInput
		default:
			body = after // what is before the first delimiter has no meaning
		}
	}
	return sections, nil
}

// A splitter knows what separates sections.
type splitter struct {
	newline   []byte
	separator []byte // newline and delimiter
	delimiter []byte // two hyphens and the boundary
	last      []byte // delimiter and two hyphens
}

func newSplitter(boundary string) *splitter {
	all := []byte("\r\n--" + boundary + "--")
	end := len(all) - 2
	return &splitter{newline: all[:2], separator: all[:end], delimiter: all[2:end], last: all[2:]}
}

// seeNewline makes "\n" the end of lines if the first delimiter has it.
func (s *splitter) seeNewline(line []byte) {
	if after, ok := bytes.CutPrefix(line, s.delimiter); ok && string(trimSpace(after)) == "\n" {
		s.newline, s.separator = s.newline[len(s.newline)-1:], s.separator[len(s.newline)-1:]
	}
}

func (s *splitter) delimits(line []byte) bool {
	after, ok := bytes.CutPrefix(line, s.delimiter)
	return ok && bytes.Equal(trimSpace(after), s.newline)
}

// ends reports whether a line is behind the last section.
func (s *splitter) ends(line []byte) bool {
	after, ok := bytes.CutPrefix(line, s.last)
	after = trimSpace(after)
	return ok && (len(after) == 0 || bytes.Equal(after, s.newline))
}

// cutSection returns the section at the front of a body, and the body from the
// next delimiter on. It returns io.EOF for a header that does not end.
func (s *splitter) cutSection(body []byte) (next section, rest []byte, err error) {
	for {
		name, value, after, err := cutField(body)
		if err != nil {
			return section{}, nil, err
		}
		body = after
		switch {
		case name == nil:
			next.body, rest, err = s.cutBody(body)
			return next, rest, err
		case next.kind == nil && strings.EqualFold(string(name), "Content-Type"):
			next.kind = value
		case next.id == nil && strings.EqualFold(string(name), "Content-ID"):
			next.id = value
		}
	}
}

// cutBody returns what is before the next delimiter, and what begins with it.
func (s *splitter) cutBody(text []byte) (body, rest []byte, err error) {
	if after, ok := bytes.CutPrefix(text, s.delimiter); ok && isDelimited(after) {
		return nil, text, nil
	}
	for at := 0; ; at += len(s.separator) {
		i := bytes.Index(text[at:], s.separator)
		if i < 0 {
			return nil, nil, errInput
		}
		at += i
		if isDelimited(text[at+len(s.separator):]) {
			return text[:at:at], text[at+len(s.newline):], nil
		}
	}
}

// isDelimited reports whether a delimiter ends before this text. Else it is the
// beginning of a longer one.
func isDelimited(text []byte) bool {
	return len(text) == 0 || strings.IndexByte(" \t\r\n", text[0]) >= 0 || bytes.HasPrefix(text, []byte("--"))
}

// readHeader reads a header, which need not end, and returns what follows it.
func readHeader(text []byte) (h http.Header, rest []byte, err error) {
	h = make(http.Header)
	values := make([]string, 0, 4) // of most headers, in one piece of memory
	for {
		name, value, rest, err := cutField(text)
		switch {
		case err == io.EOF:
			return h, nil, nil
		case err != nil:
			return nil, nil, err
		case name == nil:
			return h, rest, nil
		}
		key := http.CanonicalHeaderKey(string(name))
		if h[key] == nil {
			values = append(values, string(value))
			h[key] = values[len(values)-1 : len(values) : len(values)]
		} else {
			h[key] = append(h[key], string(value))
		}
		text = rest
	}
}

// cutField returns the field at the front of a header, and what follows it. It
// reads as [textproto.Reader] does. The name is nil at the empty line that ends
// the header, and the error is io.EOF if there is no such line.
func cutField(text []byte) (name, value, rest []byte, err error) {
	if len(text) == 0 {
		return nil, nil, nil, io.EOF
	}
	line, rest := cutLine(text)
	if len(line) == 0 {
		return nil, nil, rest, nil
	}
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || !validFieldName(name) {
		return nil, nil, nil, errInput
	}
	value = bytes.Trim(value, " \t")
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') { // the value goes on
		line, rest = cutLine(rest)
		value = bytes.Join([][]byte{value, bytes.Trim(line, " \t")}, []byte(" "))
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, nil, errInput
		}
	}
	return name, trimSpace(value), rest, nil
}

func cutLine(text []byte) (line, rest []byte) {
	line, rest, ended := bytes.Cut(text, []byte("\n"))
	if ended {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	return line, rest
}

// trimSpace leaves out spaces at the front.
func trimSpace(text []byte) []byte { return bytes.TrimLeft(text, " \t") }

// validFieldName reports whether a name has only characters that it may have,
// and spaces, which some clients write before the colon.
func validFieldName(name []byte) bool {
	for i, c := range name {
		if !isAlphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 && (c != ' ' || i == 0) {
			return false
		}
	}
	return len(name) > 0
}
