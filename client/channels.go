package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Channel is a named list of blogs.
type Channel struct {
	Name        string    `json:"channel"`
	Owner       string    `json:"owner"`
	Incarnation string    `json:"incarnation"` // differs between successive channels of the same name
	CreatedAt   time.Time `json:"createdAt"`
	ETag        string    `json:"etag"`

	received
}

// Deletion is the record of a channel's deletion.
type Deletion struct {
	Channel     string    `json:"channel"`
	Incarnation string    `json:"incarnation"`
	State       string    `json:"state"`   // Running or Done
	Deleted     int64     `json:"deleted"` // blogs so far
	StartedAt   time.Time `json:"startedAt"`
	FinishedAt  time.Time `json:"finishedAt,omitzero"`

	received
}

// The values of [Deletion.State].
const (
	Running = "running"
	Done    = "done"
)

// Channel reads a channel.
func (c *Client) Channel(ctx context.Context, name string) (ch Channel, err error) {
	if err := checkName("channel", name); err != nil {
		return ch, err
	}
	r := request{method: http.MethodGet, path: channelPath(name), repeats: always}
	_, err = c.call(ctx, r, &ch)
	return ch, c.expect(r, err, "for channel", ch.Name, name)
}

// Channels lists all channels in the order of their names. An error ends the
// list.
func (c *Client) Channels(ctx context.Context) iter.Seq2[Channel, error] {
	return list[Channel](ctx, c, "/channels", nil, defaultTop)
}

// CreateChannel creates a channel. If it exists with the same owner, it is
// returned, and created is false.
func (c *Client) CreateChannel(ctx context.Context, name, owner string) (ch Channel, created bool, err error) {
	if err := checkName("channel", name); err != nil {
		return ch, false, err
	}
	if err := checkTexts(owner); err != nil {
		return ch, false, err
	}
	r := request{
		method:  http.MethodPut,
		path:    channelPath(name),
		body:    map[string]string{"owner": owner},
		repeats: always,
		effect:  "the channel may have been created",
	}
	status, err := c.call(ctx, r, &ch)
	return ch, status == http.StatusCreated, c.expect(r, err, "for channel", ch.Name, name)
}

// DeleteChannel deletes a channel with all its blogs, and returns the record of
// the deletion, which may still be running: see [Client.WatchDeletion]. The
// ETag restricts it to the channel that the caller has read; "" deletes
// whichever channel has the name.
func (c *Client) DeleteChannel(ctx context.Context, name, etag string) (d Deletion, err error) {
	if err := checkName("channel", name); err != nil {
		return d, err
	}
	r := request{
		method:  http.MethodDelete,
		path:    channelPath(name),
		ifMatch: etag,
		effect:  "the deletion may have been accepted",
	}
	if etag != "" && etag != "*" {
		r.repeats = always // the app returns the record of a deletion that is running or done
	}
	_, err = c.call(ctx, r, &d)
	return d, c.expect(r, err, "for channel", d.Channel, name)
}

// Deletion reads the record of the deletion of a channel's incarnation; "" is
// the latest channel of that name.
func (c *Client) Deletion(ctx context.Context, name, incarnation string) (d Deletion, err error) {
	if err := checkName("channel", name); err != nil {
		return d, err
	}
	r := deletionRequest(name, incarnation)
	_, err = c.call(ctx, r, &d)
	return d, c.expect(r, err, "for channel", d.Channel, name)
}

// WatchDeletion yields d and then, every second, the newest known record of the
// same deletion, until it is done. It continues through outages. A permanent
// error or the end of ctx ends it with that error.
func (c *Client) WatchDeletion(ctx context.Context, d Deletion) iter.Seq2[Deletion, error] {
	r := deletionRequest(d.Channel, d.Incarnation)
	running := func(d Deletion) bool { return d.State == Running }
	return follow(ctx, c, d, running, func() (newer Deletion, err error) {
		answer, err := c.once(ctx, r)
		if err == nil {
			err = c.decode(answer, r, &newer)
		}
		return newer, c.expect(r, err, "for channel", newer.Channel, d.Channel)
	})
}

func deletionRequest(name, incarnation string) request {
	path := channelPath(name) + "/deletion"
	if incarnation != "" {
		path += "?incarnation=" + url.QueryEscape(incarnation)
	}
	return request{method: http.MethodGet, path: path, repeats: always}
}

func channelPath(name string) string { return "/channels/" + url.PathEscape(name) }
