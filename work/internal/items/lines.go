package items

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"kennel/work/internal/model"
)

// blank is JSON's white space.
const blank = " \t\r\n"

// errLong reports an item that is longer than MaxItem, and was skipped.
var errLong = fmt.Errorf("the item is longer than %d bytes", model.MaxItem)

// nextLine returns the next line that is not empty. It returns io.EOF after the
// last one, and errLong for a line that is too long.
func (r *Reader) nextLine() ([]byte, error) {
	for {
		text, err := r.in.ReadSlice('\n')
		if len(text) > 0 {
			r.line++
		}
		long := false
		for err == bufio.ErrBufferFull {
			long = true
			_, err = r.in.ReadSlice('\n')
		}
		if err != nil && err != io.EOF {
			return nil, r.failed(err)
		}
		text = bytes.Trim(text, blank)
		switch {
		case long || len(text) > model.MaxItem:
			return nil, errLong
		case len(text) > 0:
			return text, nil
		case err == io.EOF:
			return nil, io.EOF
		}
	}
}

// nextElement returns the text of the next element of an array, which is not
// checked. It returns io.EOF after the array, and errLong for an element that
// is too long.
func (r *Reader) nextElement() ([]byte, error) {
	if r.ended {
		return nil, io.EOF
	}
	if r.line == 0 {
		if c, err := r.nextByte(); err != nil || c != '[' {
			return nil, r.cut(err, "the body is not a JSON array")
		}
	}
	r.line++
	r.long = r.long[:0]
	var (
		length   = 0 // of the element up to its last byte that is not blank
		size     = 0
		depth    = 0
		inString = false
		escaped  = false
	)
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return nil, r.cut(err, "the array does not end: the body is cut")
		}
		isBlank := !inString && bytes.IndexByte([]byte(blank), c) >= 0
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = c == '\\'
			inString = c != '"'
		case c == '"':
			inString = true
		case c == '{', c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth == 0 && (c == ',' || c == ']'):
			r.ended = c == ']'
			return r.element(length)
		}
		if isBlank && size == 0 {
			continue
		}
		if size++; !isBlank {
			length = size
		}
		if size <= model.MaxItem {
			r.long = append(r.long, c)
		}
	}
}

// element returns the element that was read.
func (r *Reader) element(length int) ([]byte, error) {
	if length == 0 && r.ended && r.line == 1 {
		r.line = 0 // an empty array
	}
	if r.ended {
		switch c, err := r.nextByte(); {
		case err == nil:
			return nil, r.bad("text follows the array, beginning with " + string(rune(c)))
		case err != io.EOF:
			return nil, r.failed(err)
		}
	}
	switch {
	case length > model.MaxItem:
		return nil, errLong
	case r.line == 0:
		return nil, io.EOF
	}
	return r.long[:length], nil
}

// nextByte returns the next byte that is not blank.
func (r *Reader) nextByte() (byte, error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil || bytes.IndexByte([]byte(blank), c) < 0 {
			return c, err
		}
	}
}

// cut returns the error for an array that ends too early, or was never one.
func (r *Reader) cut(err error, message string) error {
	if err != nil && err != io.EOF {
		return r.failed(err)
	}
	return r.bad(message)
}
