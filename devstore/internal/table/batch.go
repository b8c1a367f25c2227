package table

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kennel/devstore/internal/rest"
)

// maxOperations is how many operations a transaction may have.
const maxOperations = 100

// A part is one operation of a batch.
type part struct {
	request *rest.Request
	id      string // Content-ID
}

// batch answers a transaction, or a single query.
func (s *Service) batch(r *rest.Request, _ address) (*rest.Answer, error) {
	parts, query, err := readBatch(r)
	if err != nil {
		return nil, err
	}
	response := newResponse(r.ID, !query, len(parts))
	if query {
		answer, err := s.batchQuery(r, parts[0].request)
		if err != nil {
			answer = refusal(failure(err), parts[0].request)
		}
		response.add(answer, parts[0].id)
		return response.answer(), nil
	}
	answers, failed, err := s.transact(r, parts)
	if err != nil {
		e := *failure(err)
		e.Message = strconv.Itoa(failed) + ":" + e.Message
		response.add(refusal(&e, r), parts[failed].id)
		return response.answer(), nil
	}
	for i, answer := range answers {
		response.add(answer, parts[i].id)
	}
	return response.answer(), nil
}

// refusal returns the answer to an operation that fails.
func refusal(e *rest.Error, r *rest.Request) *rest.Answer {
	answer := e.JSON(r)
	answer.Header.Set("X-Content-Type-Options", "nosniff")
	answer.Header.Set("DataServiceVersion", "3.0;")
	return answer
}

// failure returns the error of an operation. All of them are of this type.
func failure(err error) *rest.Error { return err.(*rest.Error) }

func (s *Service) batchQuery(r, inner *rest.Request) (*rest.Answer, error) {
	p, err := s.planPart(r, inner)
	if err != nil {
		return nil, err
	}
	if p.verb != noWrite {
		return nil, errInput
	}
	return p.operation.Run(inner)
}

// planPart returns what an operation of the batch r asks for. It must be about
// entities, and its caller must be allowed to do it.
func (s *Service) planPart(r, inner *rest.Request) (plan, error) {
	p, err := s.plan(inner)
	if err != nil {
		return plan{}, err
	}
	if p.address.batch || p.address.tables || p.operation.Level != 'o' {
		return plan{}, errInput
	}
	if g := r.Grant; g != nil {
		if !strings.ContainsAny(g.Permissions, p.operation.Permission) {
			return plan{}, errPermission
		}
		if name := r.Query.Get("tn"); g.Service && !strings.EqualFold(name, p.address.table) {
			return plan{}, errUnauthorized
		}
	}
	return p, nil
}

// transact makes all changes or none. With an error it returns which operation
// failed.
func (s *Service) transact(r *rest.Request, parts []part) (answers []*rest.Answer, failed int, err error) {
	if len(parts) > maxOperations {
		return nil, maxOperations - 1, rest.Fail(400, "InvalidInput", "The batch request operation exceeds the maximum 100 changes per change set.")
	}
	writes := make([]*write, len(parts))
	formats := make([]format, len(parts))
	base, table := baseOf(r), ""
	for i, part := range parts {
		p, err := s.planPart(r, part.request)
		if err != nil {
			return nil, i, err
		}
		if p.verb == noWrite || i > 0 && !strings.EqualFold(p.address.table, table) {
			return nil, i, errInput
		}
		table = p.address.table
		if formats[i], err = formatAt(base, part.request); err != nil {
			return nil, i, err
		}
		if writes[i], err = parseWrite(part.request, p.verb, p.address); err != nil {
			return nil, i, err
		}
	}
	if i, err := checkDistinct(writes); err != nil {
		return nil, i, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.accounts.find(r.Account, table)
	if t == nil {
		return nil, 0, errTableNotFound
	}
	changes := make([]change, len(writes))
	record := slices.Grow(newRecord(changeRows, r.Account, t.name), len(r.Body)/2) // what is around a row in the body is as long
	for i, w := range writes {
		if changes[i], err = w.decide(t, s.stamp(r)); err != nil {
			return nil, i, err
		}
		record = changes[i].appendTo(record, t.names)
	}
	s.log.Append(record)
	answers = make([]*rest.Answer, len(writes))
	for i, c := range changes {
		t.change(c)
		answers[i] = writes[i].answer(parts[i].request, formats[i], t, c)
	}
	return answers, 0, nil
}

// checkDistinct checks that a transaction is about different rows of one
// partition. With an error it returns the first operation that is not.
func checkDistinct(writes []*write) (int, error) {
	partition, _ := splitKey(writes[0].key)
	seen := make(map[string]bool, len(writes))
	for i, w := range writes {
		if other, _ := splitKey(w.key); other != partition {
			return i, rest.Fail(400, "CommandsInBatchActOnDifferentPartitions", "All commands in a batch must operate on same entity group.")
		}
		if seen[w.key] {
			return i, rest.Fail(400, "InvalidDuplicateRow", "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.")
		}
		seen[w.key] = true
	}
	return 0, nil
}

// readBatch reads the operations of a batch, and reports whether it is one query
// outside of a change set. There is at least one operation.
func readBatch(r *rest.Request) (parts []part, query bool, err error) {
	outer, err := readMultipart(r.Header("Content-Type"), r.Body)
	if err != nil || len(outer) != 1 {
		return nil, false, errInput // Azure allows one change set or one query
	}
	if isHTTP(outer[0]) {
		p, err := readPart(r, outer[0])
		if err != nil {
			return nil, false, err
		}
		if p.request.HTTP.Method != "GET" {
			return nil, false, errInput
		}
		return []part{p}, true, nil
	}
	inner, err := readMultipart(string(outer[0].kind), outer[0].body)
	if err != nil || len(inner) == 0 {
		return nil, false, errInput
	}
	parts = make([]part, 0, len(inner))
	for _, section := range inner {
		if !isHTTP(section) {
			return nil, false, errInput
		}
		p, err := readPart(r, section)
		if err != nil {
			return nil, false, err
		}
		parts = append(parts, p)
	}
	return parts, false, nil
}

func isHTTP(s section) bool {
	if string(s.kind) == "application/http" {
		return true
	}
	kind, _, err := mime.ParseMediaType(string(s.kind))
	return err == nil && kind == "application/http"
}

func readMultipart(contentType string, body []byte) ([]section, error) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.HasPrefix(kind, "multipart/") || parameters["boundary"] == "" {
		return nil, errInput
	}
	last := "--" + parameters["boundary"]
	if body = bytes.TrimRight(body, "\r\n"); bytes.HasSuffix(body, []byte("\n"+last)) {
		body = append(body[:len(body):len(body)], "--"...) // some clients leave out the end, and Azure does not mind
	}
	return sectionsOf(body, parameters["boundary"])
}

