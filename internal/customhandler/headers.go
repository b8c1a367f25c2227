package customhandler

import (
	"fmt"
	"net/http"
)

// standing are the headers that every answer begins with. They are for browsers,
// which the API is not made for: nothing keeps an answer, because a state that
// has changed since would mislead; a text is of the type that the answer names;
// no page shows it in a frame or runs it; and no link passes its address on,
// which may contain a key. A function may replace a value.
//
// The values are shared, so nothing may change them in place.
var standing = []struct {
	name  string
	value []string
}{
	{"Cache-Control", noStore},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'"}},
	{"Referrer-Policy", []string{"no-referrer"}},
	{"Strict-Transport-Security", []string{"max-age=31536000"}}, // has no effect over plain HTTP
	{"X-Content-Type-Options", []string{"nosniff"}},
}

// SetStanding gives an answer the headers that every answer of the app has. App
// calls it for its own answers.
func SetStanding(h http.Header) {
	for _, s := range standing {
		h[s.name] = s.value
	}
}

// noStore is the Cache-Control of every error, whatever the function set: a
// cache that keeps a 404 would hide what is created later.
var noStore = []string{"no-store"}

// Limits of the header of a request. The Functions host passes on up to 100
// lines with 32 KiB, and adds some. More than that did not come through it.
const (
	maxHeaderBytes = 64 << 10
	maxHeaderLines = 200
)

// checkHeader returns 431 for a request with too many headers. net/http limits
// their length.
func checkHeader(h http.Header) *Error {
	lines := 0
	for _, values := range h {
		lines += len(values)
	}
	if lines <= maxHeaderLines {
		return nil
	}
	return &Error{http.StatusRequestHeaderFieldsTooLarge, "too_many_headers",
		fmt.Sprintf("The request has %d headers. Send at most %d.", lines, maxHeaderLines)}
}
