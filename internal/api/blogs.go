package api

import (
	"net/http"

	"kennel/channels"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
)

// postBlog serves POST /api/channels/{channel}/blogs with a body
// {"title":"…","text":"…","userId":"…"}: 201. With If-Match a caller adds it only
// to the channel that it read. With Idempotency-Key a repeated request adds no
// second blog.
func (c ChannelResource) postBlog(r *http.Request) (edge.Reply, error) {
	incarnation, err := incarnationOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	key, err := idempotencyKeyOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	var draft channels.Draft
	if err := customhandler.ReadJSON(r, edge.MaxBody, &draft); err != nil {
		return edge.Reply{}, err
	}
	name := r.PathValue("channel")
	blog, err := c.Channels.PostWith(r.Context(), name, draft, channels.PostOptions{Incarnation: incarnation, Key: key})
	if err != nil {
		return edge.Reply{}, err
	}
	return edge.Reply{Status: http.StatusCreated, Location: channelAddress(name) + "/blogs/" + blog.ID, Etag: blog.ETag, Body: blog}, nil
}

// listBlogs serves
// GET /api/channels/{channel}/blogs?order=oldest|newest&after=…&top=N&continuation=…,
// in the order of their creation or the reverse.
func (c ChannelResource) listBlogs(r *http.Request) (edge.Reply, error) {
	top, continuation, err := edge.PageOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	newest, err := newestOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	var list channels.List[channels.Blog]
	name, after := r.PathValue("channel"), customhandler.Query(r, "after")
	switch {
	case after == "" && edge.HasQuery(r, "after"):
		err = edge.BadRequest("bad_after", "after has no value; use an ID from the list of blogs.")
	case newest:
		list, err = c.Channels.NewestBlogs(r.Context(), name, after, top, continuation)
	case after != "":
		list, err = c.Channels.BlogsAfter(r.Context(), name, after, top, continuation)
	default:
		list, err = c.Channels.Blogs(r.Context(), name, top, continuation)
	}
	logLeftOut(r.Context(), c.Log, list.LeftOut, list.Problem)
	return edge.Reply{Status: http.StatusOK, Body: list}, err
}

// readBlog serves GET /api/channels/{channel}/blogs/{blog}.
func (c ChannelResource) readBlog(r *http.Request) (edge.Reply, error) {
	blog, err := c.Channels.Blog(r.Context(), r.PathValue("channel"), r.PathValue("blog"))
	return edge.Reply{Status: http.StatusOK, Etag: blog.ETag, Body: blog}, err
}

// updateBlog serves PUT /api/channels/{channel}/blogs/{blog} with the whole
// blog as for POST, and with If-Match.
func (c ChannelResource) updateBlog(r *http.Request) (edge.Reply, error) {
	condition, err := conditionOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	if condition == "" {
		return edge.Reply{}, channels.ErrNoCondition // reported before a mistake in the body
	}
	var draft channels.Draft
	if err := customhandler.ReadJSON(r, edge.MaxBody, &draft); err != nil {
		return edge.Reply{}, err
	}
	blog, err := c.Channels.Update(r.Context(), r.PathValue("channel"), r.PathValue("blog"), condition, draft)
	return edge.Reply{Status: http.StatusOK, Etag: blog.ETag, Body: blog}, err
}

// removeBlog serves DELETE /api/channels/{channel}/blogs/{blog}: 204, also if
// the blog does not exist. With If-Match it removes only the version that the
// caller read.
func (c ChannelResource) removeBlog(r *http.Request) (edge.Reply, error) {
	condition, err := conditionOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	err = c.Channels.Remove(r.Context(), r.PathValue("channel"), r.PathValue("blog"), condition)
	return edge.Reply{Status: http.StatusNoContent}, err
}
