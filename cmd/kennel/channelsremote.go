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

// channelsRemote are the channels of an app, and one of them.
type channelsRemote struct {
	remote
	name string // "" where it is about all of them
}

const (
	// listPage is how many blogs or channels are asked for at once: as many
	// blogs of the longest kind still are an answer that can be held.
	listPage = 100
	maxPage  = 256 << 20

	// A deletion should not wait for long until its blogs are counted, nor cost
	// more than it is worth: blogs come with their texts.
	countPage = table.MaxPage
	countFor  = 5 * time.Second
	countSize = 16 << 20 // bytes of blogs

	unknown = int64(-1)
)

// What the app answers, and how it wrote it.
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

// get asks for one thing, and returns it as the app wrote it.
func (c channelsRemote) get(ctx context.Context, path string, into any) (line []byte, err error) {
	answer, err := c.send(ctx, ask{method: http.MethodGet, path: path, accept: "application/json"})
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

// create may be sent again: who owns the channel already is told so.
func (c channelsRemote) create(ctx context.Context, owner string) (a channelAnswer, created bool, err error) {
	c.unsure = "the channel may have been created; see `kennel channels show`"
	body, err := json.Marshal(map[string]string{"owner": owner})
	if err != nil {
		return a, false, err
	}
	answer, err := c.send(ctx, ask{method: http.MethodPut, path: c.address(), accept: "application/json", body: string(body)})
	if err != nil {
		return a, false, err
	}
	defer answer.close()
	a.line, err = c.readJSON(answer, &a)
	return a, answer.StatusCode == http.StatusCreated, c.expect(err, a.Name)
}

// delete may be sent again: it is about this very channel.
func (c channelsRemote) delete(ctx context.Context, channel channelAnswer) (d deletionAnswer, err error) {
	c.unsure = "the channel may be on its way out; see `kennel channels show`"
	answer, err := c.send(ctx, ask{method: http.MethodDelete, path: c.address(), accept: "application/json", ifMatch: channel.ETag})
	if err != nil {
		return d, err
	}
	defer answer.close()
	d.line, err = c.readJSON(answer, &d)
	return d, c.expect(err, d.Channel)
}

// deletion asks for the record of one deletion; "" is the latest.
func (c channelsRemote) deletion(ctx context.Context, incarnation string) (d deletionAnswer, err error) {
	d.line, err = c.get(ctx, c.address()+"/deletion?incarnation="+url.QueryEscape(incarnation), &d)
	return d, c.expect(err, d.Channel)
}

// post is sent once: sent again it might be there twice.
func (c channelsRemote) post(ctx context.Context, draft channels.Draft) (b blogAnswer, err error) {
	c.unsure = "the blog may be there; see `kennel blogs list`"
	body, err := json.Marshal(draft)
	if err != nil {
		return b, err
	}
	answer, err := c.once(ctx, ask{method: http.MethodPost, path: c.address() + "/blogs", accept: "application/json", body: string(body)})
	if err != nil {
		return b, err
	}
	defer answer.close()
	b.line, err = c.readJSON(answer, &b)
	if err == nil && b.ID == "" {
		err = c.strange(errors.New("it is not a blog"))
	}
	return b, err
}

// each goes through all pages of a list.
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
		answer, err := c.send(ctx, ask{method: http.MethodGet, path: path + query, accept: "application/json"})
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
				return c.strange(err)
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

// countBlogs counts the channel's blogs; all says whether it came to the end
// in time.
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

// expect makes sure that the answer is about the channel that was asked for.
func (c channelsRemote) expect(err error, name string) error {
	if err == nil && name != c.name {
		return c.strange(fmt.Errorf("it is not about channel %q", printable(c.name)))
	}
	return err
}

func (c channelsRemote) strange(err error) error {
	return fmt.Errorf("the app at %s answered something else than was asked for: %w", c.base, err)
}

// saidCode reports whether the app has refused with this code.
func saidCode(err error, code string) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && refused.code == code
}
