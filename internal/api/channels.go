package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kennel/channels"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/table"
)

// ChannelResource serves channels and their blogs.
type ChannelResource struct {
	Channels *channels.Channels
	Log      *slog.Logger
	Off      error // why channels are not served; nil if they are
}

func (c ChannelResource) Routes() []edge.Route {
	const function = "Channels"
	page := []string{"top", "continuation"}
	return []edge.Route{
		{Function: function, Pattern: "GET /api/channels", Query: page, Handler: c.serve(ChannelFailures, c.listChannels)},
		{Function: function, Pattern: "PUT /api/channels/{channel}", Conditions: []string{edge.IfNoneMatch}, Body: true, Handler: c.serve(ChannelFailures, c.createChannel)},
		{Function: function, Pattern: "GET /api/channels/{channel}", Handler: c.serve(ChannelFailures, c.readChannel)},
		{Function: function, Pattern: "DELETE /api/channels/{channel}", Conditions: []string{edge.IfMatch}, Handler: c.serve(ChannelDeleteFailures, c.deleteChannel)},
		{Function: function, Pattern: "GET /api/channels/{channel}/deletion", Query: []string{"incarnation"}, Handler: c.serve(DeletionFailures, c.readDeletion)},
		{Function: function, Pattern: "POST /api/channels/{channel}/blogs", Conditions: []string{edge.IfMatch, edge.IdempotencyKey}, Body: true, Handler: c.serve(BlogPostFailures, c.postBlog)},
		{Function: function, Pattern: "GET /api/channels/{channel}/blogs", Query: append([]string{"order", "after"}, page...), Handler: c.serve(ChannelFailures, c.listBlogs)},
		{Function: function, Pattern: "GET /api/channels/{channel}/blogs/{blog}", Handler: c.serve(BlogFailures, c.readBlog)},
		{Function: function, Pattern: "PUT /api/channels/{channel}/blogs/{blog}", Conditions: []string{edge.IfMatch}, Body: true, Handler: c.serve(BlogFailures, c.updateBlog)},
		{Function: function, Pattern: "DELETE /api/channels/{channel}/blogs/{blog}", Conditions: []string{edge.IfMatch}, Handler: c.serve(BlogFailures, c.removeBlog)},
	}
}

func (c ChannelResource) serve(failures []Failure, do func(*http.Request) (edge.Reply, error)) http.Handler {
	return Serve(failures, func(r *http.Request) (edge.Reply, error) {
		if c.Off != nil {
			return edge.Reply{}, errChannelsOff
		}
		return edge.Limited(r, do)
	})
}

// channelAnswer is a channel as callers see it. Its ETag distinguishes it from a
// later channel of the same name.
type channelAnswer struct {
	channels.Channel
	ETag string `json:"etag"`
}

func answerChannel(c channels.Channel) channelAnswer {
	return channelAnswer{c, `"` + c.Incarnation + `"`}
}

// createChannel serves PUT /api/channels/{channel} with a body {"owner":"…"}:
// 201, or 200 if it exists with the same owner. With If-None-Match: * the
// answer is 412 if a channel of that name exists, with any owner.
func (c ChannelResource) createChannel(r *http.Request) (edge.Reply, error) {
	absent, err := absenceOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	var body struct {
		Owner string `json:"owner"`
	}
	if err := customhandler.ReadJSON(r, edge.MaxBody, &body); err != nil {
		return edge.Reply{}, err
	}
	channel, created, err := c.Channels.Create(r.Context(), r.PathValue("channel"), body.Owner)
	if absent && (err == nil && !created || errors.Is(err, channels.ErrOwned)) {
		return edge.Reply{}, errChannelExists
	}
	if err != nil {
		return edge.Reply{}, err
	}
	answer := answerChannel(channel)
	if !created {
		return edge.Reply{Status: http.StatusOK, Etag: answer.ETag, Body: answer}, nil
	}
	return edge.Reply{Status: http.StatusCreated, Location: channelAddress(channel.Name), Etag: answer.ETag, Body: answer}, nil
}

