package devbus

import (
	"cmp"
	"time"

	"kennel/internal/dev/devbus/amqp"
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

// kindOf returns the kind of an operation, which selects the faults that apply.
func kindOf(operation string) Op {
	switch operation {
	case opSchedule:
		return OnSend
	case opSettle:
		return OnSettle
	}
	return OnRequest
}

// operate performs a request to an entity's $management.
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

// none is the body of a response without results.
var none any = new(struct{ _ byte })

func (q *queue) operate(r *request) (any, *amqp.Error) {
	switch r.operation() {
	case opRenewLock:
		return q.renewAll(tokens(r))
	case opSettle:
		return q.settleAll(r)
	case opPeek:
		q.touch()
		return peek(r, q.all), nil
	case opReceiveDeferred:
		return q.receiveDeferred(r)
	case opRenewSession, opGetState, opSetState:
		return q.operateGroup(r)
	case opListSessions:
		return q.listSessions(r)
	}
	return operateSchedule(r, &q.entity, q)
}

func (t *topic) operate(r *request) (any, *amqp.Error) {
	if r.operation() == opPeek {
		t.touch()
		return peek(r, t.scheduled), nil
	}
	return operateSchedule(r, &t.entity, t)
}

// scheduler is an entity that accepts scheduled messages: a queue or a topic.
type scheduler interface {
	destination
	cancelScheduled(sequence int64) bool
}

func operateSchedule(r *request, e *entity, s scheduler) (any, *amqp.Error) {
	switch r.operation() {
	case opSchedule:
		return schedule(r, e, s)
	case opCancelScheduled:
		for _, n := range amqp.Ints(r.argument("sequence-numbers")) {
			if !s.cancelScheduled(n) {
				return nil, amqp.Errorf(condMessageNotFound, "There is no scheduled message %d.", n)
			}
		}
		return nil, nil
	}
	return nil, amqp.Errorf(amqp.CondNotImplemented, "devbus does not support the operation %q", r.operation())
}

// schedule stores messages. Each carries its scheduled time.
func schedule(r *request, e *entity, s scheduler) (any, *amqp.Error) {
	if !e.settings.sends() {
		return nil, e.disabled()
	}
	list, _ := r.argument("messages").([]any)
	var batch []*content
	for _, item := range list {
		m, _ := item.(amqp.Map)
		encoded, _ := m.Get("message").([]byte)
		one, err := e.read(0, encoded)
		if err != nil {
			return nil, err
		}
		batch = append(batch, one...)
	}
	numbers, err := s.accept(batch)
	if err != nil {
		return nil, err
	}
	return amqp.Map{"sequence-numbers", numbers}, nil
}

// tokens returns the lock tokens of a request.
func tokens(r *request) []amqp.UUID {
	a, _ := r.argument("lock-tokens").(amqp.Array)
	var out []amqp.UUID
	for _, item := range a.Items {
		if u, ok := item.(amqp.UUID); ok {
			out = append(out, u)
		}
	}
	return out
}

func (q *queue) renewAll(tokens []amqp.UUID) (any, *amqp.Error) {
	var ends []time.Time
	for _, token := range tokens {
		until, err := q.renew(token)
		if err != nil {
			return nil, err
		}
		ends = append(ends, until)
	}
	return amqp.Map{"expirations", ends}, nil
}

func (q *queue) settleAll(r *request) (any, *amqp.Error) {
	changes, _ := r.argument("properties-to-modify").(amqp.Map)
	var o amqp.Outcome
	switch status := amqp.Text(r.argument("disposition-status")); status {
	case "completed":
		o.Code = amqp.CodeAccepted
	case "abandoned":
		o = amqp.Outcome{Code: amqp.CodeModified, Annotations: changes}
	case "defered": // the spelling of the protocol
		o = amqp.Outcome{Code: amqp.CodeModified, Annotations: changes, UndeliverableHere: true}
	case "suspended":
		if reason := r.argument("deadletter-reason"); reason != nil {
			changes = append(changes, deadLetterReason, reason)
		}
		if d := r.argument("deadletter-description"); d != nil {
			changes = append(changes, deadLetterDescription, d)
		}
		o = amqp.Rejected(&amqp.Error{Info: changes})
	default:
		return nil, amqp.Errorf(condArgument, "unknown disposition-status %q", status)
	}
	defer q.pump()
	for _, token := range tokens(r) {
		if err := q.settle(token, o); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// maxPeek is the number of bytes after which a peek adds no message, whatever
// count the client requests.
const maxPeek = 1 << 20

func peek(r *request, all shelf) any {
	from, _ := amqp.Int(r.argument("from-sequence-number"))
	count, _ := amqp.Int(r.argument("message-count"))
	session, bySession := r.argument("session-id").(string)
	at, _ := all.find(from)
	var found []any
	size := 0
	for _, m := range all[at:] {
		if int64(len(found)) >= count || size > maxPeek {
			break
		}
		if !bySession || m.content.session == session {
			encoded := m.render(nil, false)
			size += len(encoded)
			found = append(found, amqp.Map{"message", encoded})
		}
	}
	if len(found) == 0 {
		return none
	}
	return amqp.Map{"messages", found}
}

func (q *queue) receiveDeferred(r *request) (any, *amqp.Error) {
	mode, _ := amqp.Int(r.argument("receiver-settle-mode"))
	numbers := amqp.Ints(r.argument("sequence-numbers"))
	remove := mode == 0
	taken, err := q.takeDeferred(numbers, q.sessionOf(r), remove)
	if err != nil {
		return nil, err
	}
	list := make([]any, len(taken))
	for i, m := range taken {
		list[i] = amqp.Map{"message", m.render(nil, !remove), "lock-token", m.token}
	}
	return amqp.Map{"messages", list}, nil
}

// sessionOf returns the session that a request names, or the session of the
// link that it names.
func (q *queue) sessionOf(r *request) string {
	if id, ok := r.argument("session-id").(string); ok {
		return id
	}
	name := amqp.Text(r.properties.Get("associated-link-name"))
	for _, l := range q.consumers {
		if l.name == name && l.group != nil {
			return l.group.id
		}
	}
	return ""
}

func (q *queue) operateGroup(r *request) (any, *amqp.Error) {
	g, err := q.held(q.sessionOf(r))
	if err != nil {
		return nil, err
	}
	q.touch()
	switch r.operation() {
	case opRenewSession:
		g.extend()
		return amqp.Map{"expiration", g.lockedUntil}, nil
	case opSetState:
		g.state, g.stateSet = nil, time.Now()
		if state, _ := r.argument("session-state").([]byte); len(state) > 0 {
			g.state = state // an empty state clears it
		}
		return nil, nil
	}
	if g.state == nil {
		return amqp.Map{"session-state", nil}, nil
	}
	return amqp.Map{"session-state", g.state}, nil
}

// endOfTime bounds last-updated-time. Clients send a later time if they want
// all sessions.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

func (q *queue) listSessions(r *request) (any, *amqp.Error) {
	if q.groups == nil {
		return nil, amqp.Errorf(amqp.CondNotAllowed, "The entity '%s' does not have sessions.", q.path)
	}
	since, _ := r.argument("last-updated-time").(time.Time)
	if since.After(endOfTime) {
		since = time.Time{}
	}
	skip, _ := amqp.Int(r.argument("skip"))
	top, _ := amqp.Int(r.argument("top"))
	ids := q.sessionIDs(since)
	ids = ids[clamp(skip, len(ids)):]
	ids = ids[:clamp(cmp.Or(top, 100), len(ids))]
	if len(ids) == 0 {
		return none, nil
	}
	return amqp.Map{"skip", int32(skip) + int32(len(ids)), "sessions-ids", ids}, nil
}

// clamp limits n to the range from 0 to length.
func clamp(n int64, length int) int {
	return int(min(max(n, 0), int64(length)))
}
