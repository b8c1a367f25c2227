package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"kennel/channels"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/customhandler"
)

// The tables are named as in the lecture, and the queue is the one in
// functions/ChannelCleanup. All are created with their first row or message.
const (
	channelsTable = "Channels"
	blogsTable    = "Blogs"
	cleanupQueue  = "delete-channel-and-blogs"
)

// channelFunctions are the functions that serve channels and their blogs.
type channelFunctions struct {
	channels *channels.Channels
	dead     channels.Outbox // where messages go that can never be carried out
	log      *slog.Logger
	off      error // why there are none; nil where they are served

	tables, queues probe // for the status; nil where channels are not served
}

// openChannels makes no request. An account may be given for blobs alone: the
// other jobs are served then, and this one logs what it lacks.
func openChannels(account azure.Account, counter *requests.Counter, log *slog.Logger) channelFunctions {
	c, err := newChannels(account, &azure.Options{Requests: counter, Job: "channels"})
	if err != nil {
		log.Warn("channels are not served: they need tables and queues", "error", err)
		return channelFunctions{off: err, log: log}
	}
	c.log = log
	return c
}

func newChannels(account azure.Account, o *azure.Options) (c channelFunctions, err error) {
	tables, err := account.OpenTables(o)
	if err != nil {
		return c, err
	}
	queues, err := account.OpenQueues(o)
	if err != nil {
		return c, err
	}
	channelTable, err1 := azure.NewTable(tables, channelsTable)
	blogTable, err2 := azure.NewTable(tables, blogsTable)
	outbox, err3 := azure.NewOutbox(queues, cleanupQueue)
	dead, err4 := azure.NewOutbox(queues, cleanupQueue+poisonSuffix)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return c, err
	}
	c = channelFunctions{dead: dead, tables: probeTables(channelTable), queues: probeQueues(queues)}
	c.channels, err = channels.New(channelTable, blogTable, outbox, nil)
	return c, err
}

func (c channelFunctions) register(host *customhandler.App) {
	host.HTTP("Channels", "req", c.serve("channel", c.createChannel), "PUT /api/channels/{channel}")
	host.HTTP("Channels", "req", c.serve("channel", c.readChannel), "GET /api/channels/{channel}")
	host.HTTP("Channels", "req", c.serve("channel", c.deleteChannel), "DELETE /api/channels/{channel}")
	host.HTTP("Channels", "req", c.serve("channel", c.listChannels), "GET /api/channels")
	host.HTTP("Channels", "req", c.serve("deletion", c.readDeletion), "GET /api/channels/{channel}/deletion")
	host.HTTP("Channels", "req", c.serve("channel", c.postBlog), "POST /api/channels/{channel}/blogs")
	host.HTTP("Channels", "req", c.serve("channel", c.listBlogs), "GET /api/channels/{channel}/blogs")
	host.HTTP("Channels", "req", c.serve("blog", c.readBlog), "GET /api/channels/{channel}/blogs/{blog}")
	host.HTTP("Channels", "req", c.serve("blog", c.updateBlog), "PUT /api/channels/{channel}/blogs/{blog}")
	host.HTTP("Channels", "req", c.serve("blog", c.removeBlog), "DELETE /api/channels/{channel}/blogs/{blog}")
	host.Queue("ChannelCleanup", "message", c.cleanUp)
	host.Timer("ChannelSweep", "tick", c.sweep())
}

// A reply is what a channel has to say to a caller.
type reply struct {
	status         int
	location, etag string // "" sends none
	body           any    // nil sends none
}