// readPart reads the request in a section. Its body goes to the end of the
// section if it has no length.
func readPart(r *rest.Request, s section) (part, error) {
	line, body := cutLine(bytes.TrimLeft(s.body, "\r\n"))
	method, text, _ := strings.Cut(string(line), " ")
	target, protocol, ok := strings.Cut(text, " ")
	if !ok || method == "" || !strings.HasPrefix(protocol, "HTTP/1.") {
		return part{}, errInput
	}
	address, err := url.ParseRequestURI(target)
	if err != nil {
		return part{}, errInput
	}
	header, body, err := readHeader(body)
	if err != nil {
		return part{}, err
	}
	if length := header.Get("Content-Length"); length != "" {
		if n, err := strconv.Atoi(length); err == nil && n >= 0 && n < len(body) {
			body = body[:n]
		}
	}
	id := header.Get("Content-Id")
	if id == "" {
		id = string(s.id)
	}
	return part{subrequest(r, method, address, header, body), id}, nil
}

// subrequest returns a request within a batch. Its address may be that of the
// account or begin below it.
func subrequest(r *rest.Request, method string, address *url.URL, header http.Header, body []byte) *rest.Request {
	prefix := prefixOf(r)
	path, ok := strings.CutPrefix(address.EscapedPath(), prefix)
	if !ok {
		path = strings.TrimPrefix(path, "/")
		address.Path, address.RawPath = prefix+path, prefix+path
		if unescaped, err := url.PathUnescape(prefix + path); err == nil {
			address.Path = unescaped
		}
	}
	query, _ := url.ParseQuery(strings.ReplaceAll(address.RawQuery, ";", "%3B")) // wrong pairs are left out
	inner := r.HTTP.WithContext(r.Context())
	inner.Method, inner.URL, inner.Header, inner.Body = method, address, header, nil
	return &rest.Request{
		HTTP: inner, Account: r.Account, Path: path, Query: query,
		Body: body, Now: r.Now, ID: r.ID, Grant: r.Grant,
	}
}

// A response is the answer to a batch while it is written.
type response struct {
	outer, inner string // boundaries; there is no inner one without a change set
	body         bytes.Buffer
}

// newResponse returns one with room for the answers to some operations.
func newResponse(id string, changeSet bool, operations int) *response {
	s := &response{outer: "batchresponse_" + id}
	s.body.Grow(512 * (operations + 1))
	s.write("--", s.outer, "\r\n")
	if changeSet {
		s.inner = "changesetresponse_" + id
		s.write("Content-Type: multipart/mixed; boundary=", s.inner, "\r\n\r\n")
	}
	return s
}

func (s *response) write(texts ...string) {
	for _, text := range texts {
		s.body.WriteString(text)
	}
}

// add adds the answer to one operation.
func (s *response) add(a *rest.Answer, id string) {
	if s.inner != "" {
		s.write("--", s.inner, "\r\n")
	}
	s.write("Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n")
	s.write("HTTP/1.1 ", strconv.Itoa(a.Status), " ", http.StatusText(a.Status), "\r\n")
	if id != "" {
		s.write("Content-ID: ", id, "\r\n")
	}
	_ = a.Header.Write(&s.body) // writes to memory do not fail
	s.write("\r\n")
	s.body.Write(a.Body)
	s.write("\r\n")
}

// answer returns the whole answer. Its status is not that of an operation.
func (s *response) answer() *rest.Answer {
	if s.inner != "" {
		s.write("--", s.inner, "--\r\n")
	}
	s.write("--", s.outer, "--\r\n")
	return rest.Reply(202, "Cache-Control", "no-cache", "X-Content-Type-Options", "nosniff").
		With("multipart/mixed; boundary="+s.outer, s.body.Bytes())
}
