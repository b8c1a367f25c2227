package channels

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"kennel/internal/table"
)

// Limits of input, in bytes.
const (
	maxName  = 200
	maxOwner = 256
	maxTitle = 1 << 10
	maxText  = 256 << 10
	maxKey   = 128
)

// InputError reports an invalid part of a request and the reason.
type InputError struct {
	Field, Reason string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Reason }

// CheckName returns an [*InputError] for a name that no channel can have. A
// name that is valid reaches the app as it was sent: the Functions host decodes
// an address twice, so what looks like an escape would become another name.
func CheckName(name string) error {
	switch {
	case name == "":
		return &InputError{"channel", "a channel needs a name"}
	case len(name) > maxName:
		return &InputError{"channel", fmt.Sprintf("a name has at most %d bytes, this one has %d", maxName, len(name))}
	case !utf8.ValidString(name):
		return &InputError{"channel", "the name is not valid UTF-8"}
	case strings.ContainsFunc(name, func(r rune) bool { return strings.ContainsRune(`/\#?`, r) || unicode.IsControl(r) }):
		return &InputError{"channel", `a name holds no /, \, #, ? and no control characters`}
	case escape.MatchString(name):
		return &InputError{"channel", "a name holds no % before two hexadecimal digits, because the Functions host decodes that once more and would call another channel"}
	case strings.TrimSpace(name) != name:
		return &InputError{"channel", "a name neither begins nor ends with a space"}
	case name == "." || name == "..":
		return &InputError{"channel", "a name in an address cannot be only dots"}
	case strings.ContainsAny(name, "\u2028\u2029"):
		// Azurite does not find such keys in transactions, so the channel could
		// not be deleted.
		return &InputError{"channel", "a name holds no line separators (U+2028, U+2029)"}
	}
	return nil
}

var escape = regexp.MustCompile("%[0-9A-Fa-f]{2}")

func checkText(field, text string, min, max int) error {
	switch {
	case len(text) < min:
		return &InputError{field, "is missing"}
	case len(text) > max:
		return &InputError{field, fmt.Sprintf("has at most %d bytes, this one has %d", max, len(text))}
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return &InputError{field, "holds invalid UTF-8 or a NUL"}
	}
	return nil
}

// CheckKey returns an [*InputError] for a text that cannot be the key of a post;
// "" is no key.
func CheckKey(key string) error {
	if len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &InputError{"idempotency_key", fmt.Sprintf("a key has 1 to %d visible ASCII characters", maxKey)}
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
//	Channels  partition: the name     key: nameKey        the name row: the incarnation that has the name
//	                                  key: incarnation    its announcement, then its state, finally the record of its deletion
//	Blogs     partition: name@incarnation   key: fenceKey the fence; exists as long as blogs may be added
//	                                        key: keyPrefix and a hash   the key of a post, for a day
//	                                        key: blog     one blog
//
// In Channels the newest incarnation comes first and the name row last. In
// Blogs the fence comes first, then the keys of posts, then the blogs.
const (
	nameKey    = "name"
	fenceKey   = "!fence"
	keyPrefix  = "!key-"
	belowBlogs = "!~" // between the other rows and the blogs
)

// isBlog reports whether the key of a row in Blogs is that of a blog.
func isBlog(key string) bool { return key > belowBlogs }

// keyEscapes replaces two characters that not every client handles in keys, and
// the escape character itself.
var keyEscapes = strings.NewReplacer("~", "~0", "'", "~1", "%", "~2")

// channelPartition returns the partition of a name's rows in Channels.
func channelPartition(name string) string { return keyEscapes.Replace(name) }

// blogPartition returns the partition of an incarnation's rows in Blogs.
func blogPartition(name, incarnation string) string {
	return channelPartition(name) + "@" + incarnation
}

// newIncarnation returns a unique name. In a table, newer ones come first.
func newIncarnation(now time.Time) string {
	return fmt.Sprintf("%016x-%s", math.MaxInt64-now.UnixNano(), randomHex(8))
}

func checkIncarnation(incarnation string) error {
	inverted, random, _ := strings.Cut(incarnation, "-")
	if len(inverted) != 16 || len(random) != 16 || !isHex(inverted) || !isHex(random) {
		return &InputError{"incarnation", "is invalid; use the incarnation that the API returned"}
	}
	return nil
}

// blogTime sorts blogs in the order of their creation.
const blogTime = "20060102T150405.000000000Z"

func newBlogKey(created time.Time) string {
	return created.UTC().Format(blogTime) + "-" + randomHex(4)
}

// parseBlogKey returns the time when the blog was created.
func parseBlogKey(key string) (time.Time, error) {
	at, random, _ := strings.Cut(key, "-")
	created, err := time.Parse(blogTime, at)
	if err != nil || created.Format(blogTime) != at || len(random) != 8 || !isHex(random) {
		return time.Time{}, &InputError{"blog", "is invalid; use an ID from the list of blogs"}
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
