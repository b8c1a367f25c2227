package table

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"kennel/devstore/internal/rest"
)

// fuzzAccount returns an account with a table, for calls that must not panic.
func fuzzAccount(t *testing.T) *account {
	a := newAccount(t)
	a.create("blogs")
	a.must(201, "", a.do("POST", "blogs", allTypes))
	return a
}

func FuzzFilter(f *testing.F) {
	for _, seed := range []string{
		"PartitionKey eq 'p' and RowKey gt 'a'", "not (Int32 le 5L or Yes)", "At ge datetime'2026-01-01T00:00:00Z'", "Id eq guid'4185404a-5818-48c3-b9be-f217df0dba6f'",
		"Bytes eq X'0102ff'", "Part lt -1.5e3d", "Not ne NaN", "startswith(Text,'a')", "((", "'it''s' eq Text", "Ä_1 eq 'x'", "N eq -INF",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := fuzzAccount(t)
		all, _ := a.query()
		answer := a.do("GET", "blogs()?$filter="+url.QueryEscape(text), "")
		if answer.Status != 200 {
			return
		}
		parsed, err := parseFilter(text)
		if err != nil || parsed == nil {
			return
		}
		found, _ := a.query("$filter", text)
		r := a.service.accounts.find("devaccount", "blogs").rows.get("p\x00o'clock")
		d := a.service.accounts.find("devaccount", "blogs").names
		if matches := parsed.match(func(name string) (value, bool) { return r.find(d, name) }); matches != (len(found) == len(all)) {
			t.Errorf("%q matches is %v, but the query finds %q", text, matches, found)
		}
	})
}

func FuzzEntity(f *testing.F) {
	for _, seed := range []string{allTypes, `{}`, `{"A":1,"A":2}`, `{"A@odata.type":"Edm.Int64","A":"1"}`, `[]`, `{"A":{}}`, `{"A":1e400}`, `{"A":"\ud800"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		a := newAccount(t)
		a.create("blogs")
		put := a.do("PUT", "blogs(PartitionKey='p',RowKey='r')", body)
		if put.Status != 204 {
			return
		}
		first := a.must(200, "", a.do("GET", "blogs(PartitionKey='p',RowKey='r')", ""))
		a.must(204, "", a.do("PUT", "blogs(PartitionKey='p',RowKey='s')", string(first.Body)))
		get := func(key string) string {
			answer := a.must(200, "", a.do("GET", "blogs(PartitionKey='p',RowKey='"+key+"')", "", "Accept", "application/json;odata=nometadata"))
			e := decode[map[string]any](t, answer.Body)
			delete(e, "RowKey")
			delete(e, "Timestamp")
			return string(rest.Fail(0, "", "%v", e).Message)
		}
		if r, s := get("r"), get("s"); r != s {
			t.Errorf("%s became %s", r, s)
		}
	})
}

func FuzzBatch(f *testing.F) {
	for _, seed := range append(damagedBatches, batchBody(insertion("a"), operation{"PUT " + link("b"), "If-Match: *\r\n", "{}"}), batchBody(operation{"POST " + link("b"), "X-HTTP-Method: MERGE\r\nContent-Length: 2\r\n", "{}"})) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		a := fuzzAccount(t)
		answer := a.do("POST", "$batch", body, "Content-Type", "multipart/mixed; boundary=outer")
		if answer.Status == 202 {
			readAnswers(t, answer)
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"", "Tables", "Tables('blogs')", "blogs()", "blogs(PartitionKey='p',RowKey='o''clock')", "$batch", "blogs(RowKey='%FF',PartitionKey='')", "(=','"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		a := fuzzAccount(t)
		for _, method := range []string{"GET", "PUT", "POST", "PATCH", "DELETE"} {
			h := httptest.NewRequest(method, "http://127.0.0.1:10002"+accountPath, nil)
			h.URL.Path += path
			h.Header.Set("If-Match", "*")
			a.serve(h, []byte("{}"))
		}
	})
}

func FuzzApply(f *testing.F) {
	log := &recorder{}
	s := New(log, 0)
	f.Add(tableRecord("devaccount", newTable("blogs")))
	f.Add(stampRecord(1))
	f.Add(newRecord(changeRows, "devaccount", "blogs", deleteRow, "p\x00r"))
	d := newDictionary()
	r := newRow(d, "p\x00r", 1, []property{{"A", textValue("x")}, {"B", doubleValue(1)}, {"C", value{kind: kindInt64, bits: -1}}})
	f.Add(change{row: r}.appendTo(newRecord(changeRows, "devaccount", "blogs"), d))
	s.Reset()
	f.Add(log.records[0])
	f.Fuzz(func(t *testing.T, record []byte) {
		a := fuzzAccount(t)
		if a.service.Apply(record) != nil {
			return
		}
		want := a.state()
		snapshot := &recorder{}
		if err := a.service.Snapshot(snapshot.emit); err != nil {
			t.Fatal(err)
		}
		if got := rebuild(t, snapshot.records).state(); got != want {
			t.Errorf("the snapshot became %s, want %s", got, want)
		}
	})
}
