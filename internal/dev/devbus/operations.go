package devbus

import (
	"cmp"
	"time"
)

// The operations of $management.
const (
	opRenewLock       = "com.microsoft:renew-lock"
	opSettle          = "com.microsoft:update-disposition"
	opPeek            = "com.microsoft:peek-message"
	opSchedule        = "com.microsoft:schedule-message"
	opCancelScheduled = "com.microsoft:cancel-scheduled-message"
	opReceiveDeferred = "com.microsoft:receive-by-sequence-number"
	opRenewSession    = "com.microsoft:renew-session-lock"
	opGetState        = "com.microsoft:get-session-state"
	opSetState        = "com.microsoft:set-session-state"
	opListSessions    = "com.microsoft:get-message-sessions"
)

// kindOf says which faults an operation is subject to.
func kindOf(operation string) Op {
	switch operation {
	case opSchedule:
		return OnSend
	case opSettle:
		return OnSettle
	}
	return OnRequest
}

// operate does what a request to the entity's $management wants.
func (b *Broker) operate(path string, r *request) response {
	q, t := b.queues[path], b.topics[path]
	var body any
	err := b.unknown(path) // deleted since the link was attached
	switch {
	case q != nil:
		body, err = q.operate(r)
	case t != nil:
		body, err = t.operate(r)
	}
	if err != nil {
		return failed(err)
	}
	if body == none {
		return response{status: 204, description: "No Content"}
	}
	return response{body: body}
}

// none is the body of a response that has found nothing.
var none any = new(struct{ _ byte })

func (q *queue) operate(r *request) (any, *amqpError) {
	switch r.operation() {
	case opRenewLock:
		return q.renewAll(tokens(r))
	case opSettle:
		return q.settleAll(r)
	case opPeek:
		return q.peekFor(r)
	case opReceiveDeferred:
		return q.receiveDeferred(r)
	case opRenewSession, opGetState, opSetState:
		return q.operateGroup(r)
	case opListSessions:
		return q.listSessions(r)
	}
	return operateSchedule(r, &q.entity, q)
}

func (t *topic) operate(r *request) (any, *amqpError) {
	return operateSchedule(r, &t.entity, t)
}

// scheduler is what messages can be scheduled on: a queue or a topic.
type scheduler interface {
	destination
	cancelScheduled(sequence int64) bool
}

func operateSchedule(r *request, e *entity, s scheduler) (any, *amqpError) {
	switch r.operation() {
	case opSchedule:
		return schedule(r, e, s)
	case opCancelScheduled:
		for _, n := range integers(r.argument("sequence-numbers")) {
			if !s.cancelScheduled(n) {
				return nil, refusal(condMessageNotFound, "There is no scheduled message %d.", n)
			}
		}
		return nil, nil
	}
	return nil, refusal(condNotImplemented, "devbus does not know the operation %q", r.operation())
}

// schedule stores messages, which carry the time they are scheduled for.
func schedule(r *request, e *entity, s scheduler) (any, *amqpError) {
	if !e.settings.sends() {
		return nil, e.disabled()
	}
	list, _ := r.argument("messages").([]any)
	var batch []*content
	for _, item := range list {
		m, _ := item.(mapping)
		encoded, _ := m.get("message").([]byte)
		c, err := parseMessage(encoded)
		if err != nil {
			return nil, refusal(condDecodeError, "%v", err)
		}
		batch = append(batch, c)
	}
	numbers, err := s.accept(batch)
	if err != nil {
		return nil, err
	}
	return mapping{{"sequence-numbers", numbers}}, nil
}

// tokens are the lock tokens of a request.
func tokens(r *request) []uuid {
	a, _ := r.argument("lock-tokens").(array)
	var out []uuid
	for _, item := range a.items {
		if u, ok := item.(uuid); ok {
			out = append(out, u)
		}
	}
	return out
}

func (q *queue) renewAll(tokens []uuid) (any, *amqpError) {
	var ends []time.Time
	for _, token := range tokens {
		until, err := q.renew(token)
		if err != nil {
			return nil, err
		}
		ends = append(ends, until)
	}
	return mapping{{"expirations", ends}}, nil
}

