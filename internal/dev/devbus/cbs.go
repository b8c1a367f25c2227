package devbus

import (
	"strings"

	"kennel/internal/dev/devbus/amqp"
)

// $cbs is where clients put tokens: claims to entities, per connection. Any
// token will do, but without one for an entity nothing is attached to it.

const addressCBS = "$cbs"

// takeClaim answers a put-token request.
func (c *conn) takeClaim(l *inlink, d incoming) {
	l.answer(d, accepted)
	r, err := parseRequest(d.payload)
	if err != nil {
		l.detach(amqp.Errorf(amqp.CondDecodeError, "%v", err))
		return
	}
	path := audience(amqp.Text(r.properties.Get("name")))
	if f := c.b.pick(CBS, strings.TrimSuffix(path, suffixManagement)); f != nil {
		c.reply(r, response{status: int32(f.status()), description: "injected by a fault"})
		return
	}
	switch {
	case r.operation() != "put-token":
		c.reply(r, response{status: 501, description: "$cbs knows put-token only"})
	case path == "":
		c.reply(r, response{status: 400, description: "the property 'name' is to be the audience"})
	default:
		c.claimed[path] = true
		c.reply(r, response{status: 202, description: "Accepted"})
	}
}

// audience is the path of a URL such as sb://host/orders.
func audience(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		_, url, _ = strings.Cut(rest, "/")
	}
	return key(url)
}

// claims reports whether a token was put for the entity, or for what it is a
// part of: a queue's token is good for its dead letters.
func (c *conn) claims(address string) bool {
	for path := key(address); ; {
		if c.claimed[path] {
			return true
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}