// serve turns replies into answers. The noun is what the address names.
func (c channelFunctions) serve(noun string, do func(*http.Request) (reply, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.off != nil {
			customhandler.WriteError(w, r, &customhandler.Error{Status: http.StatusNotImplemented, Code: "channels_off",
				Message: "this app was given no tables or queues to keep channels in: name them in AzureWebJobsStorage; its log says what is missing"})
			return
		}
		answer, err := do(r)
		if err != nil {
			refuseChannel(w, r, noun, err)
			return
		}
		header := w.Header()
		header["Cache-Control"] = noStore // what somebody has kept may be deleted by now
		if answer.location != "" {
			header.Set("Location", answer.location)
		}
		if answer.etag != "" {
			header.Set("ETag", answer.etag)
		}
		if answer.body == nil {
			w.WriteHeader(answer.status)
			return
		}
		writeJSON(w, answer.status, answer.body)
	})
}

// refuseChannel is where the errors of channels become answers. The log gets
// what callers are not told, too: the store's own words.
func refuseChannel(w http.ResponseWriter, r *http.Request, noun string, err error) {
	answer := func(status int, code, message string) {
		if status == http.StatusServiceUnavailable {
			after := "5"
			if errors.Is(err, channels.ErrRefused) {
				after = "60" // somebody has to act first
			}
			w.Header().Set("Retry-After", after)
		}
		customhandler.WriteError(w, r, fmt.Errorf("%w: %w", err, &customhandler.Error{Status: status, Code: code, Message: message}))
	}
	input, isInput := errors.AsType[*channels.InputError](err)
	told, isTold := errors.AsType[*customhandler.Error](err)
	switch {
	case isTold:
		customhandler.WriteError(w, r, told)
	case isInput:
		answer(http.StatusBadRequest, "bad_"+input.Field, input.Error())
	case r.Context().Err() == context.Canceled:
		answer(http.StatusRequestTimeout, "gone", "the caller has gone away")
	case errors.Is(err, channels.ErrUnclear):
		answer(http.StatusServiceUnavailable, "change_unclear", unclear(r.Method, noun))
	case errors.Is(err, channels.ErrNotFound):
		answer(http.StatusNotFound, noun+"_not_found", notFound[noun])
	case errors.Is(err, channels.ErrOwned):
		answer(http.StatusConflict, "channel_owned", "a channel of this name belongs to somebody else: choose another name")
	case errors.Is(err, channels.ErrChanged):
		answer(http.StatusPreconditionFailed, noun+"_changed", "the "+noun+" is not as it was any more: read it again, and decide")
	case errors.Is(err, channels.ErrNoCondition):
		answer(http.StatusPreconditionRequired, "no_condition",
			"an update needs If-Match with the ETag of the blog that it was made from, so that nobody's work is lost; * overwrites whatever is there")
	case errors.Is(err, channels.ErrCorrupt):
		answer(http.StatusInternalServerError, "channel_corrupt",
			"what is stored here is nothing that this app has written, so it is left as it is until an operator has looked at it; the log says which row it is")
	case errors.Is(err, channels.ErrRefused):
		answer(http.StatusServiceUnavailable, "storage_unavailable",
			"storage has declined this, and nothing was changed; it will be no different until somebody has put that right: the log has storage's own words")
	default:
		answer(http.StatusServiceUnavailable, "storage_unavailable", "storage does not answer, and nothing was changed; send the request again later")
	}
}

// unclear says what a caller can do whose change may have been made.
func unclear(method, noun string) string {
	switch {
	case method == http.MethodDelete && noun == "channel":
		return "storage has not confirmed this: the deletion may have begun, or not; ask again, with the channel's ETag in If-Match if somebody else may use its name by then"
	case method == http.MethodPost:
		return "storage has not confirmed the blog: it may be there, or not; look at the end of the channel's list before you send it again"
	}
	return "storage has not confirmed this: it may be done, or not; asking again does no harm"
}

// notFound says what is missing, by what the address names.
var notFound = map[string]string{
	"channel":  "there is no such channel, or it was deleted",
	"blog":     "there is no such blog in this channel, or no such channel",
	"deletion": "no channel of this name was deleted, or so long ago that there is no record of it any more",
}
