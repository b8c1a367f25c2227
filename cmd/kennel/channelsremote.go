package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"kennel/channels"
	"kennel/table"
)

// channelsRemote is the channels of an app, or one channel.
type channelsRemote struct {
	remote
	name string // "" for all channels
}

const (
	// listPage is how many blogs or channels one request lists. A page of blogs
	// of maximum length fits in memory.
	listPage = 100
	maxPage  = 256 << 20

	// Counting blogs delays a deletion and transfers their texts, so both the
	// time and the size are limited.
	countPage = table.MaxPage
	countFor  = 5 * time.Second
	countSize = 16 << 20 // bytes of blogs

	unknown = int64(-1)
)

// Responses of the app, decoded and as received.
type (
	channelAnswer struct {
		channels.Channel
		ETag string
		line []byte
	}
	deletionAnswer struct {
		channels.Deletion
		line []byte
	}
	blogAnswer struct {
		channels.Blog
		line []byte
	}
)

func (c channelsRemote) address() string { return "/api/channels/" + url.PathEscape(c.name) }

// get reads one resource and returns it as received.
func (c channelsRemote) get(ctx context.Context, path string, into any) (line []byte, err error) {
	answer, err := c.send(ctx, request{method: http.MethodGet, path: path, accept: "application/json"})
	if err != nil {
		return nil, err
	}
	defer answer.close()
	return c.readJSON(answer, into)
}

func (c channelsRemote) read(ctx context.Context) (a channelAnswer, err error) {
	a.line, err = c.get(ctx, c.address(), &a)
	return a, c.expect(err, a.Name)
}

// create may be retried: creating a channel again as its owner succeeds.
func (c channelsRemote) create(ctx context.Context, owner string) (a channelAnswer, created bool, err error) {
	c.unsure = "the channel may have been created; see `kennel channels show`"
	body, err := json.Marshal(map[string]string{"owner": owner})
	if err != nil {
		return a, false, err
	}
	answer, err := c.send(ctx, request{method: http.MethodPut, path: c.address(), accept: "application/json", body: string(body)})
	if err != nil {
		return a, false, err
	}
	defer answer.close()
	a.line, err = c.readJSON(answer, &a)
	return a, answer.StatusCode == http.StatusCreated, c.expect(err, a.Name)
}

// delete may be retried: the ETag restricts it to this channel.
func (c channelsRemote) delete(ctx context.Context, channel channelAnswer) (d deletionAnswer, err error) {
	c.unsure = "the deletion may have been accepted; see `kennel channels show`"
	answer, err := c.send(ctx, request{method: http.MethodDelete, path: c.address(), accept: "application/json", ifMatch: channel.ETag})
	if err != nil {
		return d, err
	}
	defer answer.close()
	d.line, err = c.readJSON(answer, &d)
	return d, c.expect(err, d.Channel)
}

// deletion reads the record of one deletion; "" is the latest.
func (c channelsRemote) deletion(ctx context.Context, incarnation string) (d deletionAnswer, err error) {
	d.line, err = c.get(ctx, c.address()+"/deletion?incarnation="+url.QueryEscape(incarnation), &d)
	return d, c.expect(err, d.Channel)
}

// post does not retry, because a second request could create a second blog.
func (c channelsRemote) post(ctx context.Context, draft channels.Draft) (b blogAnswer, err error) {
	c.unsure = "the blog may have been created; see `kennel blogs list`"
	body, err := json.Marshal(draft)
	if err != nil {
		return b, err
	}
	answer, err := c.once(ctx, request{method: http.MethodPost, path: c.address() + "/blogs", accept: "application/json", body: string(body)})
	if err != nil {
		return b, err
	}
	defer answer.close()
	b.line, err = c.readJSON(answer, &b)
	if err == nil && b.ID == "" {
		err = c.unexpected(errors.New("it is not a blog"))
	}
	return b, err
}

// each calls do for each item on all pages of a list.
func (c channelsRemote) each(ctx context.Context, path string, top int, do func(item json.RawMessage) error) error {
	for continuation := ""; ; {
		var page struct {
			Items        []json.RawMessage
			Continuation string
		}
		query := "?top=" + strconv.Itoa(top)
		if continuation != "" {
			query += "&continuation=" + url.QueryEscape(continuation)
		}
		answer, err := c.send(ctx, request{method: http.MethodGet, path: path + query, accept: "application/json"})
		if err != nil {
			return err
		}
		_, err = c.readLongJSON(answer, &page, maxPage)
		answer.close()
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			var line bytes.Buffer
			if err := json.Compact(&line, item); err != nil {
				return c.unexpected(err)
			}
			if err := do(line.Bytes()); err != nil {
				return err
			}
		}
		if continuation = page.Continuation; continuation == "" {
			return nil
		}
	}
}

var errEnough = errors.New("enough")

// countBlogs counts the channel's blogs. It reports whether it counted all of
// them within its limits.
func (c channelsRemote) countBlogs(ctx context.Context) (n int64, all bool, err error) {
	limited, cancel := context.WithTimeout(ctx, countFor)
	defer cancel()
	size := 0
	err = c.each(limited, c.address()+"/blogs", countPage, func(item json.RawMessage) error {
		if size += len(item); size > countSize {
			return errEnough
		}
		n++
		return nil
	})
	if errors.Is(err, errEnough) || err != nil && limited.Err() != nil && ctx.Err() == nil {
		return n, false, nil
	}
	return n, err == nil, err
}

// expect checks that the response is for the requested channel.
func (c channelsRemote) expect(err error, name string) error {
	if err == nil && name != c.name {
		return c.unexpected(fmt.Errorf("it is not for channel %q", printable(c.name)))
	}
	return err
}

func (c channelsRemote) unexpected(err error) error {
	return fmt.Errorf("the app at %s returned an unexpected response: %w", c.base, err)
}

// hasCode reports whether the app returned this error code.
func hasCode(err error, code string) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && refused.code == code
}
