package blob

import (
	"strconv"

	"kennel/devstore/internal/rest"
)

func (c *call) appendBlock() (*rest.Answer, error) {
	sums, err := checkBody(c.r)
	if err != nil {
		return nil, err
	}
	if len(c.r.Body) == 0 {
		return nil, rest.InvalidHeader("Content-Length", "0")
	}
	return c.append(body(c.r), sums)
}

// append adds a block to the blob.
func (c *call) append(data []byte, headers []string) (*rest.Answer, error) {
	position, err := parseSize(c.r, "x-ms-blob-condition-appendpos")
	if err != nil {
		return nil, err
	}
	limit, err := parseSize(c.r, "x-ms-blob-condition-maxsize")
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, v, err := c.toChange()
	if err != nil {
		return nil, err
	}
	offset := v.length
	switch {
	case v.Type != appendBlob:
		return nil, errType
	case v.Sealed:
		return nil, rest.Fail(409, "BlobIsSealed", "The specified blob is sealed and its contents can't be modified unless the blob is re-created.")
	case position >= 0 && position != offset:
		return nil, errPosition
	case limit >= 0 && offset+int64(len(data)) > limit:
		return nil, rest.Fail(412, "MaxBlobSizeConditionNotMet", "The max blob size condition specified was not met.")
	case offset+int64(len(data)) > maxContent:
		return nil, errContent
	case len(v.blocks) >= maxBlocks:
		return nil, errTooManyBlocks
	}
	change := c.change(opAppend, b, c.next(c.r))
	change.data = data
	if err := c.commit(change); err != nil {
		return nil, err
	}
	headers = append(headers, "x-ms-blob-append-offset", strconv.FormatInt(offset, 10),
		"x-ms-blob-committed-block-count", strconv.Itoa(len(v.blocks)))
	return stamped(201, &v.props, append(headers, encrypted...)...), nil
}

var errPosition = rest.Fail(412, "AppendPositionConditionNotMet", "The append position condition specified was not met.")

// parseSize reads a number of bytes, -1 if the header is missing.
func parseSize(r *rest.Request, name string) (int64, error) {
	text := r.Header(name)
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, rest.InvalidHeader(name, text)
	}
	return n, nil
}

// seal ends an append blob: it can only be read and deleted afterwards.
func (c *call) seal() (*rest.Answer, error) {
	position, err := parseSize(c.r, "x-ms-blob-condition-appendpos")
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, v, err := c.toChange()
	switch {
	case err != nil:
		return nil, err
	case v.Type != appendBlob:
		return nil, errType
	case position >= 0 && position != v.length:
		return nil, errPosition
	}
	sealed := []string{"x-ms-blob-sealed", "true"}
	if v.Sealed {
		return stamped(200, &v.props, sealed...), nil
	}
	change := c.change(opProps, b, c.next(c.r))
	change.Props = v.clone()
	change.Props.Sealed, change.Props.Stamp = true, change.Stamp
	if err := c.commit(change); err != nil {
		return nil, err
	}
	return stamped(200, change.Props, sealed...), nil
}
