package devbus

import (
	"slices"

	"kennel/internal/dev/devbus/amqp"
)

// Each entity has a $management node. A request to it is a message with an
// operation. The reply is a message with a status. This file receives requests
// and sends replies; operations.go performs the operations.

// request is a decoded request.
type request struct {
	id         any
	replyTo    string
	properties amqp.Map
	body       any
}

// response is a reply before it is encoded. The zero response reports success.
type response struct {
	status      int32
	description string
	condition   string
	body        any
}

func parseRequest(b []byte) (*request, error) {
	r := &request{}
	err := amqp.Sections(b, func(code uint64, value, _ []byte) error {
		switch code {
		case amqp.SectionProperties:
			f, _, err := amqp.ReadFields(value)
			if err != nil {
				return err
			}
			r.id = f.Value()
			f.Skip(3) // user-id, to, subject
			r.replyTo = f.Text()
			return f.Err()
		case amqp.SectionApplication, amqp.SectionValue:
			v, _, err := amqp.Decode(value)
			if code == amqp.SectionApplication {
				r.properties, _ = v.(amqp.Map)
			} else {
				r.body = v
			}
			return err
		}
		return nil
	})
	return r, err
}

func (r *request) operation() string { return amqp.Text(r.properties.Get("operation")) }

// argument returns a value of the map in the request's body, or nil.
func (r *request) argument(name string) any {
	m, _ := r.body.(amqp.Map)
	return m.Get(name)
}

func (r *response) encode(id any) []byte {
	if r.status == 0 {
		r.status, r.description = 200, "OK"
	}
	p := amqp.OpenList(nil, amqp.SectionProperties)
	p.Nulls(5)  // message-id … reply-to
	p.Value(id) // correlation-id
	a := amqp.OpenMap(p.Close(), amqp.SectionApplication)
	// Both spellings are in use: one by $cbs, the other by $management.
	for _, name := range []string{"status-code", "statusCode"} {
		a.String(name)
		a.Int(r.status)
	}
	for _, name := range []string{"status-description", "statusDescription"} {
		a.String(name)
		a.String(r.description)
	}
	if r.condition != "" {
		for _, name := range []string{"error-condition", "errorCondition"} {
			a.String(name)
			a.Symbol(r.condition)
		}
	}
	return amqp.AppendValue(amqp.AppendDescriptor(a.Close(), amqp.SectionValue), r.body)
}

// listen sends replies to the link's address or name on the link.
func (c *conn) listen(l *outlink) {
	c.listeners = append(c.listeners, l)
	before := l.leave
	l.leave = func() {
		c.listeners = slices.DeleteFunc(c.listeners, func(o *outlink) bool { return o == l })
		if before != nil {
			before()
		}
	}
}

// reply answers a request that arrived on a link.
func (c *conn) reply(l *inlink, r *request, answer response) {
	for _, to := range c.listeners {
		// Compare the address without parsing it: that of the Go SDK seems
		// malformed, and the JavaScript SDK uses the name of the link.
		matches := r.replyTo == to.replyTo || r.replyTo == to.name
		if r.replyTo == "" { // the Python SDK has only one pair of links in a session
			matches = to.address == l.address && to.s == l.s
		}
		if matches {
			to.reply(answer.encode(r.id))
			return
		}
	}
	c.b.log.Warn("no link receives the reply to a request", "node", l.address, "replyTo", r.replyTo)
	l.detach(amqp.Errorf(amqp.CondNotAllowed, "No receiver is attached for the reply-to address '%s'.", r.replyTo))
}

// takeRequest answers a request to an entity's $management.
func (c *conn) takeRequest(l *inlink, path string, d incoming) {
	l.answer(d, accepted)
	r, err := parseRequest(d.payload)
	if err != nil {
		l.detach(amqp.Errorf(amqp.CondDecodeError, "%v", err))
		return
	}
	c.b.stats.Requests++
	c.useLink(amqp.Text(r.properties.Get("associated-link-name")))
	v := c.b.judge(kindOf(r.operation()), path)
	var answer response
	switch {
	case v.refuse != nil:
		answer = failed(v.refuse)
	case v.release:
		answer = failed(amqp.Errorf(condServerBusy, "released by a fault"))
	case !v.skip:
		answer = c.b.operate(path, r)
	}
	l.conclude(v, func() { c.reply(l, r, answer) })
}

// failed returns the response for an error.
func failed(err *amqp.Error) response {
	status := map[string]int32{
		amqp.CondNotFound:       404,
		condMessageNotFound:     404,
		amqp.CondUnauthorized:   401,
		condLockLost:            410,
		condSessionLockLost:     410,
		condTimeout:             408,
		condServerBusy:          503,
		amqp.CondResourceLimit:  403,
		amqp.CondMessageSize:    403,
		amqp.CondNotAllowed:     400,
		condArgument:            400,
		amqp.CondDecodeError:    400,
		amqp.CondNotImplemented: 501,
	}[err.Condition]
	if status == 0 {
		status = 500
	}
	return response{status: status, description: err.Description, condition: err.Condition}
}