// readChannel serves GET /api/channels/{channel}.
func (c ChannelResource) readChannel(r *http.Request) (edge.Reply, error) {
	channel, err := c.Channels.Read(r.Context(), r.PathValue("channel"))
	if err != nil {
		return edge.Reply{}, err
	}
	answer := answerChannel(channel)
	return edge.Reply{Status: http.StatusOK, Etag: answer.ETag, Body: answer}, nil
}

// incarnationOf reads If-Match with the ETag of a channel: "" for any.
func incarnationOf(r *http.Request) (string, error) {
	condition, err := conditionOf(r)
	if err != nil || condition == table.AnyVersion {
		return "", err
	}
	return strings.Trim(strings.TrimPrefix(condition, "W/"), `"`), nil
}

// deleteChannel serves DELETE /api/channels/{channel}: 202 with the record of
// the deletion, whose state becomes "done". With If-Match a caller deletes only
// the channel that it read.
func (c ChannelResource) deleteChannel(r *http.Request) (edge.Reply, error) {
	incarnation, err := incarnationOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	began := time.Now()
	deletion, err := c.Channels.Delete(r.Context(), r.PathValue("channel"), incarnation)
	if wrong, ok := errors.AsType[*channels.InputError](err); ok && wrong.Field == "incarnation" {
		return edge.Reply{}, channels.ErrChanged // an ETag that no channel ever had
	}
	if err != nil {
		return edge.Reply{}, err
	}
	LogDeleted(r.Context(), c.Log, began, deletion)
	location := channelAddress(deletion.Channel) + "/deletion?incarnation=" + deletion.Incarnation
	return edge.Reply{Status: http.StatusAccepted, Location: location, Body: deletion}, nil
}

// listChannels serves GET /api/channels?top=N&continuation=….
func (c ChannelResource) listChannels(r *http.Request) (edge.Reply, error) {
	top, continuation, err := edge.PageOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	list, err := c.Channels.List(r.Context(), top, continuation)
	if err != nil {
		return edge.Reply{}, err
	}
	logLeftOut(r.Context(), c.Log, list.LeftOut, list.Problem)
	answer := channels.List[channelAnswer]{Items: make([]channelAnswer, len(list.Items)), Continuation: list.Continuation, LeftOut: list.LeftOut}
	for i, channel := range list.Items {
		answer.Items[i] = answerChannel(channel)
	}
	return edge.Reply{Status: http.StatusOK, Body: answer}, nil
}

// logLeftOut logs the rows that a list lacks because they cannot be read.
func logLeftOut(ctx context.Context, log *slog.Logger, rows int, problem error) {
	if rows > 0 {
		log.WarnContext(ctx, "invalid rows are left out of a list", "rows", rows, "error", problem)
	}
}

// readDeletion serves GET /api/channels/{channel}/deletion: the record of the
// latest channel of that name, or with ?incarnation=… of that incarnation.
func (c ChannelResource) readDeletion(r *http.Request) (edge.Reply, error) {
	deletion, err := c.Channels.Deletion(r.Context(), r.PathValue("channel"), customhandler.Query(r, "incarnation"))
	return edge.Reply{Status: http.StatusOK, Body: deletion}, err
}

func channelAddress(name string) string { return "/api/channels/" + url.PathEscape(name) }

// LogDeleted logs a deletion that completed since a call or an attempt began.
// Most messages arrive after that and log nothing.
func LogDeleted(ctx context.Context, log *slog.Logger, began time.Time, d channels.Deletion) {
	if d.State == channels.Done && !d.FinishedAt.Before(began) {
		log.InfoContext(ctx, "channel deleted", "channel", d.Channel, "incarnation", d.Incarnation, "blogs", d.Deleted)
	}
}
