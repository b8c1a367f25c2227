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
	if err := checkName("sequence", sequence); err != nil {
		return n, err
	}
	if count < 1 {
		return n, invalidf("the count is %d; draw at least 1 number", count)
	}
	r := request{
		method:  http.MethodPost,
		path:    sequencePath(sequence, "/next?count=") + strconv.Itoa(count),
		repeats: ifBusy,
		effect:  "numbers may have been drawn and lost",
	}
	if _, err := c.call(ctx, r, &n); err != nil {
		return Numbers{}, err
	}
	if n.Sequence != sequence || n.First < 0 || n.Count != int64(count) || n.Last-n.First != n.Count-1 {
		return Numbers{}, c.unexpected(r, "it does not contain %d numbers of sequence %q", count, sequence)
	}
	return n, nil
}
