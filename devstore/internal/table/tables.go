package table

import (
	"encoding/json"
	"strings"

	"kennel/devstore/internal/rest"
)

func (s *Service) createTable(r *rest.Request, _ address) (*rest.Answer, error) {
	f, err := formatOf(r)
	if err != nil {
		return nil, err
	}
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	var body struct{ TableName *string }
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, errInput
	}
	if body.TableName == nil {
		return nil, rest.Fail(400, "PropertiesNeedValue", "The values are not specified for all properties in the entity.")
	}
	name := *body.TableName
	if err := checkTableName(name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accounts.find(r.Account, name) != nil {
		return nil, rest.Fail(409, "TableAlreadyExists", "The table specified already exists.")
	}
	t := newTable(name)
	s.accounts.add(r.Account, t)
	s.log.Append(tableRecord(r.Account, t))
	return f.created(r, "Tables('"+name+"')", f.appendTable(f.appendMetadata(nil, "Tables/@Element"), name)), nil
}

func (s *Service) deleteTable(r *rest.Request, a address) (*rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accounts.find(r.Account, a.table) == nil {
		return nil, errNotFound
	}
	s.accounts.remove(r.Account, a.table)
	s.log.Append(newRecord(deleteTable, r.Account, a.table))
	return noContent(), nil
}

func (s *Service) getTable(r *rest.Request, a address) (*rest.Answer, error) {
	f, err := formatOf(r)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.accounts.find(r.Account, a.table)
	if t == nil {
		return nil, errNotFound
	}
	return f.answer(200, f.appendTable(f.appendMetadata(nil, "Tables/@Element"), t.name)), nil
}

func (s *Service) queryTables(r *rest.Request, _ address) (*rest.Answer, error) {
	p, err := pageOf(r)
	if err != nil {
		return nil, err
	}
	next, err := readToken(r.Query.Get("NextTableName"))
	if err != nil {
		return nil, err
	}
	end, hasEnd := s.early.end()
	s.mu.RLock()
	defer s.mu.RUnlock()
	b := append(appendName(p.format.appendMetadata(nil, "Tables"), "value"), '[')
	found, scanned, continued := 0, 0, ""
	for _, t := range s.accounts.sorted(r.Account) {
		if strings.ToLower(t.name) < next {
			continue
		}
		if hasEnd && scanned == end {
			continued = writeToken(strings.ToLower(t.name))
			break
		}
		scanned++
		if p.filter != nil && !p.filter.match(func(name string) (value, bool) { return textValue(t.name), name == "TableName" }) {
			continue
		}
		if found == p.top {
			continued = writeToken(strings.ToLower(t.name))
			break
		}
		if found > 0 {
			b = append(b, ',')
		}
		found++
		b = p.format.appendTable(append(b, '{'), t.name)
	}
	return p.format.answer(200, append(b, "]}"...), "x-ms-continuation-NextTableName", continued), nil
}
