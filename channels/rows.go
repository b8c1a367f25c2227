package channels

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"kennel/internal/table"
)

// ErrCorrupt reports a stored row that this program did not write.
var ErrCorrupt = errors.New("the stored row is invalid")

// Every row holds the version of its format. An unknown version is an error.
const (
	formatColumn = "v"
	format       = "1"
)

// state is the state of an incarnation. After its deletion only this row is
// left, as the record, until a sweep removes it.
type state string

const (
	creating  state = "creating" // announced; not a channel yet, and may never become one
	live      state = "live"
	deleting  state = "deleting"
	done      state = "done"
	abandoned state = "abandoned" // never became a channel and cannot become one
)

// Rows that a sweep will remove are marked in a column of their own, so that
// one query finds them without the existing channels.
const (
	stateColumn = "state"
	sweepColumn = "sweep"
	sweepYes    = "yes"
)

// record is an incarnation's row in Channels.
type record struct {
	channel, incarnation, owner                 string
	state                                       state
	createdAt, startedAt, touchedAt, finishedAt time.Time

	// counted is how many blogs the deletion found with keys up to through. A
	// blog is counted before it is deleted, so that no crash makes the count
	// wrong.
	counted int64
	through string

	version string
}

func (r record) partition() string { return blogPartition(r.channel, r.incarnation) }

func (r record) row() table.Row {
	values := map[string]string{
		formatColumn: format,
		"channel":    r.channel,
		"owner":      r.owner,
		stateColumn:  string(r.state),
		"createdAt":  timeText(r.createdAt),
	}
	if r.state == creating || r.state == abandoned || r.state == done {
		values[sweepColumn] = sweepYes
	}
	if r.state != live && r.state != creating {
		values["startedAt"] = timeText(r.startedAt)
		values["touchedAt"] = timeText(r.touchedAt)
		values["finishedAt"] = timeText(r.finishedAt)
		values["counted"] = strconv.FormatInt(r.counted, 10)
		values["through"] = r.through
	}
	return table.Row{Partition: channelPartition(r.channel), Key: r.incarnation, Values: values}
}

func readRecord(row table.Row) (record, error) {
	c := columns{row: row}
	r := record{
		channel:     c.text("channel"),
		incarnation: row.Key,
		owner:       c.text("owner"),
		state:       state(c.text(stateColumn)),
		createdAt:   c.time("createdAt"),
		version:     row.Version,
	}
	switch r.state {
	case creating, live:
	case deleting, done, abandoned:
		r.startedAt = c.time("startedAt")
		r.touchedAt = c.time("touchedAt")
		r.finishedAt = c.time("finishedAt")
		r.counted = c.number("counted")
		r.through = c.text("through")
	default:
		c.fail(stateColumn)
	}
	if c.err == nil && row.Partition != channelPartition(r.channel) {
		c.fail("channel")
	}
	return r, c.err
}

// nameRow is the row that gives the name to this incarnation. It is never
// changed, only deleted.
func (r record) nameRow() table.Row {
	return table.Row{Partition: channelPartition(r.channel), Key: nameKey, Values: map[string]string{
		formatColumn:  format,
		"channel":     r.channel,
		"incarnation": r.incarnation,
		"owner":       r.owner,
		"createdAt":   timeText(r.createdAt),
	}}
}

// readName returns the live incarnation that a name row names. Its version is
// that of the name row.
func readName(row table.Row) (record, error) {
	c := columns{row: row}
	return record{
		channel:     c.text("channel"),
		incarnation: c.text("incarnation"),
		owner:       c.text("owner"),
		state:       live,
		createdAt:   c.time("createdAt"),
		version:     row.Version,
	}, c.err
}

// fenceRow is the row without which no blog can be added.
func (r record) fenceRow() table.Row {
	return table.Row{Partition: r.partition(), Key: fenceKey, Values: map[string]string{formatColumn: format}}
}

