package main

import (
	"net/http"

	"kennel/channels"
	"kennel/internal/customhandler"
)

// postBlog serves POST /api/channels/{channel}/blogs with a body
// {"title":"…","text":"…","userId":"…"}: 201. With If-Match a caller adds it only
// to the channel that it read. With Idempotency-Key a repeated request adds no
// second blog.
func (c channelFunctions) postBlog(r *http.Request) (reply, error) {
	incarnation, err := incarnationOf(r)
	if err != nil {
		return reply{}, err
	}
	key, err := idempotencyKeyOf(r)
	if err != nil {
		return reply{}, err
	}
	var draft channels.Draft
	if err := customhandler.ReadJSON(r, maxBody, &draft); err != nil {
		return reply{}, err
	}
	name := r.PathValue("channel")
	blog, err := c.channels.PostWith(r.Context(), name, draft, channels.PostOptions{Incarnation: incarnation, Key: key})
	if err != nil {
		return reply{}, err
	}
	return reply{http.StatusCreated, channelAddress(name) + "/blogs/" + blog.ID, blog.ETag, blog}, nil
}

// listBlogs serves
// GET /api/channels/{channel}/blogs?order=oldest|newest&after=…&top=N&continuation=…,
// in the order of their creation or the reverse.
func (c channelFunctions) listBlogs(r *http.Request) (reply, error) {
	top, continuation, err := pageOf(r)
	if err != nil {
		return reply{}, err
	}
	newest, err := newestOf(r)
	if err != nil {
		return reply{}, err
	}
	var list channels.List[channels.Blog]
	name, after := r.PathValue("channel"), customhandler.Query(r, "after")
	switch {
	case after == "" && hasQuery(r, "after"):
		err = badRequest("bad_after", "after has no value; use an ID from the list of blogs.")
	case newest:
		list, err = c.channels.NewestBlogs(r.Context(), name, after, top, continuation)
	case after != "":
		list, err = c.channels.BlogsAfter(r.Context(), name, after, top, continuation)
	default:
		list, err = c.channels.Blogs(r.Context(), name, top, continuation)
	}
	logLeftOut(r.Context(), c.log, list.LeftOut, list.Problem)
	return reply{status: http.StatusOK, body: list}, err
}

// readBlog serves GET /api/channels/{channel}/blogs/{blog}.
func (c channelFunctions) readBlog(r *http.Request) (reply, error) {
	blog, err := c.channels.Blog(r.Context(), r.PathValue("channel"), r.PathValue("blog"))
	return reply{status: http.StatusOK, etag: blog.ETag, body: blog}, err
}

// updateBlog serves PUT /api/channels/{channel}/blogs/{blog} with the whole
// blog as for POST, and with If-Match.
func (c channelFunctions) updateBlog(r *http.Request) (reply, error) {
	condition, err := conditionOf(r)
	if err != nil {
		return reply{}, err
	}
	if condition == "" {
		return reply{}, channels.ErrNoCondition // reported before a mistake in the body
	}
	var draft channels.Draft
	if err := customhandler.ReadJSON(r, maxBody, &draft); err != nil {
		return reply{}, err
	}
	blog, err := c.channels.Update(r.Context(), r.PathValue("channel"), r.PathValue("blog"), condition, draft)
	return reply{status: http.StatusOK, etag: blog.ETag, body: blog}, err
}

// removeBlog serves DELETE /api/channels/{channel}/blogs/{blog}: 204, also if
// the blog does not exist. With If-Match it removes only the version that the
// caller read.
func (c channelFunctions) removeBlog(r *http.Request) (reply, error) {
	condition, err := conditionOf(r)
	if err != nil {
		return reply{}, err
	}
	err = c.channels.Remove(r.Context(), r.PathValue("channel"), r.PathValue("blog"), condition)
	return reply{status: http.StatusNoContent}, err
}
