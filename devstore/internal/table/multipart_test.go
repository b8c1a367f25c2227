package table

import (
	"bufio"
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzSections reads the same sections as the standard library.
func FuzzSections(f *testing.F) {
	for _, seed := range append(damagedBatches,
		batchBody(insertion("a"), insertion("b")),
		strings.ReplaceAll(batchBody(insertion("a")), "\r\n", "\n"),
		"preamble\r\n--outer--\n\n--outer \t\r\nA: 1\r\n\r\n--outer\r\n\r\nb\r\n--outer-\r\n--outers\r\n\r\n--outer-- \r\nepilogue",
		"--outer\r\n\r\n--outerx\r\n--outer\r\n\r\n\n--outer\n\r\n--outer--",
		"--outer\nContent-Type: a\nContent-ID: 1\n\n--outer\n\nx\r\n--outer--\r\n--outer--",
		"--outer\r\nContent-Type:\r\n a\r\n\tb \r\n\r\nx\r\n--outer\r\ncontent-type : a\r\n", "--outer\r\n\r\nx\r\n--outer",
		"--outer\r\n\r\nx\r\n--outer\r\nA", "--outer\r\n\r\nx\r\n--outer--x\r\n", "--outer\r\n\r\nx\r\n--outer\r\ny\r\n\r\n--outer--",
	) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if longLine(body) {
			t.Skip("the standard library refuses a line that is longer than its buffer")
		}
		got, err := sectionsOf(body, "outer")
		want, wantErr := standardSections(body)
		if (err == nil) != (wantErr == nil) || err == nil && !cmp.Equal(texts(got), texts(want)) {
			t.Errorf("%q: %q, %v, want %q, %v", body, texts(got), err, texts(want), wantErr)
		}
	})
}

func longLine(body []byte) bool {
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if len(line) > 4000 {
			return true
		}
	}
	return false
}

func texts(sections []section) (all []string) {
	for _, s := range sections {
		all = append(all, string(s.kind), string(s.id), string(s.body))
	}
	return all
}

func standardSections(body []byte) (sections []section, err error) {
	reader := multipart.NewReader(bytes.NewReader(body), "outer")
	for len(sections) < maxSections {
		p, err := reader.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		sections = append(sections, section{[]byte(p.Header.Get("Content-Type")), []byte(p.Header.Get("Content-ID")), data})
	}
	return sections, nil
}

// FuzzHeader reads the same header as the standard library.
func FuzzHeader(f *testing.F) {
	for _, seed := range []string{
		"", "\r\n", "A: 1\r\nb:2\na:\t3 \r\n\r\nbody", "A: 1", "A: 1\r", "A\r\n\r\n", " A: 1\r\n\r\n", "A : 1\r\n\r\n", "A\t: 1\r\n\r\n", ": 1\r\n\r\n",
		"A: 1\r\n 2\r\n\t 3 \r\n \r\nB: \x01\r\n\r\n", "A:\r\n b\r\n\r\n", "A: ä\x7f\r\n\r\n", "Ä: 1\r\n\r\n", "A: 1\r\n ", "A: 1\r\r\n\r\n", "content-id: 1\n\n\n",
		"If-Match: *\r\nAccept: x\r\nPrefer: return-no-content\r\nAccept: y\r\nDataServiceVersion: 3.0\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, rest, err := readHeader(text)
		reader := bufio.NewReaderSize(bytes.NewReader(text), len(text)+16)
		want, wantErr := textproto.NewReader(reader).ReadMIMEHeader()
		if wantErr == io.EOF {
			wantErr = nil
		}
		if (err == nil) != (wantErr == nil) || err == nil && !cmp.Equal(got, http.Header(want)) {
			t.Fatalf("%q: %q, %v, want %q, %v", text, got, err, want, wantErr)
		}
		if wantRest, _ := io.ReadAll(reader); err == nil && !bytes.Equal(rest, wantRest) {
			t.Errorf("%q: %q follows, want %q", text, rest, wantRest)
		}
	})
}
