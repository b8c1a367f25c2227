package channels

import (
	"errors"
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
	formatColumn = table.FormatColumn
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
		"createdAt":  table.FormatTime(r.createdAt),
	}
	if r.state == creating || r.state == abandoned || r.state == done {
		values[sweepColumn] = sweepYes
	}
	if r.state != live && r.state != creating {
		values["startedAt"] = table.FormatTime(r.startedAt)
		values["touchedAt"] = table.FormatTime(r.touchedAt)
		values["finishedAt"] = table.FormatTime(r.finishedAt)
		values["counted"] = strconv.FormatInt(r.counted, 10)
		values["through"] = r.through
	}
	return table.Row{Partition: channelPartition(r.channel), Key: r.incarnation, Values: values}
}

func readRecord(row table.Row) (record, error) {
	c := table.ReadColumns(row, format, ErrCorrupt)
	r := record{
		channel:     c.Text("channel"),
		incarnation: row.Key,
		owner:       c.Text("owner"),
		state:       state(c.Text(stateColumn)),
		createdAt:   c.Time("createdAt"),
		version:     row.Version,
	}
	switch r.state {
	case creating, live:
	case deleting, done, abandoned:
		r.startedAt = c.Time("startedAt")
		r.touchedAt = c.Time("touchedAt")
		r.finishedAt = c.Time("finishedAt")
		r.counted = c.Count("counted")
		r.through = c.Text("through")
	default:
		c.Fail(stateColumn)
	}
	if c.Err() == nil && row.Partition != channelPartition(r.channel) {
		c.Fail("channel")
	}
	return r, c.Err()
}

// nameRow is the row that gives the name to this incarnation. It is never
// changed, only deleted.
func (r record) nameRow() table.Row {
	return table.Row{Partition: channelPartition(r.channel), Key: nameKey, Values: map[string]string{
		formatColumn:  format,
		"channel":     r.channel,
		"incarnation": r.incarnation,
		"owner":       r.owner,
		"createdAt":   table.FormatTime(r.createdAt),
	}}
}

// readName returns the live incarnation that a name row names. Its version is
// that of the name row.
func readName(row table.Row) (record, error) {
	c := table.ReadColumns(row, format, ErrCorrupt)
	return record{
		channel:     c.Text("channel"),
		incarnation: c.Text("incarnation"),
		owner:       c.Text("owner"),
		state:       live,
		createdAt:   c.Time("createdAt"),
		version:     row.Version,
	}, c.Err()
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
	c := table.ReadColumns(row, format, ErrCorrupt)
	b := Blog{ID: row.Key, Title: c.Text("title"), UserID: c.Text("userId"), ETag: row.Version}
	parts := []string{c.Text(textColumn(0))}
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
		c.Fail("key")
	}
	b.CreatedAt = created
	return b, c.Err()
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
	c := table.ReadColumns(row, format, ErrCorrupt)
	k := postKey{blog: c.Text("blog"), draft: c.Text(draftColumn)}
	at, err := parseBlogKey(k.blog)
	if err != nil {
		c.Fail("blog")
	}
	k.at = at
	return k, c.Err()
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
