package blob

import (
	"strconv"

	"kennel/devstore/internal/rest"
)

// leaseBlob is an operation on the lease of a blob. It changes neither the ETag
// nor the time of the blob.
func (c *call) leaseBlob() (*rest.Answer, error) {
	when, err := parseConditions(c.r, "")
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, v, err := c.existing()
	if err != nil {
		return nil, err
	}
	if err := when.write(v.etag(), timeOf(v.Stamp)); err != nil {
		return nil, err
	}
	stamp := c.next(c.r)
	after, a, err := c.doLease(b.lease, stamp)
	if err != nil {
		return nil, err
	}
	err = c.commit(&change{Op: opLease, Account: c.r.Account, Container: c.name, Blob: c.blob, Stamp: stamp, Lease: &after})
	a.Header.Set("ETag", v.etag())
	a.Header.Set("Last-Modified", v.modified())
	return a, err
}

// leaseContainer is an operation on the lease of a container.
func (c *call) leaseContainer() (*rest.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, err := c.toChangeContainer()
	if err != nil {
		return nil, err
	}
	stamp := c.next(c.r)
	state := k.state()
	after, a, err := c.doLease(k.Lease, stamp)
	if err != nil {
		return nil, err
	}
	state.Lease = after
	err = c.commit(&change{Op: opContainer, Account: c.r.Account, Container: c.name, Stamp: stamp, State: state})
	a.Header.Set("ETag", k.etag())
	a.Header.Set("Last-Modified", k.modified())
	return a, err
}

// doLease returns the lease after the operation that the request asks for.
func (c *call) doLease(l lease, stamp int64) (after lease, a *rest.Answer, err error) {
	action := c.r.Header("x-ms-lease-action")
	id := c.r.Header("x-ms-lease-id")
	proposed := c.r.Header("x-ms-proposed-lease-id")
	if proposed != "" {
		if proposed, err = parseID("x-ms-proposed-lease-id", proposed); err != nil {
			return l, nil, err
		}
	}
	switch action {
	case "renew", "change", "release":
		if id == "" {
			return l, nil, rest.MissingHeader("x-ms-lease-id")
		}
		if _, err := parseID("x-ms-lease-id", id); err != nil {
			return l, nil, err
		}
	}
	switch action {
	case "acquire":
		return c.acquire(l, proposed, stamp)
	case "renew":
		after, err = l.renew(id, c.now())
		return after, rest.Reply(200, "x-ms-lease-id", after.ID), err
	case "change":
		if proposed == "" {
			return l, nil, rest.MissingHeader("x-ms-proposed-lease-id")
		}
		after, err = l.change(id, proposed, c.now())
		return after, rest.Reply(200, "x-ms-lease-id", after.ID), err
	case "release":
		after, err = l.release(id, c.now())
		return after, rest.Reply(200), err
	case "break":
		period, err := breakSeconds(c.r)
		if err != nil {
			return l, nil, err
		}
		after, left, err := l.end(period, c.now())
		return after, rest.Reply(202, "x-ms-lease-time", strconv.FormatInt(left, 10)), err
	case "":
		return l, nil, rest.MissingHeader("x-ms-lease-action")
	}
	return l, nil, rest.InvalidHeader("x-ms-lease-action", action)
}

func (c *call) acquire(l lease, id string, stamp int64) (lease, *rest.Answer, error) {
	duration, err := leaseSeconds(c.r)
	if err != nil {
		return l, nil, err
	}
	if id == "" {
		id = c.newID(stamp)
	}
	after, err := l.acquire(id, duration, c.now())
	return after, rest.Reply(201, "x-ms-lease-id", after.ID), err
}
