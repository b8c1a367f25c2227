package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kennel/internal/table"
)

var (
	// ErrKeyReused reports that the key belongs to a post with another draft.
	ErrKeyReused = errors.New("the key belongs to another post")

	// ErrRemoved reports that an earlier post with the key added the blog, and
	// that the blog was removed since.
	ErrRemoved = errors.New("the blog was added, and removed since")
)

// PostOptions are the optional settings of a post; "" means none.
type PostOptions struct {
	// Incarnation is that of the channel that the caller read. ErrChanged
	// reports that another one has the name.
	Incarnation string

	// Key makes it safe to repeat the post for 24 hours: in this incarnation,
	// posts with the same key add one blog, and each returns it as it is now.
	// ErrKeyReused reports that the first of them had another draft, and
	// ErrRemoved that the blog was removed. A key has 1 to 128 visible ASCII
	// characters.
	Key string
}

// Post adds a blog to a channel, in one transaction with an update of the
// fence. If the fence is deleted, nothing is added. ErrNotFound reports that
// the channel does not exist or was deleted. After ErrUnclear the blog may
// exist or may still appear; only a post with a key may be repeated then.
func (c *Channels) Post(ctx context.Context, channel string, d Draft) (Blog, error) {
	return c.PostWith(ctx, channel, d, PostOptions{})
}

// PostWith is Post with options.
func (c *Channels) PostWith(ctx context.Context, channel string, d Draft, o PostOptions) (Blog, error) {
	if err := cmp.Or(d.check(), CheckKey(o.Key)); err != nil {
		return Blog{}, err
	}
	ch, err := c.find(ctx, channel)
	if err != nil {
		return Blog{}, err
	}
	if o.Incarnation != "" && o.Incarnation != ch.incarnation {
		return Blog{}, fmt.Errorf("post into channel %q: another channel has its name: %w", channel, ErrChanged)
	}
	row := blogRow(ch.partition(), newBlogKey(c.now()), d, randomHex(8))
	var blog Blog
	if o.Key == "" {
		blog, err = c.post(ctx, row)
	} else {
		blog, err = c.postOnce(ctx, row, o.Key, d)
	}
	if err != nil {
		return Blog{}, fmt.Errorf("post into channel %q: %w", channel, err)
	}
	return blog, nil
}

// post adds a blog without a key. The transaction is sent once. If it is not
// answered, it may arrive at any time later. After a second try with the same
// row, it could bring back a blog that was removed since; after a try with
// another row, there could be two blogs. So post only reads the blog, and
// returns ErrUnclear if it does not find it.
func (c *Channels) post(ctx context.Context, row table.Row) (Blog, error) {
	versions, err := c.blogs.SubmitOnce(ctx,
		touchFence(row.Partition),
		table.Write{Verb: table.Insert, Row: row})
	if err == nil {
		row.Version = versions[1]
		return readBlog(row)
	}
	if !errors.Is(err, ErrUnclear) {
		return Blog{}, err
	}
	// The row's key is new, so if the row exists it is ours.
	stored, found, readErr := c.blogs.ReadBack(ctx, err, row.Partition, row.Key)
	switch {
	case readErr != nil:
		return Blog{}, readErr
	case !found:
		return Blog{}, err // the request may still arrive
	}
	return readBlog(stored)
}

// postOnce adds a blog unless an earlier post with the same key did. The key is
// a row of the same transaction, so of all posts with it, and of all tries of
// one post, only the first that arrives adds a blog. The row stays when its
// blog is removed, so a late try does not bring the blog back.
func (c *Channels) postOnce(ctx context.Context, row table.Row, key string, d Draft) (Blog, error) {
	own := keyRow(row.Partition, key, row.Key, d)
	write := table.Write{Verb: table.Insert, Row: own}
	unclear := func(err error) error { return err }
	var err error
	for range maxSwaps {
		var versions []string
		versions, err = c.blogs.Submit(ctx,
			touchFence(row.Partition),
			table.Write{Verb: table.Insert, Row: row},
			write)
		if err == nil {
			row.Version = versions[1]
			c.forgetKeys(ctx, own)
			return readBlog(row)
		}
		if errors.Is(err, ErrUnclear) {
			unclear = table.Unclear
		}
		if errors.Is(err, ErrNotFound) {
			if write.Verb == table.Insert {
				return Blog{}, ErrNotFound // the fence is deleted, and soon whatever an earlier try added
			}
			write = table.Write{Verb: table.Insert, Row: own} // or the expired key was
			continue
		}
		stored, found, readErr := c.blogs.ReadBack(ctx, err, own.Partition, own.Key)
		var first postKey
		if found {
			first, readErr = readKey(stored)
		}
		switch {
		case readErr != nil:
			return Blog{}, unclear(readErr)
		case !found && table.IsConflict(err):
			write = table.Write{Verb: table.Insert, Row: own} // the key was forgotten since
		case !found:
			return Blog{}, err // the request may still arrive
		case first.blog != row.Key && first.expired(time.Now()):
			write = table.Write{Verb: table.Replace, Row: own, If: stored.Version}
		case first.draft != own.Values[draftColumn]:
			return Blog{}, ErrKeyReused
		default:
			blog, err := c.added(ctx, row.Partition, first.blog)
			if !errors.Is(err, ErrRemoved) {
				err = unclear(err)
			}
			return blog, err
		}
	}
	return Blog{}, unclear(err)
}

// added returns the blog that an earlier post added, as it is now.
func (c *Channels) added(ctx context.Context, partition, id string) (Blog, error) {
	row, err := c.blogs.Get(ctx, partition, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return Blog{}, ErrRemoved
	case err != nil:
		return Blog{}, err
	}
	return readBlog(row)
}

// Expired keys are forgotten by later posts: one post in forgetOneIn reads the
// keys that follow its own, as many as fit into a transaction, and deletes
// those that are expired. A key is a hash, so its place is random. That is an
// average of three keys read for each that is added, so where posts go on,
// the expired keys become a third of all, and then stay that many.
const (
	forgetOneIn = 32
	forgetFor   = time.Second // a post does not wait longer for it
)

// forgetKeys removes some expired keys now and then. What fails is left to
// later posts.
func (c *Channels) forgetKeys(ctx context.Context, own table.Row) {
	if rand.N(forgetOneIn) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forgetFor)
	defer cancel()
	page, err := c.blogs.Query(ctx, table.Query{Partition: own.Partition, Above: own.Key, Below: belowBlogs, Top: table.MaxTransaction})
	if err != nil {
		return
	}
	now := time.Now()
	var writes []table.Write
	for _, row := range page.Rows {
		if key, err := readKey(row); err == nil && key.expired(now) {
			writes = append(writes, table.Write{Verb: table.Delete, Row: row, If: row.Version})
		}
	}
	if len(writes) > 0 {
		_, _ = c.blogs.SubmitOnce(ctx, writes...)
	}
}

// now returns the creation time of a new blog. It increases with each blog of a
// process, so that blogs are listed in the order in which they were posted.
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
