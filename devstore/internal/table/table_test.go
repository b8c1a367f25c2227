package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/devstore/internal/rest"
)

// An account sends requests to a service with an account of its own.
type account struct {
	*testing.T
	service *Service
	grant   *rest.Grant
	now     time.Time
}

const accountPath = "/devaccount/"

func newAccount(t *testing.T) *account {
	return &account{T: t, service: New(rest.Memory{}, 0), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// serve does what the store does for each request.
func (a *account) serve(h *http.Request, body []byte) *rest.Answer {
	r := &rest.Request{
		HTTP: h, Account: "devaccount", Path: strings.TrimPrefix(h.URL.EscapedPath(), accountPath), Query: h.URL.Query(),
		Body: body, Now: a.now, ID: "11111111-2222-3333-4444-555555555555", Grant: a.grant,
	}
	operation, err := a.service.Route(r)
	var answer *rest.Answer
	switch {
	case err != nil:
	case operation.Run == nil:
		return rest.Fail(501, "NotImplemented", "%s", operation.Name).JSON(r)
	case int64(len(body)) > operation.MaxBody:
		return rest.Fail(413, "RequestBodyTooLarge", "%s", operation.Name).JSON(r)
	default:
		answer, err = operation.Run(r)
	}
	if err != nil {
		return err.(*rest.Error).JSON(r)
	}
	return answer
}

// do sends a request. Headers are given in pairs.
func (a *account) do(method, path, body string, headers ...string) *rest.Answer {
	a.Helper()
	h := httptest.NewRequest(method, "http://127.0.0.1:10002"+accountPath+path, nil)
	for pair := range slices.Chunk(headers, 2) {
		h.Header.Set(pair[0], pair[1])
	}
	return a.serve(h, []byte(body))
}

// must sends a request and checks the status and, for errors, the code.
func (a *account) must(status int, code string, answer *rest.Answer) *rest.Answer {
	a.Helper()
	if answer.Status != status || answer.Header.Get("x-ms-error-code") != code {
		a.Fatalf("answered %d %s, want %d %s: %s", answer.Status, answer.Header.Get("x-ms-error-code"), status, code, answer.Body)
	}
	return answer
}

func (a *account) create(table string) {
	a.Helper()
	a.must(201, "", a.do("POST", "Tables", `{"TableName":"`+table+`"}`))
}

// put inserts or replaces an entity with properties in JSON, such as `"A":1`.
func (a *account) put(partition, row, properties string) *rest.Answer {
	a.Helper()
	return a.must(204, "", a.do("PUT", entityLink("blogs", joinKey(partition, row)), "{"+properties+"}"))
}

// get returns the members of an entity without metadata.
func (a *account) get(partition, row string) map[string]any {
	a.Helper()
	answer := a.must(200, "", a.do("GET", entityLink("blogs", joinKey(partition, row))+"?$format=application/json%3Bodata=nometadata", ""))
	return decode[map[string]any](a.T, answer.Body)
}

func decode[T any](t *testing.T, body []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

// query returns the keys of all entities that a query returns, and how many
// pages they need.
func (a *account) query(parameters ...string) (keys []string, pages int) {
	a.Helper()
	values := make(map[string][]string)
	for pair := range slices.Chunk(parameters, 2) {
		values[pair[0]] = []string{pair[1]}
	}
	for {
		pages++
		h := httptest.NewRequest("GET", "http://127.0.0.1:10002"+accountPath+"blogs()", nil)
		q := h.URL.Query()
		for name, v := range values {
			q[name] = v
		}
		h.URL.RawQuery = q.Encode()
		answer := a.must(200, "", a.serve(h, nil))
		list := decode[struct {
			Value []struct{ PartitionKey, RowKey string }
		}](a.T, answer.Body)
		for _, e := range list.Value {
			keys = append(keys, e.PartitionKey+"/"+e.RowKey)
		}
		next := answer.Header.Get("x-ms-continuation-NextPartitionKey")
		if next == "" {
			return keys, pages
		}
		values["NextPartitionKey"] = []string{next}
		values["NextRowKey"] = []string{answer.Header.Get("x-ms-continuation-NextRowKey")}
	}
}

// transport lets a client of the SDK call the service.
type transport struct{ account *account }

func (t transport) Do(h *http.Request) (*http.Response, error) {
	var body bytes.Buffer
	if h.Body != nil {
		if _, err := body.ReadFrom(h.Body); err != nil {
			return nil, err
		}
	}
	h.Host = h.URL.Host
	answer := t.account.serve(h, body.Bytes())
	w := httptest.NewRecorder()
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Status)
	w.Write(answer.Body)
	response := w.Result()
	response.Request = h
	return response, nil
}

func TestTables(t *testing.T) {
	a := newAccount(t)
	answer := a.must(201, "", a.do("POST", "Tables", `{"TableName":"Blogs"}`, "Prefer", "return-content"))
	if answer.Header.Get("Location") != "http://127.0.0.1:10002/devaccount/Tables('Blogs')" || answer.Header.Get("Preference-Applied") != "return-content" ||
		string(answer.Body) != `{"odata.metadata":"http://127.0.0.1:10002/devaccount/$metadata#Tables/@Element","TableName":"Blogs"}` {
		t.Errorf("%v: %s", answer.Header, answer.Body)
	}
	answer = a.must(204, "", a.do("POST", "Tables", `{"TableName":"second"}`, "Prefer", "return-no-content"))
	if answer.Body != nil || answer.Header.Get("Preference-Applied") != "return-no-content" || answer.Header.Get("DataServiceId") == "" {
		t.Errorf("%v: %s", answer.Header, answer.Body)
	}
	a.must(409, "TableAlreadyExists", a.do("POST", "Tables", `{"TableName":"BLOGS"}`))
	for _, c := range []struct{ body, code string }{
		{`{"TableName":"ab"}`, "OutOfRangeInput"},
		{`{"TableName":"` + strings.Repeat("a", 64) + `"}`, "OutOfRangeInput"},
		{`{"TableName":"1abc"}`, "InvalidResourceName"},
		{`{"TableName":"a-b"}`, "InvalidResourceName"},
		{`{"TableName":"tables"}`, "InvalidInput"},
		{`{}`, "PropertiesNeedValue"},
		{`{`, "InvalidInput"},
	} {
		a.must(400, c.code, a.do("POST", "Tables", c.body))
	}
	a.must(200, "", a.do("GET", "Tables('blogs')", ""))
	a.must(404, "ResourceNotFound", a.do("GET", "Tables('other')", ""))
	a.must(404, "TableNotFound", a.do("GET", "other()", ""))
	a.must(404, "TableNotFound", a.do("GET", "other(PartitionKey='a',RowKey='b')", ""))
	a.must(404, "TableNotFound", a.do("POST", "other", `{"PartitionKey":"a","RowKey":"b"}`))
	a.must(405, "MethodNotAllowed", a.do("PUT", "Tables", ""))

	for i := range 5 {
		a.create(fmt.Sprintf("zz%d", i))
	}
	names := func(query string) (names []string, next string) {
		answer := a.must(200, "", a.do("GET", "Tables"+query, ""))
		list := decode[struct{ Value []struct{ TableName string } }](t, answer.Body)
		for _, v := range list.Value {
			names = append(names, v.TableName)
		}
		return names, answer.Header.Get("x-ms-continuation-NextTableName")
	}
	if got, next := names("?$filter=TableName%20ge%20'zz1'%20and%20TableName%20lt%20'zz4'&$top=2"); !slices.Equal(got, []string{"zz1", "zz2"}) || next == "" {
		t.Errorf("found %q, then %q", got, next)
	} else if got, next = names("()?$filter=TableName%20ge%20'zz1'%20and%20TableName%20lt%20'zz4'&$top=2&NextTableName=" + next); !slices.Equal(got, []string{"zz3"}) || next != "" {
		t.Errorf("found %q, then %q", got, next)
	}
	a.must(204, "", a.do("DELETE", "Tables('BLOGS')", ""))
	a.must(404, "ResourceNotFound", a.do("DELETE", "Tables('Blogs')", ""))
	if got, _ := names(""); len(got) != 6 || got[0] != "second" {
		t.Errorf("found %q", got)
	}
	a.create("blogs")
}

// asError returns the error of a batch that the SDK does not read.
func asError[T error](t *testing.T, err error) T {
	t.Helper()
	var e T
	if !errors.As(err, &e) {
		t.Fatalf("%v is no %T", err, e)
	}
	return e
}
