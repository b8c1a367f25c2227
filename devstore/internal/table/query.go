package table

import "kennel/devstore/internal/rest"

// grantSpan returns the rows for which a shared access signature is.
func grantSpan(g *rest.Grant) span {
	var s span
	if g == nil {
		return s
	}
	if g.FromPartition != "" {
		s.from = joinKey(g.FromPartition, g.FromRow)
	}
	if g.ToPartition != "" {
		s.before = g.ToPartition + afterRows
		if g.ToRow != "" {
			s.before = joinKey(g.ToPartition, g.ToRow) + afterRow
		}
	}
	return s
}

// checkGrant checks that a shared access signature is for a row.
func checkGrant(g *rest.Grant, key string) error {
	if !grantSpan(g).contains(key) {
		return errUnauthorized
	}
	return nil
}

func (s *Service) getEntity(r *rest.Request, a address) (*rest.Answer, error) {
	f, err := formatOf(r)
	if err != nil {
		return nil, err
	}
	names, err := selected(r.Query.Get("$select"))
	if err != nil {
		return nil, err
	}
	key := joinKey(a.partition, a.row)
	if err := checkGrant(r.Grant, key); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.accounts.find(r.Account, a.table)
	if t == nil {
		return nil, errTableNotFound
	}
	found := t.rows.get(key)
	if found == "" {
		return nil, errNotFound
	}
	b := f.appendEntity(f.appendMetadata(nil, t.name+"/@Element"), t, found, names)
	return f.answer(200, b, "ETag", etag(found.stamp())), nil
}

// A scan is a query of entities.
type scan struct {
	page
	names  []string
	span   span
	end    int // the number of rows after which it ends
	hasEnd bool
}

func (s *Service) scanOf(r *rest.Request) (scan, error) {
	p, err := pageOf(r)
	if err != nil {
		return scan{}, err
	}
	q := scan{page: p, span: grantSpan(r.Grant)}
	if q.names, err = selected(r.Query.Get("$select")); err != nil {
		return scan{}, err
	}
	if q.filter != nil {
		q.span = q.span.intersect(spanOf(q.filter))
	}
	partition, err := readToken(r.Query.Get("NextPartitionKey"))
	if err != nil {
		return scan{}, err
	}
	key, err := readToken(r.Query.Get("NextRowKey"))
	if err != nil {
		return scan{}, err
	}
	if r.Query.Get("NextPartitionKey") != "" {
		q.span.from = max(q.span.from, joinKey(partition, key))
	}
	q.end, q.hasEnd = s.early.end()
	return q, nil
}

// fullPage ends a page, whose rows could be a thousand of 1 MiB.
const fullPage = 32 << 20

// run appends the entities of a page and returns the key at which the next one
// begins, "" after the last page. That key may be of a row that the query does
// not match, so the next page may be empty, as in Azure.
func (q scan) run(b []byte, t *table) (body []byte, next string) {
	found, scanned := 0, 0
	var r row
	lookup := func(name string) (value, bool) { return r.find(t.names, name) }
	for r = range t.rows.from(q.span.from) {
		key := r.key()
		if !q.span.contains(key) {
			break
		}
		if found == q.top || len(b) >= fullPage || q.hasEnd && scanned == q.end {
			return b, key
		}
		scanned++
		if q.filter != nil && !q.filter.match(lookup) {
			continue
		}
		if found > 0 {
			b = append(b, ',')
		}
		found++
		b = q.format.appendEntity(append(b, '{'), t, r, q.names)
	}
	return b, ""
}

func (s *Service) queryEntities(r *rest.Request, a address) (*rest.Answer, error) {
	q, err := s.scanOf(r)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.accounts.find(r.Account, a.table)
	if t == nil {
		return nil, errTableNotFound
	}
	b := append(appendName(q.format.appendMetadata(nil, t.name), "value"), '[')
	b, next := q.run(b, t)
	answer := q.format.answer(200, append(b, "]}"...))
	if next != "" {
		partition, key := splitKey(next)
		answer.Header.Set("x-ms-continuation-NextPartitionKey", writeToken(partition))
		answer.Header.Set("x-ms-continuation-NextRowKey", writeToken(key))
	}
	return answer, nil
}
