package client

import (
	"context"
	"crypto/rand"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Draft has the fields of a blog that its author writes.
type Draft struct {
	Title  string `json:"title"`
	Text   string `json:"text"`
	UserID string `json:"userId"`
}

// Blog is an entry of a channel.
type Blog struct {
	ID        string    `json:"blog"`
	Title     string    `json:"title"`
	Text      string    `json:"text"`
	UserID    string    `json:"userId"`
	CreatedAt time.Time `json:"createdAt"`
	ETag      string    `json:"etag"` // changes with each update

	received
}

// Blog reads a blog.
func (c *Client) Blog(ctx context.Context, channel, blog string) (b Blog, err error) {
	path, err := blogPath(channel, blog)
	if err != nil {
		return b, err
	}
	return c.blog(ctx, request{method: http.MethodGet, path: path, repeats: always}, blog)
}

// Blogs lists the blogs of a channel in the order of their creation. An error
// ends the list.
func (c *Client) Blogs(ctx context.Context, channel string) iter.Seq2[Blog, error] {
	return c.blogs(ctx, channel, nil, defaultTop)
}

// BlogsAfter is Blogs without the blogs up to this one, which may have been
// deleted.
func (c *Client) BlogsAfter(ctx context.Context, channel, blog string) iter.Seq2[Blog, error] {
	return c.blogs(ctx, channel, url.Values{"after": {blog}}, defaultTop)
}

// NewestBlogs is Blogs with the newest blogs first. It has no blogs that are
// added while the list is read.
func (c *Client) NewestBlogs(ctx context.Context, channel string) iter.Seq2[Blog, error] {
	return c.blogs(ctx, channel, url.Values{"order": {"newest"}}, defaultTop)
}

func (c *Client) blogs(ctx context.Context, channel string, query url.Values, top int) iter.Seq2[Blog, error] {
	if err := checkName("channel", channel); err != nil {
		return func(yield func(Blog, error) bool) { yield(Blog{}, err) }
	}
	return list[Blog](ctx, c, channelPath(channel)+"/blogs", query, top)
}

// AddBlog adds a blog to a channel. After an error that is ErrUnclear the blog
// may exist, or may still arrive: read the end of the list before you add it
// again, or use AddBlogOnce.
func (c *Client) AddBlog(ctx context.Context, channel string, draft Draft) (b Blog, err error) {
	return c.AddBlogOnce(ctx, channel, rand.Text(), draft)
}

// AddBlogOnce adds a blog to a channel. In 24 hours, all calls with the same
// key and draft add one blog, and each returns it as it is then. So the call
// may be repeated after any error, also by another process. The code key_reused
// reports that the key was used for another draft, and blog_deleted that the
// blog was deleted since. A key has 1 to 128 visible ASCII characters and
// belongs to the channel.
func (c *Client) AddBlogOnce(ctx context.Context, channel, key string, draft Draft) (b Blog, err error) {
	if err := checkName("channel", channel); err != nil {
		return b, err
	}
	if err := checkKey("blog", key); err != nil {
		return b, err
	}
	if err := draft.check(); err != nil {
		return b, err
	}
	return c.blog(ctx, request{
		method:  http.MethodPost,
		path:    channelPath(channel) + "/blogs",
		body:    draft,
		key:     key,
		repeats: always,
		effect:  "the blog may have been created",
	}, "")
}

// UpdateBlog replaces a blog, if its ETag is still the one that the caller has
// read. "*" overwrites any version.
func (c *Client) UpdateBlog(ctx context.Context, channel, blog, etag string, draft Draft) (b Blog, err error) {
	path, err := blogPath(channel, blog)
	if err != nil {
		return b, err
	}
	if err := draft.check(); err != nil {
		return b, err
	}
	if etag == "" {
		return b, invalidf(`an update needs the ETag of the blog that was read, or "*"`)
	}
	r := request{
		method:  http.MethodPut,
		path:    path,
		body:    draft,
		ifMatch: etag,
		effect:  "the blog may have been changed",
	}
	if etag == "*" {
		r.repeats = always
	}
	return c.blog(ctx, r, blog)
}

// DeleteBlog deletes a blog; one that does not exist is not an error. An ETag,
// if not "", restricts it to the version that the caller has read; then a
// missing blog is an error.
func (c *Client) DeleteBlog(ctx context.Context, channel, blog, etag string) error {
	path, err := blogPath(channel, blog)
	if err != nil {
		return err
	}
	r := request{
		method:  http.MethodDelete,
		path:    path,
		ifMatch: etag,
		effect:  "the blog may have been deleted",
	}
	if etag == "" {
		r.repeats = always
	}
	answer, err := c.send(ctx, r)
	if err == nil && answer.status != http.StatusNoContent {
		err = c.unexpected(r, "status %d instead of 204", answer.status)
	}
	return err
}

// CountBlogs counts the blogs of a channel, which transfers their texts. It
// stops after five seconds or 16 MiB; then all is false, and there are more.
func (c *Client) CountBlogs(ctx context.Context, channel string) (n int64, all bool, err error) {
	limited, cancel := context.WithTimeout(ctx, countFor)
	defer cancel()
	size := 0
	for blog, err := range c.blogs(limited, channel, nil, maxTop) {
		if err != nil {
			if limited.Err() != nil && ctx.Err() == nil {
				return n, false, nil
			}
			return n, false, err
		}
		if size += len(blog.JSON()); size > countSize {
			return n, false, nil
		}
		n++
	}
	return n, true, nil
}

const (
	countFor  = 5 * time.Second
	countSize = 16 << 20 // bytes of JSON
)

// blog sends a request that is answered by a blog. Its ID is want, or any if
// want is "".
func (c *Client) blog(ctx context.Context, r request, want string) (b Blog, err error) {
	if _, err := c.call(ctx, r, &b); err != nil {
		return Blog{}, err
	}
	if b.ID == "" || want != "" && b.ID != want {
		return Blog{}, c.unexpected(r, "it is not the blog")
	}
	return b, nil
}

func (d Draft) check() error { return checkTexts(d.Title, d.Text, d.UserID) }

func blogPath(channel, blog string) (string, error) {
	if err := checkName("channel", channel); err != nil {
		return "", err
	}
	if err := checkName("blog", blog); err != nil {
		return "", err
	}
	return channelPath(channel) + "/blogs/" + url.PathEscape(blog), nil
}
