package table

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"kennel/devstore/internal/rest"
)

// An operation is one request of a batch.
type operation struct{ line, headers, body string }

const base = "http://127.0.0.1:10002/devaccount/"

func batchBody(operations ...operation) string {
	var b strings.Builder
	b.WriteString("--outer\r\nContent-Type: multipart/mixed; boundary=inner\r\n\r\n")
	for _, o := range operations {
		fmt.Fprintf(&b, "--inner\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n%s HTTP/1.1\r\n%s\r\n%s\r\n", o.line, o.headers, o.body)
	}
	b.WriteString("--inner--\r\n--outer--\r\n")
	return b.String()
}

// batch sends a batch and returns the answers to its operations.
func (a *account) batch(operations ...operation) []*http.Response {
	a.Helper()
	answer := a.must(202, "", a.do("POST", "$batch", batchBody(operations...), "Content-Type", "multipart/mixed; boundary=outer"))
	return readAnswers(a.T, answer)
}

func readAnswers(t *testing.T, answer *rest.Answer) (answers []*http.Response) {
	t.Helper()
	sections, err := split(answer.Header.Get("Content-Type"), answer.Body)
	if err != nil || len(sections) != 1 {
		t.Fatalf("%d parts, %v: %s", len(sections), err, answer.Body)
	}
	if sections[0].header.Get("Content-Type") != "application/http" {
		if sections, err = split(sections[0].header.Get("Content-Type"), sections[0].body); err != nil {
			t.Fatalf("%v: %s", err, answer.Body)
		}
	}
	for _, s := range sections {
		if s.header.Get("Content-Type") != "application/http" || s.header.Get("Content-Transfer-Encoding") != "binary" {
			t.Errorf("%v", s.header)
		}
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(s.body)), nil)
		if err != nil {
			t.Fatalf("%v: %s", err, s.body)
		}
		answers = append(answers, r)
	}
	return answers
}

// A standardSection is one that the standard library read.
type standardSection struct {
	header textproto.MIMEHeader
	body   []byte
}

func split(contentType string, body []byte) (sections []standardSection, err error) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	reader := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		p, err := reader.NextRawPart()
		if err == io.EOF {
			return sections, nil
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		sections = append(sections, standardSection{p.Header, data})
	}
}

// refused checks that a batch has one answer, which is an error.
func (a *account) refused(status int, code, message, id string, operations ...operation) {
	a.Helper()
	answers := a.batch(operations...)
	if len(answers) != 1 {
		a.Fatalf("%d answers", len(answers))
	}
	body, _ := io.ReadAll(answers[0].Body)
	e := decode[map[string]struct {
		Code    string
		Message struct{ Value string }
	}](a.T, body)["odata.error"]
	if answers[0].StatusCode != status || e.Code != code || !strings.HasPrefix(e.Message.Value, message+"\nRequestId:") || answers[0].Header.Get("Content-ID") != id {
		a.Errorf("answered %d %v %s, want %d %s %s", answers[0].StatusCode, answers[0].Header, body, status, code, message)
	}
}

func link(key string) string { return base + entityLink("blogs", joinKey("p", key)) }

func insertion(key string) operation {
	return operation{"POST " + base + "blogs", "Prefer: return-no-content\r\nContent-Type: application/json\r\n", `{"PartitionKey":"p","RowKey":"` + key + `","A":1}`}
}