func (q *queue) settleAll(r *request) (any, *amqpError) {
	changes, _ := r.argument("properties-to-modify").(mapping)
	o := outcome{properties: properties(changes)}
	switch status := text(r.argument("disposition-status")); status {
	case "completed":
		o.code = codeAccepted
	case "abandoned":
		o.code = codeModified
	case "defered": // the wire's own spelling
		o.code, o.undeliverableHere = codeModified, true
	case "suspended":
		o.code = codeRejected
		if reason := r.argument("deadletter-reason"); reason != nil {
			o.properties = append(o.properties, property{deadLetterReason, reason})
		}
		if d := r.argument("deadletter-description"); d != nil {
			o.properties = append(o.properties, property{deadLetterDescription, d})
		}
	default:
		return nil, refusal(condArgument, "disposition-status %q is not known", status)
	}
	defer q.pump()
	for _, token := range tokens(r) {
		if err := q.settle(token, o); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// maxPeek is where a peek ends, whatever the client asks for.
const maxPeek = 1 << 20

func (q *queue) peekFor(r *request) (any, *amqpError) {
	from, _ := integer(r.argument("from-sequence-number"))
	count, _ := integer(r.argument("message-count"))
	session, bySession := r.argument("session-id").(string)
	q.touch()
	at, _ := q.all.find(from)
	var found []any
	size := 0
	for _, m := range q.all[at:] {
		if int64(len(found)) >= count || size > maxPeek {
			break
		}
		if !bySession || m.content.session == session {
			encoded := m.render(nil, nil)
			size += len(encoded)
			found = append(found, mapping{{"message", encoded}})
		}
	}
	if len(found) == 0 {
		return none, nil
	}
	return mapping{{"messages", found}}, nil
}

func (q *queue) receiveDeferred(r *request) (any, *amqpError) {
	mode, _ := integer(r.argument("receiver-settle-mode"))
	numbers := integers(r.argument("sequence-numbers"))
	taken, err := q.takeDeferred(numbers, q.sessionOf(r), mode == 0)
	if err != nil {
		return nil, err
	}
	list := make([]any, len(taken))
	for i, m := range taken {
		list[i] = mapping{{"message", m.render(nil, &m.token)}, {"lock-token", m.token}}
	}
	return mapping{{"messages", list}}, nil
}

// sessionOf is the session a request is about: the one it names, or that of
// the link it names.
func (q *queue) sessionOf(r *request) string {
	if id, ok := r.argument("session-id").(string); ok {
		return id
	}
	name := text(r.properties.get("associated-link-name"))
	for _, l := range q.consumers {
		if l.name == name && l.group != nil {
			return l.group.id
		}
	}
	return ""
}

func (q *queue) operateGroup(r *request) (any, *amqpError) {
	g, err := q.held(q.sessionOf(r))
	if err != nil {
		return nil, err
	}
	q.touch()
	switch r.operation() {
	case opRenewSession:
		g.extend()
		return mapping{{"expiration", g.lockedUntil}}, nil
	case opSetState:
		g.state, g.stateSet = nil, time.Now()
		if state, _ := r.argument("session-state").([]byte); len(state) > 0 {
			g.state = state // an empty one is as good as none
		}
		return nil, nil
	}
	if g.state == nil {
		return mapping{{"session-state", nil}}, nil
	}
	return mapping{{"session-state", g.state}}, nil
}

// endOfTime is what clients give as last-updated-time if they do not mean one.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

func (q *queue) listSessions(r *request) (any, *amqpError) {
	if q.groups == nil {
		return nil, refusal(condNotAllowed, "The entity '%s' does not have sessions.", q.path)
	}
	since, _ := r.argument("last-updated-time").(time.Time)
	if since.After(endOfTime) {
		since = time.Time{}
	}
	skip, _ := integer(r.argument("skip"))
	top, _ := integer(r.argument("top"))
	ids := q.sessionIDs(since)
	ids = ids[clamp(skip, len(ids)):]
	ids = ids[:clamp(cmp.Or(top, 100), len(ids))]
	if len(ids) == 0 {
		return none, nil
	}
	return mapping{{"skip", int32(skip) + int32(len(ids))}, {"sessions-ids", ids}}, nil
}

// clamp makes n a valid length of a list of that many.
func clamp(n int64, length int) int {
	return int(min(max(n, 0), int64(length)))
}