// touchFence returns a write that succeeds only if the fence exists.
func touchFence(partition string) table.Write {
	return table.Write{Verb: table.Merge, Row: table.Row{Partition: partition, Key: fenceKey, Values: map[string]string{formatColumn: format}}, If: table.AnyVersion}
}

// textPart is the maximum of UTF-16 units in one column, below the 32 Ki that
// Azure accepts.
const textPart = 32_000

// blogRow is a blog as it is stored. The operation is unique to the write, so
// that a writer recognizes its own.
func blogRow(partition, key string, d Draft, operation string) table.Row {
	values := map[string]string{
		formatColumn: format,
		"title":      d.Title,
		"userId":     d.UserID,
		"operation":  operation,
	}
	for i, part := range textParts(d.Text) {
		values[textColumn(i)] = part
	}
	return table.Row{Partition: partition, Key: key, Values: values}
}

func readBlog(row table.Row) (Blog, error) {
	c := columns{row: row}
	b := Blog{ID: row.Key, Title: c.text("title"), UserID: c.text("userId"), ETag: row.Version}
	parts := []string{c.text(textColumn(0))}
	for {
		part, more := row.Values[textColumn(len(parts))]
		if !more {
			break
		}
		parts = append(parts, part)
	}
	b.Text = strings.Join(parts, "")
	created, err := parseBlogKey(row.Key)
	if err != nil {
		c.fail("key")
	}
	b.CreatedAt = created
	return b, c.err
}

// postKey is the key of a post as it is stored.
type postKey struct {
	blog  string    // the blog that the post added
	at    time.Time // when
	draft string    // a hash of its draft
}

const draftColumn = "draft"

func keyRow(partition, key, blog string, d Draft) table.Row {
	return table.Row{Partition: partition, Key: keyPrefix + hash(key), Values: map[string]string{
		formatColumn: format,
		"blog":       blog,
		draftColumn:  hash(d.Title, d.Text, d.UserID),
	}}
}

func readKey(row table.Row) (postKey, error) {
	c := columns{row: row}
	k := postKey{blog: c.text("blog"), draft: c.text(draftColumn)}
	at, err := parseBlogKey(k.blog)
	if err != nil {
		c.fail("blog")
	}
	k.at = at
	return k, c.err
}

// keepKeys is how long the key of a post is known.
const keepKeys = 24 * time.Hour

func (k postKey) expired(now time.Time) bool { return now.Sub(k.at) >= keepKeys }

func textColumn(i int) string { return "text" + strconv.Itoa(i) }

// textParts splits a text between characters.
func textParts(text string) []string {
	var parts []string
	begin, size := 0, 0
	for i, r := range text {
		n := utf16.RuneLen(r)
		if size+n > textPart {
			parts = append(parts, text[begin:i])
			begin, size = i, 0
		}
		size += n
	}
	return append(parts, text[begin:])
}

// columns reads a row's values and keeps the first error.
type columns struct {
	row table.Row
	err error
}

func (c *columns) text(column string) string {
	value, ok := c.row.Values[column]
	if !ok || c.row.Values[formatColumn] != format {
		c.fail(column)
	}
	return value
}

func (c *columns) time(column string) time.Time {
	text := c.text(column)
	if text == "" || c.err != nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		c.fail(column)
	}
	return t
}

func (c *columns) number(column string) int64 {
	n, err := strconv.ParseInt(c.text(column), 10, 64)
	if err != nil || n < 0 {
		c.fail(column)
	}
	return n
}

func (c *columns) fail(column string) {
	if c.err != nil {
		return
	}
	if v := c.row.Values[formatColumn]; v != format {
		c.err = fmt.Errorf("row %.80q of %.80q has format %.20q; this program knows %q: %w", c.row.Key, c.row.Partition, v, format, ErrCorrupt)
		return
	}
	c.err = fmt.Errorf("row %.80q of %.80q, column %s, value %.80q: %w", c.row.Key, c.row.Partition, column, c.row.Values[column], ErrCorrupt)
}

// timeText formats a time with its fraction. The zero time is "".
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