func TestTransaction(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	for _, key := range []string{"merged", "replaced", "deleted", "tunneled"} {
		a.put("p", key, `"A":1,"B":1`)
	}
	one := insertion("one")
	one.headers += "Content-ID: 7\r\n"
	two := operation{"POST " + base + "blogs", "", `{"PartitionKey":"p","RowKey":"two"}`}
	answers := a.batch(one, two,
		operation{"MERGE " + link("merged"), "If-Match: *\r\n", `{"B":2}`},
		operation{"PATCH " + link("new"), "Content-Length: 7\r\n", `{"B":2} and what does not belong to it`},
		operation{"PUT /devaccount/blogs(PartitionKey='p',RowKey='replaced')", "If-Match: *\r\n", `{"C":1}`},
		operation{"POST " + link("tunneled"), "X-HTTP-Method: MERGE\r\n", `{"B":2}`},
		operation{"DELETE " + link("deleted"), "If-Match: *\r\n", ""})
	var statuses []string
	for _, answer := range answers {
		statuses = append(statuses, answer.Status)
	}
	if got := strings.Join(statuses, ", "); got != "204 No Content, 201 Created, 204 No Content, 204 No Content, 204 No Content, 204 No Content, 204 No Content" {
		t.Fatalf("answered %s", got)
	}
	h := answers[0].Header
	if h.Get("Content-ID") != "7" || h.Get("Preference-Applied") != "return-no-content" || h.Get("DataServiceId") != link("one") || h.Get("Location") != link("one") || h.Get("ETag") == "" {
		t.Errorf("%v", h)
	}
	if body, _ := io.ReadAll(answers[1].Body); !strings.Contains(string(body), `"RowKey":"two"`) {
		t.Errorf("%s", body)
	}
	if got := answers[2].Header.Get("ETag"); got != a.do("GET", entityLink("blogs", "p\x00merged"), "").Header.Get("ETag") {
		t.Errorf("the version is not %s", got)
	}
	for key, want := range map[string]string{"merged": "1 2 <nil>", "new": "<nil> 2 <nil>", "replaced": "<nil> <nil> 1", "tunneled": "1 2 <nil>", "one": "1 <nil> <nil>"} {
		if e := a.get("p", key); fmt.Sprint(e["A"], " ", e["B"], " ", e["C"]) != want {
			t.Errorf("%s is %v", key, e)
		}
	}
	a.must(404, "ResourceNotFound", a.do("GET", entityLink("blogs", joinKey("p", "deleted")), ""))
}

func TestRefusedTransactions(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	a.create("others")
	old := a.put("p", "old", `"A":1`).Header.Get("ETag")
	a.put("p", "old", `"A":2`)
	same := func(line string) operation { return operation{line + " " + link("old"), "", `{}`} }
	numbered := insertion("old")
	numbered.headers += "Content-ID: 3\r\n"
	a.refused(409, "EntityAlreadyExists", "1:The specified entity already exists.", "3", insertion("a"), numbered)
	a.refused(404, "ResourceNotFound", "2:The specified resource does not exist.", "", insertion("a"), insertion("b"), operation{"DELETE " + link("none"), "If-Match: *\r\n", ""})
	a.refused(412, "UpdateConditionNotSatisfied", "1:The update condition specified in the request was not satisfied.", "", insertion("a"), operation{"PUT " + link("old"), "If-Match: " + old + "\r\n", "{}"})
	a.refused(400, "InvalidDuplicateRow", "1:The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.", "", same("MERGE"), same("PUT"))
	a.refused(400, "CommandsInBatchActOnDifferentPartitions", "1:All commands in a batch must operate on same entity group.", "", insertion("a"), operation{"PUT " + base + "blogs(PartitionKey='q',RowKey='a')", "", "{}"})
	a.refused(400, "InvalidInput", "1:One of the request inputs is not valid.", "", insertion("a"), operation{"PUT " + base + "others(PartitionKey='p',RowKey='a')", "", "{}"})
	a.refused(400, "InvalidInput", "0:One of the request inputs is not valid.", "", operation{"GET " + link("old"), "", ""})
	a.refused(400, "InvalidInput", "0:One of the request inputs is not valid.", "", operation{"DELETE " + base + "Tables('others')", "", ""})
	a.refused(400, "InvalidInput", "0:One of the request inputs is not valid.", "", operation{"POST " + base + "$batch", "", ""})
	a.refused(400, "PropertyNameInvalid", "1:The property name is invalid.", "", insertion("a"), operation{"PUT " + link("b"), "", `{"-":1}`})
	a.refused(404, "TableNotFound", "0:The table specified does not exist.", "", operation{"PUT " + base + "missing(PartitionKey='p',RowKey='a')", "", "{}"})
	var many []operation
	for i := range 101 {
		many = append(many, insertion(fmt.Sprint("many", i)))
	}
	a.refused(400, "InvalidInput", "99:The batch request operation exceeds the maximum 100 changes per change set.", "", many...)
	if keys, _ := a.query(); fmt.Sprint(keys) != "[p/old]" {
		t.Errorf("refused transactions left %q", keys)
	}
	if answers := a.batch(many[:100]...); len(answers) != 100 {
		t.Errorf("%d answers", len(answers))
	}

	a.grant = &rest.Grant{Service: true, Permissions: "a", FromPartition: "p", ToPartition: "p"}
	send := func(query string, operations ...operation) string {
		answer := a.must(202, "", a.do("POST", "$batch?tn="+query, batchBody(operations...), "Content-Type", "multipart/mixed; boundary=outer"))
		return readAnswers(t, answer)[0].Status
	}
	if got := send("others", insertion("a")); got != "403 Forbidden" {
		t.Errorf("a signature for another table: %s", got)
	}
	if got := send("blogs", operation{"PUT " + link("old"), "If-Match: *\r\n", "{}"}); got != "403 Forbidden" {
		t.Errorf("a signature for additions: %s", got)
	}
	if got := send("Blogs", insertion("a")); got != "204 No Content" {
		t.Errorf("a signature for the table: %s", got)
	}
}

