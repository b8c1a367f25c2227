package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
)

// How many items one page has at most.
const (
	defaultTop = 100
	maxTop     = 1000
)

// list yields the items of all pages of a list. An error ends it.
func list[T any, P interface {
	*T
	keeper
}](ctx context.Context, c *Client, path string, query url.Values, top int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		fail := func(err error) {
			var none T
			yield(none, err)
		}
		for continuation := ""; ; {
			address := path + "?top=" + strconv.Itoa(top)
			if continuation != "" {
				address += "&continuation=" + url.QueryEscape(continuation)
			}
			if len(query) > 0 {
				address += "&" + query.Encode()
			}
			var page listPage
			r := request{method: http.MethodGet, path: address, repeats: always, limit: maxPage}
			if _, err := c.call(ctx, r, &page); err != nil {
				fail(err)
				return
			}
			if page.LeftOut > 0 {
				c.opt.LeftOut(path, page.LeftOut)
			}
			if page.Partial {
				c.opt.Partial(path)
			}
			for _, text := range page.Items {
				var item T
				if err := decodeJSON(text, P(&item)); err != nil {
					fail(c.unexpected(r, "%w", err))
					return
				}
				if !yield(item, nil) {
					return
				}
			}
			if continuation = page.Continuation; continuation == "" {
				return
			}
		}
	}
}

type listPage struct {
	Items        []json.RawMessage `json:"items"`
	Continuation string            `json:"continuation"`
	LeftOut      int               `json:"leftOut"`
	Partial      bool              `json:"partial"`

	received
}
