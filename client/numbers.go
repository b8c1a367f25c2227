package client

import (
	"context"
	"iter"
	"net/http"
	"strconv"
)

// Numbers is a range of numbers that belongs to one caller alone.
type Numbers struct {
	Sequence string `json:"sequence"`
	First    int64  `json:"first"`
	Last     int64  `json:"last"`
	Count    int64  `json:"count"`

	received
}

// All yields the numbers in ascending order.
func (n Numbers) All() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for i := n.First; i <= n.Last; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

// Next draws count consecutive numbers of a sequence, up to 10,000. No other
// caller gets them. If the answer is lost (ErrUnclear), they may have been
// drawn, which leaves a gap.
func (c *Client) Next(ctx context.Context, sequence string, count int) (n Numbers, err error) {
	p, err := c.draw(ctx, sequence, count, "")
	return p.Numbers, err
}

// piece is numbers with the lease by which they can go back. Without one they
// cannot.
type piece struct {
	Numbers
	Lease string `json:"lease"`
}

// draw draws numbers. option is more of the query.
func (c *Client) draw(ctx context.Context, sequence string, count int, option string) (n piece, err error) {
	if err := checkName("sequence", sequence); err != nil {
		return n, err
	}
	if count < 1 {
		return n, invalidf("the count is %d; draw at least 1 number", count)
	}
	r := request{
		method:  http.MethodPost,
		path:    sequencePath(sequence, "/next?count=") + strconv.Itoa(count) + option,
		repeats: ifBusy,
		effect:  "numbers may have been drawn and lost",
	}
	if _, err := c.call(ctx, r, &n); err != nil {
		return piece{}, err
	}
	if n.Sequence != sequence || n.First < 0 || n.Count != int64(count) || n.Last-n.First != n.Count-1 {
		return piece{}, c.unexpected(r, "it does not contain %d numbers of sequence %q", count, sequence)
	}
	return n, nil
}

// giveBack returns the numbers of a piece, none of which is used from now on. If
// the app does not take them they are lost.
func (c *Client) giveBack(ctx context.Context, p piece) {
	r := request{
		method: http.MethodPost,
		path:   sequencePath(p.Sequence, "/next/return"),
		body: struct {
			Lease string `json:"lease"`
			First int64  `json:"first"`
		}{p.Lease, p.First},
		repeats: always, // the app takes them once
		effect:  "numbers may have been returned",
	}
	c.call(ctx, r, &struct{ received }{})
}
