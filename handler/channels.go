package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kennel/channels"
	"kennel/internal/azure"
	"kennel/internal/azure/servicebus"
	"kennel/internal/customhandler"
	"kennel/internal/names"
	"kennel/internal/table"
	"kennel/queue"
)

// channelFunctions serve channels and their blogs.
type channelFunctions struct {
	channels *channels.Channels
	dead     channels.Outbox  // receives messages that can never be carried out
	signals  *queue.Publisher // wakes workers
	meter    *meter
	queues   samplable
	letters  *letterCount // what is known of them
	log      *slog.Logger
	off      error // why channels are not served; nil if they are
}

// newChannels serves channels if the account has tables and queues. Without
// them it logs what is missing, and the other jobs are served.
func newChannels(account azure.Account, o azure.Options, signals *servicebus.Signals, meter *meter, log *slog.Logger) job {
	o.Job = "channels"
	c, queues, err := openChannels(account, &o, signals, meter, log)
	if err != nil {
		log.Warn("channels are not served: they need tables and queues", "error", err)
		c = channelFunctions{meter: meter, log: log, off: err}
		return job{routes: c.routes(), register: c.register}
	}
	return job{routes: c.routes(), register: c.register, run: c.run, probes: map[string]probe{"queues": probeQueues(queues)}, letters: map[string]*letterCount{names.CleanupQueue: c.letters}, problems: c.letters.problems, sample: c.sample, wake: c.wake}
}

func openChannels(account azure.Account, o *azure.Options, signals *servicebus.Signals, meter *meter, log *slog.Logger) (c channelFunctions, queues *azure.Queues, err error) {
	tables, err1 := account.OpenTables(o)
	queues, err2 := account.OpenQueues(o)
	if err := errors.Join(err1, err2); err != nil {
		return c, nil, err
	}
	channelTable, err1 := azure.NewTable(tables, names.ChannelsTable)
	blogTable, err2 := azure.NewTable(tables, names.BlogsTable)
	outbox, err3 := azure.NewOutbox(queues, names.CleanupQueue)
	dead, err4 := azure.NewOutbox(queues, names.CleanupQueue+queue.PoisonSuffix)
	publisher, err5 := queue.NewPublisher(queues, &queue.PublisherOptions{Signals: ofQueues(signals), Log: log})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return c, nil, err
	}
	c = channelFunctions{dead: dead, signals: publisher, meter: meter, queues: queues, letters: &letterCount{queue: names.CleanupQueue}, log: log}
	c.channels, err = channels.New(channelTable, blogTable, announced{outbox, publisher, names.CleanupQueue}, nil)
	return c, queues, err
}

func (c channelFunctions) routes() []route {
	const function = "Channels"
	page := []string{"top", "continuation"}
	return []route{
		{function: function, pattern: "GET /api/channels", query: page, handler: c.serve(channelFailures, c.listChannels)},
		{function: function, pattern: "PUT /api/channels/{channel}", conditions: []string{ifNoneMatch}, body: true, handler: c.serve(channelFailures, c.createChannel)},
		{function: function, pattern: "GET /api/channels/{channel}", handler: c.serve(channelFailures, c.readChannel)},
		{function: function, pattern: "DELETE /api/channels/{channel}", conditions: []string{ifMatch}, handler: c.serve(channelDeleteFailures, c.deleteChannel)},
		{function: function, pattern: "GET /api/channels/{channel}/deletion", query: []string{"incarnation"}, handler: c.serve(deletionFailures, c.readDeletion)},
		{function: function, pattern: "POST /api/channels/{channel}/blogs", conditions: []string{ifMatch, idempotencyKey}, body: true, handler: c.serve(blogPostFailures, c.postBlog)},
		{function: function, pattern: "GET /api/channels/{channel}/blogs", query: append([]string{"order", "after"}, page...), handler: c.serve(channelFailures, c.listBlogs)},
		{function: function, pattern: "GET /api/channels/{channel}/blogs/{blog}", handler: c.serve(blogFailures, c.readBlog)},
		{function: function, pattern: "PUT /api/channels/{channel}/blogs/{blog}", conditions: []string{ifMatch}, body: true, handler: c.serve(blogFailures, c.updateBlog)},
		{function: function, pattern: "DELETE /api/channels/{channel}/blogs/{blog}", conditions: []string{ifMatch}, handler: c.serve(blogFailures, c.removeBlog)},
	}
}

