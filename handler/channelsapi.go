package main

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"kennel/channels"
	"kennel/internal/customhandler"
	"kennel/table"
)

// defaultTop is how many items a list has that was not told.
const defaultTop = 100

// channelAnswer is a channel as callers see it. Its ETag tells it from another
// channel that has its name later on.
type channelAnswer struct {
	channels.Channel
	ETag string `json:"etag"`
}

func answerChannel(c channels.Channel) channelAnswer {
	return channelAnswer{c, `"` + c.Incarnation + `"`}
}

// createChannel serves PUT /api/channels/{channel} with a body {"owner":"…"}:
// 201, or 200 where it was there with the same owner. With If-None-Match: * it
// is 412 wherever there is a channel already, whoever owns it.
func (c channelFunctions) createChannel(r *http.Request) (reply, error) {
	absent, err := absenceOf(r)
	if err != nil {
		return reply{}, err
	}
	if len(r.Header.Values("If-Match")) > 0 {
		return reply{}, badRequest("bad_if_match", "a channel that is there is not changed by PUT, so that If-Match has no use here: leave it out")
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
			Message: "a channel of this name is there already, and the request has said If-None-Match: *"}
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

// deleteChannel serves DELETE /api/channels/{channel}: 202 with the record of
// the deletion, which is done once the record says so. If-Match keeps callers
// from deleting a channel that they have not seen.
func (c channelFunctions) deleteChannel(r *http.Request) (reply, error) {
	condition, err := conditionOf(r)
	if err != nil {
		return reply{}, err
	}
	incarnation := "" // whichever it is
	if condition != table.AnyVersion {
		incarnation = strings.Trim(strings.TrimPrefix(condition, "W/"), `"`)
	}
	began := time.Now()
	deletion, err := c.channels.Delete(r.Context(), r.PathValue("channel"), incarnation)
	if wrong, ok := errors.AsType[*channels.InputError](err); ok && wrong.Field == "incarnation" {
		return reply{}, channels.ErrChanged // an ETag, but of no channel that there ever was
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
	answer := channels.List[channelAnswer]{Items: make([]channelAnswer, len(list.Items)), Continuation: list.Continuation}
	for i, channel := range list.Items {
		answer.Items[i] = answerChannel(channel)
	}
	return reply{status: http.StatusOK, body: answer}, nil
}

// readDeletion serves GET /api/channels/{channel}/deletion: of the latest
// channel of that name, or with ?incarnation=… of that one.
func (c channelFunctions) readDeletion(r *http.Request) (reply, error) {
	deletion, err := c.channels.Deletion(r.Context(), r.PathValue("channel"), customhandler.Query(r, "incarnation"))
	return reply{status: http.StatusOK, body: deletion}, err
}

func channelAddress(name string) string { return "/api/channels/" + url.PathEscape(name) }

// pageOf reads which part of a list is asked for.
func pageOf(r *http.Request) (top int, continuation string, err error) {
	top = defaultTop
	if hasQuery(r, "top") {
		if top, err = strconv.Atoi(customhandler.Query(r, "top")); err != nil {
			return 0, "", badRequest("bad_top", "top must be a whole number from 1 to "+strconv.Itoa(table.MaxPage))
		}
	}
	return top, customhandler.Query(r, "continuation"), nil
}

// conditionOf reads If-Match: "" if there is none, one ETag, or *. Several at
// once are refused, because storage compares with one.
func conditionOf(r *http.Request) (string, error) {
	values := r.Header.Values("If-Match")
	condition := strings.TrimSpace(strings.Join(values, ", "))
	quoted := strings.TrimPrefix(condition, "W/")
	if len(values) == 0 || condition == table.AnyVersion ||
		len(quoted) > 2 && quoted[0] == '"' && strings.IndexByte(quoted[1:], '"') == len(quoted)-2 {
		return condition, nil
	}
	return "", badRequest("bad_if_match", "If-Match must be one ETag as an answer shows it, with its quotes, or *")
}

// absenceOf reads If-None-Match: whether the caller wants to write only where
// nothing is.
func absenceOf(r *http.Request) (bool, error) {
	values := r.Header.Values("If-None-Match")
	if len(values) > 0 && (len(values) > 1 || strings.TrimSpace(values[0]) != table.AnyVersion) {
		return false, badRequest("bad_if_none_match", "If-None-Match must be * here: create it only if there is none")
	}
	return len(values) > 0, nil
}
