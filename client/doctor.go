package client

import (
	"context"
	"net/http"
)

// Diagnosis lists the rights of the app's identity.
type Diagnosis struct {
	Checks []Check `json:"checks"`

	received
}

// Check is the result of one check.
type Check struct {
	Name         string `json:"name"`
	OK           bool   `json:"ok"`
	Detail       string `json:"detail"`
	Fix          string `json:"fix"` // the command that mends it; "" if it is ok
	Milliseconds int64  `json:"milliseconds"`
}

// Doctor has the app check the rights of its identity, within 10 s. A check
// that failed is not an error. The request is not repeated after a failure,
// because the failure is part of the diagnosis.
func (c *Client) Doctor(ctx context.Context) (d Diagnosis, err error) {
	_, err = c.call(ctx, request{method: http.MethodGet, path: "/doctor"}, &d)
	return d, err
}
