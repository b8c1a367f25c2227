package table

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
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
		answer, err := s.batchQuery(parts[0].request)
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

func (s *Service) batchQuery(r *rest.Request) (*rest.Answer, error) {
	p, err := s.planPart(r)
	if err != nil {
		return nil, err
	}
	if p.verb != noWrite {
		return nil, errInput
	}
	return p.operation.Run(r)
}

// planPart returns what an operation of a batch asks for. It must be about
// entities, and its caller must be allowed to do it.
func (s *Service) planPart(r *rest.Request) (plan, error) {
	p, err := s.plan(r)
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
	var table string
	for i, part := range parts {
		p, err := s.planPart(part.request)
		if err != nil {
			return nil, i, err
		}
		if p.verb == noWrite || i > 0 && !strings.EqualFold(p.address.table, table) {
			return nil, i, errInput
		}
		table = p.address.table
		if formats[i], err = formatOf(part.request); err != nil {
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
	reader := bufio.NewReader(nil)
	outer, err := readMultipart(r.Header("Content-Type"), r.Body)
	if err != nil || len(outer) != 1 {
		return nil, false, errInput // Azure allows one change set or one query
	}
	if isHTTP(outer[0].header) {
		p, err := readPart(r, outer[0], reader)
		if err != nil {
			return nil, false, err
		}
		if p.request.HTTP.Method != "GET" {
			return nil, false, errInput
		}
		return []part{p}, true, nil
	}
	inner, err := readMultipart(outer[0].header.Get("Content-Type"), outer[0].body)
	if err != nil || len(inner) == 0 {
		return nil, false, errInput
	}
	for _, section := range inner {
		if !isHTTP(section.header) {
			return nil, false, errInput
		}
		p, err := readPart(r, section, reader)
		if err != nil {
			return nil, false, err
		}
		parts = append(parts, p)
	}
	return parts, false, nil
}

func isHTTP(h textproto.MIMEHeader) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "application/http"
}

// A section is one piece of a multipart body.
type section struct {
	header textproto.MIMEHeader
	body   []byte
}

// maxSections is a little more than any batch may have, so that one with too
// many can be answered as such.
const maxSections = maxOperations + 1

func readMultipart(contentType string, body []byte) ([]section, error) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.HasPrefix(kind, "multipart/") || parameters["boundary"] == "" {
		return nil, errInput
	}
	last := "--" + parameters["boundary"]
	if body = bytes.TrimRight(body, "\r\n"); bytes.HasSuffix(body, []byte("\n"+last)) {
		body = append(body[:len(body):len(body)], "--"...) // some clients leave out the end, and Azure does not mind
	}
	reader := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	var sections []section
	all := bytes.NewBuffer(make([]byte, 0, len(body)+bytes.MinRead)) // of which each section is a part
	for len(sections) < maxSections {
		p, err := reader.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		start := all.Len()
		if _, err := all.ReadFrom(p); err != nil {
			return nil, err
		}
		sections = append(sections, section{p.Header, all.Bytes()[start:all.Len():all.Len()]})
	}
	return sections, nil
}

// readPart reads the request in a section. Its body goes to the end of the
// section if it has no length.
func readPart(r *rest.Request, s section, reader *bufio.Reader) (part, error) {
	left := bytes.NewReader(bytes.TrimLeft(s.body, "\r\n"))
	reader.Reset(left)
	text := textproto.NewReader(reader)
	line, err := text.ReadLine()
	if err != nil {
		return part{}, errInput
	}
	method, line, _ := strings.Cut(line, " ")
	target, protocol, ok := strings.Cut(line, " ")
	if !ok || method == "" || !strings.HasPrefix(protocol, "HTTP/1.") {
		return part{}, errInput
	}
	address, err := url.ParseRequestURI(target)
	if err != nil {
		return part{}, errInput
	}
	header, err := text.ReadMIMEHeader()
	if err != nil && err != io.EOF {
		return part{}, errInput
	}
	body := s.body[len(s.body)-left.Len()-reader.Buffered():]
	if n, err := strconv.Atoi(header.Get("Content-Length")); err == nil && n >= 0 && n < len(body) {
		body = body[:n]
	}
	id := header.Get("Content-Id")
	if id == "" {
		id = s.header.Get("Content-Id")
	}
	return part{subrequest(r, method, address, http.Header(header), body), id}, nil
}

// subrequest returns a request within a batch. Its address may be that of the
// account or begin below it.
func subrequest(r *rest.Request, method string, address *url.URL, header http.Header, body []byte) *rest.Request {
	prefix := prefixOf(r)
	path, ok := strings.CutPrefix(address.EscapedPath(), prefix)
	if !ok {
		path = strings.TrimPrefix(path, "/")
	}
	within := *address
	within.Path, within.RawPath = prefix+path, prefix+path
	if unescaped, err := url.PathUnescape(prefix + path); err == nil {
		within.Path = unescaped
	}
	query, _ := url.ParseQuery(strings.ReplaceAll(address.RawQuery, ";", "%3B")) // wrong pairs are left out
	query.Set("tn", r.Query.Get("tn"))
	inner := &http.Request{Method: method, URL: &within, Header: header, Host: r.HTTP.Host, TLS: r.HTTP.TLS}
	return &rest.Request{
		HTTP: inner.WithContext(r.Context()), Account: r.Account, Path: path, Query: query,
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
