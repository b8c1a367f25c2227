package customhandler

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"kennel/internal/storetest"
)

// allocated returns how many bytes f allocates. Nothing else may run.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestCopiesOfABody bounds how often the body of a call in an envelope is copied
// by the host that makes the envelope and by the handler that reads it. It does
// not run in parallel, so that other tests allocate nothing meanwhile.
func TestCopiesOfABody(t *testing.T) {
	length := storetest.Scale(1<<18, 1<<20)
	app := newApp(t, Options{MaxBody: int64(2 * length)}) // an envelope may be three times as long
	read := int64(0)
	app.HTTP("Reads", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read, _ = io.Copy(io.Discard, r.Body)
	}), "POST /api/reads")
	for _, tt := range []struct {
		name, contentType, body string
		host, handler           float64 // most bytes allocated for one of the body; more with the race detector
	}{
		{"text", "text/plain", strings.Repeat("a", length), 6.5, 7.5},
		{"control characters", "text/plain", strings.Repeat("\x01", length), 12, 44}, // six times as long in JSON
		{"binary", "application/octet-stream", strings.Repeat("\x01", length), 6.5, 11.5},
		{"JSON", "application/json", `{"a":"` + strings.Repeat("a", length-8) + `"}`, 15, 13}, // also in the metadata
	} {
		var sent bytes.Buffer
		sent.Grow(8 * length)
		r := httptest.NewRequest("POST", "/api/reads", strings.NewReader(tt.body))
		r.Header.Set("Content-Type", tt.contentType)
		host := allocated(func() {
			e, err := Trigger{Function: "Reads", Binding: "req"}.HTTP(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := e.encode()
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range parts {
				sent.Write(part)
			}
		})
		w := httptest.NewRecorder()
		read = 0
		handler := allocated(func() {
			req, err := NewEnvelopeRequest(t.Context(), "http://127.0.0.1:1", "Reads", sent.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			app.ServeHTTP(w, req)
		})
		if w.Code != 200 || read != int64(length) {
			t.Fatalf("%s: %d, read %d: %.200s", tt.name, w.Code, read, w.Body)
		}
		perByte := func(n uint64) float64 { return float64(n) / float64(length) }
		t.Logf("%s: %.1f bytes are sent for one of the body; the host allocates %.1f, the handler %.1f", tt.name, perByte(uint64(sent.Len())), perByte(host), perByte(handler))
		if perByte(host) > tt.host || perByte(handler) > tt.handler {
			t.Errorf("%s: the host allocates %.1f bytes for one of the body and the handler %.1f, want at most %v and %v", tt.name, perByte(host), perByte(handler), tt.host, tt.handler)
		}
	}
}

// TestQuote compares the JSON string of a text with that of encoding/json, whose
// length quotedLength returns.
func TestQuote(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	alphabet := []string{"a", "é", "€", "🐶", "\u2028", "\u2029", "\ufffd", "\xff", "\xc3", "\xed\xa0\x80", "<", "&", `"`, `\`, "\x7f", "\n"}
	for range 20_000 {
		var text []byte
		for range random.IntN(8) {
			if random.IntN(2) == 0 {
				text = append(text, byte(random.IntN(256)))
			} else {
				text = append(text, alphabet[random.IntN(len(alphabet))]...)
			}
		}
		want := string(encode(string(text)))
		if got := string(quote(text)); got != want || quotedLength(text) != len(want) {
			t.Fatalf("quote(%q) = %s of %d bytes, want %s", text, got, quotedLength(text), want)
		}
	}
}

// TestTooLongIsNotRead: of a body whose length is announced as too long, nothing
// is read.
func TestTooLongIsNotRead(t *testing.T) {
	body := strings.NewReader(`{"a":"too long"}`)
	r := httptest.NewRequest("POST", "/", body)
	r.Header.Set("Content-Type", "application/json")
	length := body.Len()
	var v struct{ A string }
	err := ReadJSON(r, 5, &v)
	if e, ok := errors.AsType[*Error](err); !ok || e.Status != http.StatusRequestEntityTooLarge || body.Len() != length {
		t.Errorf("ReadJSON = %v after %d bytes, want 413 after none", err, length-body.Len())
	}
}
