package instances

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
)

// A list of up to plainList bytes is stored as it is, and a longer one packed. A
// process that uses many sequences has a long list, and a reader of the table
// takes those of all processes: 10 MB of 500 processes, and a third of that when
// they are packed.
const (
	plainList  = 2000
	packedList = "deflate:" // begins a packed one, in base64
)

// maxColumn is how many bytes of UTF-8 a column of a list holds. Storage counts
// in UTF-16, where no text takes more than twice as many bytes.
const maxColumn = 20_000

// A column of a list holds up to maxItems items.
const (
	maxItems = 250
	maxText  = 300 // characters of a problem's cause and of an error
)

// pack returns the column of a list.
func pack(list string) string {
	if len(list) <= plainList {
		return list
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		_, err = io.WriteString(w, list)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // cannot occur: a valid level, and a buffer
	}
	return packedList + base64.RawStdEncoding.EncodeToString(packed.Bytes())
}

// An unpacker unpacks columns, one after the other. It is used again, because it
// has 80 KB.
type unpacker struct {
	text, packed []byte
	from         bytes.Reader
	inflate      io.Reader
	list         bytes.Buffer
}

var unpackers = sync.Pool{New: func() any { return &unpacker{inflate: flate.NewReader(nil)} }}

// unpack returns the list in a column. It holds until the next call.
func (u *unpacker) unpack(column string) (list []byte, err error) {
	text, isPacked := strings.CutPrefix(column, packedList)
	u.text = append(u.text[:0], text...)
	if !isPacked {
		return u.text, nil
	}
	if u.packed, err = base64.RawStdEncoding.AppendDecode(u.packed[:0], u.text); err != nil {
		return nil, err
	}
	u.from.Reset(u.packed)
	u.list.Reset()
	if err = u.inflate.(flate.Resetter).Reset(&u.from, nil); err == nil {
		_, err = u.list.ReadFrom(io.LimitReader(u.inflate, maxColumn+1))
	}
	if err == nil && u.list.Len() > maxColumn {
		err = errors.New("it is too long")
	}
	return u.list.Bytes(), err
}

// list returns the JSON of as many items as a column holds.
func list[T any](items []T) string {
	text := []byte("[")
	for _, item := range items[:min(len(items), maxItems)] {
		one, err := json.Marshal(item)
		if err != nil {
			continue // a number that JSON cannot express
		}
		if len(text)+1+len(one) >= maxColumn {
			break
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(text, one...)
	}
	return string(append(text, ']'))
}

func shorten(text string) string {
	runes := 0
	for at := range text {
		if runes++; runes > maxText {
			return text[:at] + "…"
		}
	}
	return text
}
