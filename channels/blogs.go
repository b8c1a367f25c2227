package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNoCondition says that an update did not say what it was made from.
var ErrNoCondition = errors.New("an update needs the blog's ETag, or * to overwrite whatever is there")

// Draft is what a writer may write.
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
	ETag      string    `json:"etag"` // of this state; another one after each update
}

func (d Draft) check() error {
	return cmp.Or(
		checkText("title", d.Title, 1, maxTitle),
		checkText("text", d.Text, 0, maxText),
		checkText("userId", d.UserID, 1, maxOwner))
}

// Post adds a blog to a channel, in one transaction with a touch of the fence:
// if that is gone, nothing is added. ErrNotFound says that there is no such
// channel, or none any more.
//
// The transaction is sent once. If it is not answered it may arrive at any time
// later: after a second try with the same key it would bring back a blog that
// was removed meanwhile, and after one with another key it would be there
// twice. So the caller hears of an error, unless the blog is there; it may
// still come, which only the caller can wait for or put up with.
func (c *Channels) Post(ctx context.Context, channel string, d Draft) (Blog, error) {
	if err := d.check(); err != nil {
		return Blog{}, err
	}
	ch, err := c.find(ctx, channel)
	if err != nil {
		return Blog{}, err
	}
	blog, err := c.post(ctx, ch, d)
	if err != nil {
		return Blog{}, fmt.Errorf("post into channel %q: %w", channel, err)
	}
	return blog, nil
}

func (c *Channels) post(ctx context.Context, ch record, d Draft) (Blog, error) {
	partition := ch.partition()
	row := blogRow(partition, newBlogKey(c.now()), d, randomHex(8))
	versions, err := c.blogs.SubmitOnce(ctx,
		touchFence(partition),
		Write{Verb: Insert, Row: row})
	if err == nil {
		row.Version = versions[1]
		return readBlog(row)
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrRefused) {
		return Blog{}, err // the fence is gone, and soon all that ever was behind it; or nothing was done
	}
	// The key is new: if the row is there, then it is ours.
	stored, found := c.blogs.Get(ctx, partition, row.Key)
	switch {
	case found == nil:
		return readBlog(stored)
	case errors.Is(found, ErrNotFound):
		return Blog{}, err // it is not there, though it may still come
	}
	return Blog{}, unclear(err, found)
}

// now is the time of creation of a blog. It never comes twice in a process, so
// that blogs posted one after the other are listed in that order.
func (c *Channels) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UTC()
	if !now.After(c.last) {
		now = c.last.Add(1)
	}
	c.last = now
	return now
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

// Blogs returns up to top blogs in the order of their creation, starting where
// continuation says; "" is the beginning.
func (c *Channels) Blogs(ctx context.Context, channel string, top int, continuation string) (List[Blog], error) {
	if err := checkTop(top); err != nil {
		return List[Blog]{}, err
	}
	ch, err := c.find(ctx, channel)
	if err != nil {
		return List[Blog]{}, err
	}
	partition := ch.partition()
	return list(ctx, c.blogs, "blogs of "+partition, Query{Partition: partition, Above: fenceKey, Top: top}, continuation, readBlog)
}

// Update replaces a blog if it is still as the caller read it, which the
// blog's ETag says; with * it overwrites whatever is there. ErrChanged says
// that it is not: read again and decide.
//
// An update whose answer got lost and that was then overwritten by somebody
// who had read it answers ErrChanged too. Nothing is lost by that.
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

func (c *Channels) update(ctx context.Context, row Row, etag string) (Blog, error) {
	write := Write{Verb: Replace, Row: row, If: etag}
	submit := c.blogs.Submit
	if etag == AnyVersion {
		submit = c.blogs.SubmitOnce
	}
	versions, err := submit(ctx, write)
	if err == nil {
		row.Version = versions[0]
		return readBlog(row)
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrRefused) {
		return Blog{}, err
	}
	stored, found := c.blogs.Get(ctx, row.Partition, row.Key)
	switch {
	case found != nil:
		return Blog{}, unclear(err, found)
	case stored.Values["operation"] == row.Values["operation"]:
		return readBlog(stored)
	}
	return Blog{}, err
}

// Remove deletes a blog, with an ETag only if it is still as the caller read
// it, or with * if it is there at all; ErrChanged says that it is not. Without
// a condition, a blog that is not there is as good as removed. So it is with
// one if an earlier try of this very call may have removed it.
func (c *Channels) Remove(ctx context.Context, channel, id, etag string) error {
	partition, err := c.locate(ctx, channel, id)
	if err != nil {
		return err
	}
	_, err = c.blogs.Submit(ctx, Write{Verb: Delete, Row: Row{Partition: partition, Key: id}, If: cmp.Or(etag, AnyVersion)})
	if errors.Is(err, ErrNotFound) {
		if etag == "" || errors.Is(err, errRepeated) {
			return nil
		}
		err = fmt.Errorf("it is not there: %w", ErrChanged)
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
