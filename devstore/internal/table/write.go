package table

import (
	"strings"

	"kennel/devstore/internal/rest"
)

// A verb is what a request does with one entity.
type verb int

const (
	noWrite verb = iota
	insert
	replace // or insert, if the request has no condition
	merge   // or insert, if the request has no condition
	remove
)

// A write is a request to change one entity.
type write struct {
	verb   verb
	key    string
	entity *entity // nil for a removal

	// The entity must exist if there is a condition, and have this version if
	// the condition is not for any.
	conditional bool
	any         bool
	version     int64
}

// parseWrite parses and checks all of a request that does not depend on the
// present state.
func parseWrite(r *rest.Request, v verb, a address) (*write, error) {
	w := &write{verb: v}
	if err := w.parseCondition(r); err != nil {
		return nil, err
	}
	if w.verb != remove {
		if err := checkContentType(r); err != nil {
			return nil, err
		}
		var err error
		if w.entity, err = parseEntity(r.Body); err != nil {
			return nil, err
		}
	}
	if w.verb == insert {
		if !w.entity.hasPartition || !w.entity.hasRow {
			return nil, rest.Fail(400, "PropertiesNeedValue", "The values are not specified for all properties in the entity.")
		}
		a.partition, a.row = w.entity.partition, w.entity.row
	}
	w.key = joinKey(a.partition, a.row)
	if w.verb == insert || w.upserts() {
		if err := checkKeys(a.partition, a.row); err != nil {
			return nil, err
		}
	}
	if g := r.Grant; g != nil && w.upserts() && !(strings.Contains(g.Permissions, "a") && strings.Contains(g.Permissions, "u")) {
		return nil, errPermission
	}
	return w, checkGrant(r.Grant, w.key)
}

// upserts reports whether the write inserts an entity that does not exist.
func (w *write) upserts() bool {
	return (w.verb == replace || w.verb == merge) && !w.conditional
}

func (w *write) parseCondition(r *rest.Request) error {
	condition := strings.TrimSpace(r.Header("If-Match"))
	switch {
	case w.verb == insert:
		return nil
	case r.Header("If-None-Match") != "":
		return rest.Fail(400, "InvalidInput", "If-None-Match HTTP header cannot be specified for %s operations.", strings.ToUpper(r.HTTP.Method))
	case condition == "" && w.verb == remove:
		return rest.MissingHeader("If-Match")
	case condition == "":
		return nil
	}
	w.conditional = true
	if w.any = condition == "*"; w.any {
		return nil
	}
	var ok bool
	if w.version, ok = parseETag(condition); !ok {
		return rest.Fail(400, "InvalidInput", "The etag value '%s' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid.", condition)
	}
	return nil
}

// decide returns the change that a write makes at a time, or why it is refused.
func (w *write) decide(t *table, stamp int64) (change, error) {
	old := t.rows.get(w.key)
	switch {
	case w.verb == insert && old != "":
		return change{}, rest.Fail(409, "EntityAlreadyExists", "The specified entity already exists.")
	case w.conditional && old == "":
		return change{}, errNotFound
	case w.conditional && !w.any && w.version != old.stamp():
		return change{}, rest.Fail(412, "UpdateConditionNotSatisfied", "The update condition specified in the request was not satisfied.")
	case w.verb == remove:
		return change{key: w.key}, nil
	}
	properties := w.entity.properties
	if w.verb == merge && old != "" {
		properties = old.merge(t.names, properties)
	}
	partition, key := splitKey(w.key)
	if err := checkSize(partition, key, properties); err != nil {
		return change{}, err
	}
	return change{key: w.key, row: newRow(t.names, w.key, stamp, properties)}, nil
}

// answer returns the answer to a write that made a change.
func (w *write) answer(r *rest.Request, f format, t *table, c change) *rest.Answer {
	switch w.verb {
	case insert:
		var body []byte
		if content, _ := preference(r); content {
			body = f.appendEntity(f.appendMetadata(nil, t.name+"/@Element"), t, c.row, nil)
		}
		return f.created(r, entityLink(t.name, c.key), body, "ETag", etag(c.row.stamp()))
	case remove:
		return noContent()
	default:
		return noContent("ETag", etag(c.row.stamp()), "DataServiceVersion", "1.0;")
	}
}

// write makes the change of one request.
func (s *Service) write(r *rest.Request, v verb, a address) (*rest.Answer, error) {
	f, err := formatOf(r)
	if err != nil {
		return nil, err
	}
	w, err := parseWrite(r, v, a)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.accounts.find(r.Account, a.table)
	if t == nil {
		return nil, errTableNotFound
	}
	c, err := w.decide(t, s.stamp(r))
	if err != nil {
		return nil, err
	}
	t.change(c)
	s.log.Append(c.appendTo(newRecord(changeRows, r.Account, t.name), t.names))
	return w.answer(r, f, t, c), nil
}
