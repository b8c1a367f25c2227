package channels

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"kennel/table"
)

// Sizes of what callers name and write, in bytes.
const (
	maxName  = 200
	maxOwner = 256
	maxTitle = 1 << 10
	maxText  = 256 << 10
)

// InputError says which part of a request cannot be right, and why.
type InputError struct {
	Field, Reason string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Reason }

func checkName(name string) error {
	switch {
	case name == "":
		return &InputError{"channel", "a channel needs a name"}
	case len(name) > maxName:
		return &InputError{"channel", fmt.Sprintf("a name has at most %d bytes, this one has %d", maxName, len(name))}
	case !utf8.ValidString(name):
		return &InputError{"channel", "the name is not valid UTF-8"}
	case strings.ContainsFunc(name, func(r rune) bool { return strings.ContainsRune(`/\#?`, r) || unicode.IsControl(r) }):
		return &InputError{"channel", `a name holds no /, \, #, ? and no control characters`}
	case strings.TrimSpace(name) != name:
		return &InputError{"channel", "a name neither begins nor ends with a space"}
	case name == "." || name == "..":
		return &InputError{"channel", "a name in an address cannot be only dots"}
	}
	return nil
}

func checkText(field, text string, min, max int) error {
	switch {
	case len(text) < min:
		return &InputError{field, "is missing"}
	case len(text) > max:
		return &InputError{field, fmt.Sprintf("has at most %d bytes, this one has %d", max, len(text))}
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return &InputError{field, "is not text: it holds invalid UTF-8 or a NUL"}
	}
	return nil
}

func checkTop(top int) error {
	if top < 1 || top > table.MaxPage {
		return &InputError{"top", fmt.Sprintf("must be 1 to %d, not %d", table.MaxPage, top)}
	}
	return nil
}

// Rows of the two tables.
//
//	Channels  partition: the name     key: nameKey        the name row: which incarnation the name stands for
//	                                  key: incarnation    announced first, its state then, in the end the record of its deletion
//	Blogs     partition: name@incarnation   key: fenceKey the fence, there as long as blogs may be added
//	                                        key: blog     one blog
//
// In Channels the name row comes last and the incarnations newest first; in
// Blogs the fence comes first.
const (
	nameKey  = "name"
	fenceKey = "!fence"
)

// keyEscapes are for two characters that not every client handles in keys,
// and for the one that stands for them.
var keyEscapes = strings.NewReplacer("~", "~0", "'", "~1", "%", "~2")

// channelPartition is where the rows of a name are in Channels.
func channelPartition(name string) string { return keyEscapes.Replace(name) }

// blogPartition is where an incarnation's rows are in Blogs.
func blogPartition(name, incarnation string) string {
	return channelPartition(name) + "@" + incarnation
}

// newIncarnation makes names that never come back and of which newer ones come
// first in a table.
func newIncarnation(now time.Time) string {
	return fmt.Sprintf("%016x-%s", math.MaxInt64-now.UnixNano(), randomHex(8))
}

func checkIncarnation(incarnation string) error {
	inverted, random, _ := strings.Cut(incarnation, "-")
	if len(inverted) != 16 || len(random) != 16 || !isHex(inverted) || !isHex(random) {
		return &InputError{"incarnation", "is not of the form that a channel's answers show"}
	}
	return nil
}

// blogTime makes blogs follow each other in the order of their creation.
const blogTime = "20060102T150405.000000000Z"

func newBlogKey(created time.Time) string {
	return created.UTC().Format(blogTime) + "-" + randomHex(4)
}

// parseBlogKey returns when the blog was created.
func parseBlogKey(key string) (time.Time, error) {
	at, random, _ := strings.Cut(key, "-")
	created, err := time.Parse(blogTime, at)
	if err != nil || created.Format(blogTime) != at || len(random) != 8 || !isHex(random) {
		return time.Time{}, &InputError{"blog", "is not of the form that a channel's list shows"}
	}
	return created, nil
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func isHex(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}