func TestBatchQuery(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	a.put("p", "a", `"A":1`)
	query := func(line string) string {
		return "--outer\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n" + line + " HTTP/1.1\nAccept: application/json;odata=nometadata\n\n--outer--\n"
	}
	send := func(line string) *http.Response {
		answer := a.must(202, "", a.do("POST", "$batch", query(line), "Content-Type", "multipart/mixed; boundary=outer"))
		return readAnswers(t, answer)[0]
	}
	r := send("GET " + link("a") + "?$select=A")
	if body, _ := io.ReadAll(r.Body); r.StatusCode != 200 || string(body) != `{"A":1}` {
		t.Errorf("%s: %s", r.Status, body)
	}
	if r := send("GET " + link("b")); r.StatusCode != 404 {
		t.Errorf("%s", r.Status)
	}
	a.must(400, "InvalidInput", a.do("POST", "$batch", query("DELETE "+link("a")), "Content-Type", "multipart/mixed; boundary=outer"))
}

// A batch as the SDK for JavaScript sends it: more empty lines, small letters, and
// no end.
func TestForeignBatch(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	body := "--batch\r\ncontent-type: multipart/mixed; boundary=changeset\r\n\r\n\r\n" +
		"--changeset\r\ncontent-type: application/http\r\ncontent-transfer-encoding: binary\r\n\r\nPOST " + base + "blogs HTTP/1.1\r\n" +
		"content-type: application/json;odata=nometadata\r\nprefer: return-no-content\r\n\r\n\r\n{\"PartitionKey\":\"p\",\"RowKey\":\"a\"}\r\n" +
		"--changeset\r\ncontent-type: application/http\r\ncontent-transfer-encoding: binary\r\n\r\nDELETE " + link("b") + " HTTP/1.1\r\n" +
		"accept: application/json\r\nif-match: *\r\n\r\n\r\n--changeset--\r\n--batch\r\n"
	send := func(want string) {
		t.Helper()
		answer := a.must(202, "", a.do("POST", "$batch", body, "Content-Type", "multipart/mixed; boundary=batch"))
		if got := readAnswers(t, answer)[0].Status; got != want {
			t.Errorf("answered %s, want %s", got, want)
		}
	}
	send("404 Not Found")
	a.put("p", "b", "")
	send("204 No Content")
	if keys, _ := a.query(); fmt.Sprint(keys) != "[p/a]" {
		t.Errorf("%q", keys)
	}
}

var damagedBatches = []string{
	"", "--outer--\r\n", "--outer\r\n\r\n--outer--\r\n",
	"--outer\r\nContent-Type: multipart/mixed; boundary=inner\r\n\r\n--inner--\r\n--outer--\r\n",
	strings.Replace(batchBody(insertion("a")), "application/http", "text/plain", 1),
	strings.Replace(batchBody(insertion("a")), " HTTP/1.1", "", 1),
	strings.Replace(batchBody(insertion("a")), base, "%zz", 1),
	strings.Replace(batchBody(insertion("a")), "Prefer: ", "Prefer", 1),
	strings.Replace(batchBody(insertion("a")), "--inner--", "", 1),
	batchBody(insertion("a")) + "--outer\r\n\r\n--outer--\r\n",
	strings.Replace(batchBody(insertion("a")), "--outer--\r\n", "--outer\r\n\r\n\r\n--outer--\r\n", 1),
}

func TestDamagedBatches(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	for i, body := range damagedBatches {
		if answer := a.do("POST", "$batch", body, "Content-Type", "multipart/mixed; boundary=outer"); i != 9 { // what follows the last boundary is ignored
			a.must(400, "InvalidInput", answer)
		}
	}
	a.must(400, "InvalidInput", a.do("POST", "$batch", batchBody(insertion("a")), "Content-Type", "application/json"))
	a.must(405, "MethodNotAllowed", a.do("GET", "$batch", ""))
}
