package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/table"
)

// ErrNoCondition reports that an update did not state which version of the
// blog it replaces.
var ErrNoCondition = errors.New("an update needs the blog's ETag, or * to overwrite any version")

// Draft is the part of a blog that its writer supplies.
type Draft struct {
	Title  string `json:"title"`
	Text   string `json:"text"`
	UserID string `json:"userId"`
}

// Blog is a blog as it is stored.
type Blog struct {
	ID        string    `json:"blog"`
	Title     string    `json:"title"`
	Text      string    `json:"text"`
	UserID    string    `json:"userId"`
	CreatedAt time.Time `json:"createdAt"`
	ETag      string    `json:"etag"` // changes with each update
}

func (d Draft) check() error {
	return cmp.Or(
		checkText("title", d.Title, 1, maxTitle),
		checkText("text", d.Text, 0, maxText),
		checkText("userId", d.UserID, 1, maxOwner))
}

// Blog returns one blog, or ErrNotFound.
func (c *Channels) Blog(ctx context.Context, channel, id string) (Blog, error) {
	partition, err := c.locate(ctx, channel, id)
	if err != nil {
		return Blog{}, err
	}
	row, err := c.blogs.Get(ctx, partition, id)
	if err == nil {
		var blog Blog
		if blog, err = readBlog(row); err == nil {
			return blog, nil
		}
	}
	return Blog{}, fmt.Errorf("blog %s of channel %q: %w", id, channel, err)
}

// Blogs returns up to top blogs, ordered by creation. The continuation is that
// of the page before, or "" for the first page.
func (c *Channels) Blogs(ctx context.Context, channel string, top int, continuation string) (List[Blog], error) {
	return c.blogsAbove(ctx, channel, belowBlogs, top, continuation)
}

// BlogsAfter is Blogs without the blogs up to this one, which may have been
// removed.
func (c *Channels) BlogsAfter(ctx context.Context, channel, id string, top int, continuation string) (List[Blog], error) {
	if err := checkAfter(id); err != nil {
		return List[Blog]{}, err
	}
	return c.blogsAbove(ctx, channel, id, top, continuation)
}

func checkAfter(id string) error {
	if _, err := parseBlogKey(id); err != nil {
		return &InputError{"after", "is invalid; use an ID from the list of blogs"}
	}
	return nil
}

// blogsAbove lists the blogs with keys above this one. A continuation is valid
// for each such list of the channel: it selects a position, and the key is a
// lower bound.
func (c *Channels) blogsAbove(ctx context.Context, channel, key string, top int, continuation string) (List[Blog], error) {
	if err := checkTop(top); err != nil {
		return List[Blog]{}, err
	}
	ch, err := c.find(ctx, channel)
	if err != nil {
		return List[Blog]{}, err
	}
	partition := ch.partition()
	return list(ctx, c.blogs, "blogs of "+partition, table.Query{Partition: partition, Above: key, Top: top}, continuation, readBlog)
}

// Update replaces a blog if it still has the ETag that the caller read. With
// the ETag * it overwrites any version. ErrChanged reports that the blog has
// another ETag: read it again before retrying.
//
// Update also returns ErrChanged if its answer was lost and another writer then
// replaced the update. That writer had read it, so no text is lost.
func (c *Channels) Update(ctx context.Context, channel, id, etag string, d Draft) (Blog, error) {
	if etag == "" {
		return Blog{}, ErrNoCondition
	}
	if err := d.check(); err != nil {
		return Blog{}, err
	}
	partition, err := c.locate(ctx, channel, id)
	if err != nil {
		return Blog{}, err
	}
	blog, err := c.update(ctx, blogRow(partition, id, d, randomHex(8)), etag)
	if err != nil {
		return Blog{}, fmt.Errorf("update blog %s of channel %q: %w", id, channel, err)
	}
	return blog, nil
}

func (c *Channels) update(ctx context.Context, row table.Row, etag string) (Blog, error) {
	write := table.Write{Verb: table.Replace, Row: row, If: etag}
	submit := c.blogs.Submit
	if etag == table.AnyVersion {
		submit = c.blogs.SubmitOnce
	}
	versions, err := submit(ctx, write)
	switch {
	case err == nil:
		row.Version = versions[0]
		return readBlog(row)
	case errors.Is(err, ErrNotFound):
		return Blog{}, ErrNotFound // removed, even if an earlier try was applied
	case !errors.Is(err, ErrUnclear):
		return Blog{}, err
	}
	stored, found, readErr := c.blogs.ReadBack(ctx, err, row.Partition, row.Key)
	switch {
	case readErr != nil:
		return Blog{}, readErr
	case !found:
		return Blog{}, ErrNotFound
	case stored.Values["operation"] == row.Values["operation"]:
		return readBlog(stored)
	case errors.Is(err, ErrChanged):
		return Blog{}, ErrChanged // no try can succeed any more: versions are not reused
	}
	return Blog{}, err
}

// Remove deletes a blog. With an ETag the blog must still have that ETag, and
// with * it must exist; otherwise Remove returns ErrChanged. Removing a missing
// blog without an ETag succeeds. With an ETag it succeeds if an earlier try of
// the same call may have removed the blog.
func (c *Channels) Remove(ctx context.Context, channel, id, etag string) error {
	partition, err := c.locate(ctx, channel, id)
	if err != nil {
		return err
	}
	_, err = c.blogs.Submit(ctx, table.Write{Verb: table.Delete, Row: table.Row{Partition: partition, Key: id}, If: cmp.Or(etag, table.AnyVersion)})
	switch {
	case errors.Is(err, ErrNotFound) && (etag == "" || errors.Is(err, ErrUnclear)):
		return nil
	case errors.Is(err, ErrNotFound):
		err = fmt.Errorf("it does not exist: %w", ErrChanged)
	case errors.Is(err, ErrChanged):
		err = ErrChanged // it exists, so no try removed it and none can any more
	}
	if err != nil {
		return fmt.Errorf("remove blog %s of channel %q: %w", id, channel, err)
	}
	return nil
}

// locate returns the partition of a blog that a caller names.
func (c *Channels) locate(ctx context.Context, channel, id string) (partition string, err error) {
	if _, err := parseBlogKey(id); err != nil {
		return "", err
	}
	ch, err := c.find(ctx, channel)
	if err != nil {
		return "", err
	}
	return ch.partition(), nil
}
