package devbus

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// Clients put tokens to $cbs. A token lets its connection attach links to an
// entity until it expires. The broker requires a token and reads when it
// expires. It does not check who signed it or which rights it gives.

const addressCBS = "$cbs"

// claim is the effect of a token: access to a path and to all paths below it.
type claim struct {
	alarm // rings when the token expires

	c    *conn
	path string
}

// takeClaim answers a put-token request.
func (c *conn) takeClaim(l *inlink, d incoming) {
	l.answer(d, accepted)
	r, err := parseRequest(d.payload)
	if err != nil {
		l.detach(amqp.Errorf(amqp.CondDecodeError, "%v", err))
		return
	}
	c.reply(l, r, c.putToken(r))
}

func (c *conn) putToken(r *request) response {
	audience := amqp.Text(r.properties.Get("name"))
	path := key(audience)
	of := strings.TrimSuffix(path, suffixManagement)
	f, expires := c.b.pick(CBS, of), expiryOf(r.body)
	switch {
	case f != nil:
		return response{status: int32(cmp.Or(f.Status, 503)), description: f.error().Description}
	case r.operation() != "put-token":
		return response{status: 501, description: "$cbs supports only put-token"}
	case path == "":
		return response{status: 400, description: "the property 'name' must be the audience"}
	case !expires.IsZero() && !time.Now().Before(expires):
		return response{status: 401, condition: condAuthFailed, description: "ExpiredToken: The token is expired. Expiration time: '" + expires.Format("2006-01-02 15:04:05Z") + "'."}
	case c.b.find(of) == nil:
		return failed(c.b.unknown(audience))
	}
	cl := c.claims[path]
	if cl == nil {
		cl = &claim{c: c, path: path}
		c.claims[path] = cl
	}
	c.b.alarms.cancel(&cl.alarm)
	if !expires.IsZero() {
		c.b.alarms.set(&cl.alarm, c.b.monotonic(expires), cl)
	}
	return response{status: 202, description: "Accepted"}
}

// expiryOf returns when a shared access signature expires. It returns zero for
// other tokens.
func expiryOf(token any) time.Time {
	fields, isSAS := strings.CutPrefix(amqp.Text(token), "SharedAccessSignature ")
	values, _ := url.ParseQuery(fields)
	seconds, err := strconv.ParseInt(values.Get("se"), 10, 64)
	if !isSAS || err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// ring ends the claim, and detaches the links that need it.
func (cl *claim) ring() {
	c := cl.c
	c.b.alarms.cancel(&cl.alarm)
	delete(c.claims, cl.path)
	for _, l := range slices.SortedFunc(c.links(), inOrder) {
		if l.address != addressCBS && !c.claimed(l.address) {
			l.detach(amqp.Errorf(amqp.CondDetachForced, "The link '%s' is force detached. Code: RenewToken. Details: %s", l.name, l.unauthorized()))
		}
	}
}

// unauthorized describes the claim that the link lacks.
func (l *endpoint) unauthorized() string {
	right := "Send"
	if l.out != nil {
		right = "Listen"
	}
	return "Unauthorized access. '" + right + "' claim(s) are required to perform this operation. Resource: '" + l.s.c.b.uri(l.address) + "'."
}

// claimed reports whether the connection has a claim to the path or to a parent
// of it. A queue's token therefore also covers its dead-letter queues.
func (c *conn) claimed(address string) bool {
	for path := key(address); ; {
		if c.claims[path] != nil {
			return true
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}
