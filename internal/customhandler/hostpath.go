package customhandler

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

// The host decodes an address twice, so a handler does not get the address that
// the client sent. First its web server decodes the path, by which the function
// is chosen and its key is checked. Then .NET's Uri reads that text as an
// address once more.

var errBadPath = errors.New("the path contains NUL or a byte that is not ASCII, which the host's web server rejects with 400")

// RoutedPath returns the path of a request as the host's web server decodes it:
// dot segments are resolved, an escaped slash and escapes that are invalid or
// not UTF-8 stay as they are. An error means 400.
func RoutedPath(r *http.Request) (string, error) {
	target, _, _ := strings.Cut(cmp.Or(r.RequestURI, r.URL.RequestURI()), "?")
	if _, rest, ok := strings.Cut(target, "://"); ok && !strings.HasPrefix(target, "/") { // absolute form
		_, path, _ := strings.Cut(rest, "/")
		target = "/" + path
	}
	decoded, err := decodePath(target)
	if err != nil {
		return "", err
	}
	return resolveDots(decoded, func(segment string) string { return segment }), nil
}

func decodePath(escaped string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(escaped); {
		c := escaped[i]
		if c >= utf8.RuneSelf || c == 0 {
			return "", errBadPath
		}
		if !isEscape(escaped[i:]) {
			b.WriteByte(c)
			i++
			continue
		}
		if unhex(escaped[i:]) == 0 {
			return "", errBadPath
		}
		char := escapedRune(escaped[i:])
		switch char {
		case "", "/":
			b.WriteString(escaped[i : i+3])
			i += 3
		default:
			b.WriteString(char)
			i += 3 * len(char) // each byte was escaped
		}
	}
	return b.String(), nil
}

// escapedRune returns the character whose escapes a text begins with, or "" if
// they are not UTF-8.
func escapedRune(text string) string {
	var bytes []byte
	for len(bytes) < utf8.UTFMax && isEscape(text) {
		bytes = append(bytes, unhex(text))
		text = text[3:]
		if utf8.FullRune(bytes) {
			break
		}
	}
	if !utf8.Valid(bytes) {
		return ""
	}
	return string(bytes)
}

// forwardedPath returns the escaped path of a forwarded call, whose path was
// decoded by RoutedPath: a question mark or a number sign ends it, a blank at
// the end of the address is cut, a backslash becomes a slash, dot segments are
// resolved, and text that looks like an escape is one. The host has chosen the
// function, and checked its key, by the path before that.
func forwardedPath(decoded string, hasQuery bool) string {
	if !hasQuery {
		decoded = strings.TrimRight(decoded, " \t\n\r")
	}
	if end := strings.IndexAny(decoded, "?#"); end >= 0 {
		decoded = decoded[:end]
	}
	decoded = strings.ReplaceAll(decoded, `\`, "/")
	return escapePath(resolveDots(decoded, func(segment string) string { return escapedDots.Replace(strings.ToLower(segment)) }))
}

var escapedDots = strings.NewReplacer("%2e", ".")

// escapePath escapes a decoded path, as the host does in the address of an
// envelope. It takes text that looks like an escape for one.
func escapePath(decoded string) string {
	const plain = "-._~!$&'()*+,;=:@/"
	var b strings.Builder
	for i := range len(decoded) {
		switch c := decoded[i]; {
		case c == '%' && isEscape(decoded[i:]),
			'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(plain, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte("0123456789ABCDEF"[c>>4])
			b.WriteByte("0123456789ABCDEF"[c&15])
		}
	}
	return b.String()
}

// resolveDots removes the segments that are, as read returns them, one or two
// dots.
func resolveDots(path string, read func(segment string) string) string {
	segments := strings.Split(path, "/")
	kept := segments[:1] // "" before the first slash
	for i, segment := range segments[1:] {
		switch read(segment) {
		case "..":
			kept = kept[:max(1, len(kept)-1)]
			fallthrough
		case ".":
			if i == len(segments)-2 {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, segment)
		}
	}
	return strings.Join(kept, "/")
}

// isEscape reports whether a text begins with % and two hexadecimal digits.
func isEscape(text string) bool {
	return len(text) >= 3 && text[0] == '%' && isHex(text[1]) && isHex(text[2])
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// unhex returns the byte of the escape that a text begins with.
func unhex(text string) byte { return digit(text[1])<<4 | digit(text[2]) }

func digit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}