func (c channelFunctions) register(host *customhandler.App) {
	host.Queue("ChannelCleanup", "message", c.meter.queue(names.CleanupQueue, tracedQueue(names.CleanupQueue, c.cleanUp)))
	host.Timer("ChannelSweep", "tick", c.sweep())
}

func (c channelFunctions) serve(failures []failure, do func(*http.Request) (reply, error)) http.Handler {
	return serve(failures, func(r *http.Request) (reply, error) {
		if c.off != nil {
			return reply{}, &customhandler.Error{Status: http.StatusNotImplemented, Code: "channels_off",
				Message: "This app has no tables or queues for channels. Name them in AzureWebJobsStorage; the app's log states what is missing."}
		}
		return limited(r, do)
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
func (c channelFunctions) createChannel(r *http.Request) (reply, error) {
	absent, err := absenceOf(r)
	if err != nil {
		return reply{}, err
	}
	var body struct {
		Owner string `json:"owner"`
	}
	if err := customhandler.ReadJSON(r, maxBody, &body); err != nil {
		return reply{}, err
	}
	channel, created, err := c.channels.Create(r.Context(), r.PathValue("channel"), body.Owner)
	if absent && (err == nil && !created || errors.Is(err, channels.ErrOwned)) {
		return reply{}, &customhandler.Error{Status: http.StatusPreconditionFailed, Code: "channel_exists",
			Message: "A channel of this name exists, and the request has If-None-Match: *."}
	}
	if err != nil {
		return reply{}, err
	}
	answer := answerChannel(channel)
	if !created {
		return reply{status: http.StatusOK, etag: answer.ETag, body: answer}, nil
	}
	return reply{http.StatusCreated, channelAddress(channel.Name), answer.ETag, answer}, nil
}

// readChannel serves GET /api/channels/{channel}.
func (c channelFunctions) readChannel(r *http.Request) (reply, error) {
	channel, err := c.channels.Read(r.Context(), r.PathValue("channel"))
	if err != nil {
		return reply{}, err
	}
	answer := answerChannel(channel)
	return reply{status: http.StatusOK, etag: answer.ETag, body: answer}, nil
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
func (c channelFunctions) deleteChannel(r *http.Request) (reply, error) {
	incarnation, err := incarnationOf(r)
	if err != nil {
		return reply{}, err
	}
	began := time.Now()
	deletion, err := c.channels.Delete(r.Context(), r.PathValue("channel"), incarnation)
	if wrong, ok := errors.AsType[*channels.InputError](err); ok && wrong.Field == "incarnation" {
		return reply{}, channels.ErrChanged // an ETag that no channel ever had
	}
	if err != nil {
		return reply{}, err
	}
	c.logFinished(r.Context(), began, deletion)
	location := channelAddress(deletion.Channel) + "/deletion?incarnation=" + deletion.Incarnation
	return reply{status: http.StatusAccepted, location: location, body: deletion}, nil
}

// listChannels serves GET /api/channels?top=N&continuation=….
func (c channelFunctions) listChannels(r *http.Request) (reply, error) {
	top, continuation, err := pageOf(r)
	if err != nil {
		return reply{}, err
	}
	list, err := c.channels.List(r.Context(), top, continuation)
	if err != nil {
		return reply{}, err
	}
	logLeftOut(r.Context(), c.log, list.LeftOut, list.Problem)
	answer := channels.List[channelAnswer]{Items: make([]channelAnswer, len(list.Items)), Continuation: list.Continuation, LeftOut: list.LeftOut}
	for i, channel := range list.Items {
		answer.Items[i] = answerChannel(channel)
	}
	return reply{status: http.StatusOK, body: answer}, nil
}

// logLeftOut logs the rows that a list lacks because they cannot be read.
func logLeftOut(ctx context.Context, log *slog.Logger, rows int, problem error) {
	if rows > 0 {
		log.WarnContext(ctx, "invalid rows are left out of a list", "rows", rows, "error", problem)
	}
}

// readDeletion serves GET /api/channels/{channel}/deletion: the record of the
// latest channel of that name, or with ?incarnation=… of that incarnation.
func (c channelFunctions) readDeletion(r *http.Request) (reply, error) {
	deletion, err := c.channels.Deletion(r.Context(), r.PathValue("channel"), customhandler.Query(r, "incarnation"))
	return reply{status: http.StatusOK, body: deletion}, err
}

func channelAddress(name string) string { return "/api/channels/" + url.PathEscape(name) }
