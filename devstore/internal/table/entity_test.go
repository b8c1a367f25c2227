package table

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"kennel/devstore/internal/rest"
)

const allTypes = `{"PartitionKey":"p","RowKey":"o'clock","Timestamp":"2001-01-01T00:00:00Z","odata.etag":"x","odata.type":"y",` +
	`"Text":"a\"b","Int32":-5,"Large":4294967296,"Whole@odata.type":"Edm.Double","Whole":3,"Part":0.25,"Tiny":1e-9,"Yes":true,` +
	`"Long":"9223372036854775807","Long@odata.type":"Edm.Int64","At@odata.type":"Edm.DateTime","At":"2013-08-02T19:37:43.009004348+02:00",` +
	`"Id@odata.type":"Edm.Guid","Id":"4185404A-5818-48C3-B9BE-F217DF0DBA6F","Bytes@odata.type":"Edm.Binary","Bytes":"AQL/",` +
	`"Not@odata.type":"Edm.Double","Not":"NaN","Inf@odata.type":"Edm.Double","Inf":"-Infinity","Null":null,"Nil@odata.type":"Edm.Int64","Nil":null,"Ä_1":"x"}`

const plainProperties = `"Text":"a\"b","Int32":-5,"Large":4294967296.0,"Whole":3.0,"Part":0.25,"Tiny":1e-09,"Yes":true,`

func TestTypes(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	answer := a.must(201, "", a.do("POST", "blogs", allTypes))
	const version = `W/"datetime'2026-01-02T03%3A04%3A05Z'"`
	const link = "blogs(PartitionKey='p',RowKey='o''clock')"
	if answer.Header.Get("ETag") != version || answer.Header.Get("Location") != "http://127.0.0.1:10002/devaccount/"+link {
		t.Errorf("%v", answer.Header)
	}
	quoted := strings.ReplaceAll(version, `"`, `\"`)
	minimal := `{"odata.metadata":"http://127.0.0.1:10002/devaccount/$metadata#blogs/@Element","odata.etag":"` + quoted + `",` +
		`"PartitionKey":"p","RowKey":"o'clock","Timestamp":"2026-01-02T03:04:05Z",` + plainProperties +
		`"Long@odata.type":"Edm.Int64","Long":"9223372036854775807","At@odata.type":"Edm.DateTime","At":"2013-08-02T17:37:43.0090043Z",` +
		`"Id@odata.type":"Edm.Guid","Id":"4185404a-5818-48c3-b9be-f217df0dba6f","Bytes@odata.type":"Edm.Binary","Bytes":"AQL/",` +
		`"Not@odata.type":"Edm.Double","Not":"NaN","Inf@odata.type":"Edm.Double","Inf":"-Infinity","Ä_1":"x"}`
	if string(answer.Body) != minimal {
		t.Errorf("inserted\n%s, want\n%s", answer.Body, minimal)
	}
	for _, accept := range []string{"", "application/json", "application/json; odata=minimalmetadata", "*/*"} {
		answer := a.must(200, "", a.do("GET", link, "", "Accept", accept))
		if string(answer.Body) != minimal || answer.Header.Get("ETag") != version ||
			answer.Header.Get("Content-Type") != "application/json;odata=minimalmetadata;streaming=true;charset=utf-8" {
			t.Errorf("%v\n%s", answer.Header, answer.Body)
		}
	}
	answer = a.must(200, "", a.do("GET", link, "", "Accept", "application/json;odata=nometadata"))
	none := `{"PartitionKey":"p","RowKey":"o'clock","Timestamp":"2026-01-02T03:04:05Z",` + plainProperties +
		`"Long":"9223372036854775807","At":"2013-08-02T17:37:43.0090043Z","Id":"4185404a-5818-48c3-b9be-f217df0dba6f","Bytes":"AQL/","Not":"NaN","Inf":"-Infinity","Ä_1":"x"}`
	if string(answer.Body) != none {
		t.Errorf("without metadata\n%s, want\n%s", answer.Body, none)
	}
	answer = a.must(200, "", a.do("GET", link+"?$format=application/json%3Bodata=fullmetadata&$select=Timestamp,Int32,Missing", "", "Accept", "application/json;odata=nometadata"))
	full := `{"odata.metadata":"http://127.0.0.1:10002/devaccount/$metadata#blogs/@Element","odata.type":"devaccount.blogs","odata.id":"http://127.0.0.1:10002/devaccount/` + link +
		`","odata.etag":"` + quoted + `","odata.editLink":"` + link + `","Timestamp@odata.type":"Edm.DateTime","Timestamp":"2026-01-02T03:04:05Z","Int32":-5,"Missing":null}`
	if string(answer.Body) != full {
		t.Errorf("full\n%s, want\n%s", answer.Body, full)
	}
	a.must(415, "AtomFormatNotSupported", a.do("GET", link, "", "Accept", "application/atom+xml"))
	a.must(415, "AtomFormatNotSupported", a.do("POST", "blogs", "<entry/>", "Content-Type", "application/atom+xml"))
	answer = a.must(204, "", a.do("POST", "blogs", `{"PartitionKey":"","RowKey":""}`, "Prefer", "return-no-content"))
	if answer.Body != nil || answer.Header.Get("Preference-Applied") != "return-no-content" || answer.Header.Get("ETag") == version {
		t.Errorf("%v: %s", answer.Header, answer.Body)
	}
	a.must(200, "", a.do("GET", "blogs(RowKey='',PartitionKey='')", ""))
}

func TestDoubles(t *testing.T) {
	for f, want := range map[float64]string{0: "0.0", -2: "-2.0", 1e15: "1e+15", 123456789: "123456789.0", 1e-5: "0.00001", 9e-6: "9e-06", math.MaxFloat64: "1.7976931348623157e+308", 200.23: "200.23"} {
		if got := string(appendDouble(nil, f)); got != want {
			t.Errorf("%v is %s, want %s", f, got, want)
		}
	}
}

func TestInvalidEntities(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	properties := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"P%d":1`, i)
		}
		return b.String()
	}
	large := func(n int, last int) string { // texts of 64 KiB and one that is shorter
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"P%02d":"%s"`, i, strings.Repeat("x", 32<<10))
		}
		fmt.Fprintf(&b, `,"Last":"%s"`, strings.Repeat("x", last))
		return b.String()
	}
	// 4 for the entity, 2 for the keys, 15 times 18 + 4 + 64 KiB, and 16 + 4 for the last.
	last := (maxEntity - 4 - 4 - 15*(8+6+4+maxValue) - (8 + 8 + 4)) / 2
	for _, c := range []struct{ name, properties, code string }{
		{"no JSON", `,`, "InvalidInput"},
		{"trailing", `} {`, "InvalidInput"},
		{"object", `,"A":{}`, "InvalidInput"},
		{"list", `,"A":[]`, "InvalidInput"},
		{"unknown type", `,"A":"1","A@odata.type":"Edm.Int16"`, "InvalidInput"},
		{"no long", `,"A":"x","A@odata.type":"Edm.Int64"`, "InvalidInput"},
		{"too large", `,"A":2147483648,"A@odata.type":"Edm.Int32"`, "InvalidInput"},
		{"no time", `,"A":"yesterday","A@odata.type":"Edm.DateTime"`, "InvalidInput"},
		{"no GUID", `,"A":"some-guid-value","A@odata.type":"Edm.Guid"`, "InvalidInput"},
		{"no base64", `,"A":"***","A@odata.type":"Edm.Binary"`, "InvalidInput"},
		{"hexadecimal", `,"A":"0x10p0","A@odata.type":"Edm.Double"`, "InvalidInput"},
		{"no boolean", `,"A":"true","A@odata.type":"Edm.Boolean"`, "InvalidInput"},
		{"before 1601", `,"A":"1600-12-31T23:59:59Z","A@odata.type":"Edm.DateTime"`, "OutOfRangeInput"},
		{"1601", `,"A":"1601-01-01T00:00:00Z","A@odata.type":"Edm.DateTime"`, ""},
		{"twice", `,"A":1,"A":2`, "DuplicatePropertiesSpecified"},
		{"twice, after many", properties(30) + `,"P29":2`, "DuplicatePropertiesSpecified"},
		{"no long, after many", properties(30) + `,"P29@odata.type":"Edm.Boolean"`, "InvalidInput"},
		{"case differs", `,"A":1,"a":2`, ""},
		{"hyphen", `,"A-B":1`, "PropertyNameInvalid"},
		{"digit", `,"1A":1`, "PropertyNameInvalid"},
		{"empty name", `,"":1`, "PropertyNameInvalid"},
		{"255 characters", `,"` + strings.Repeat("ä", 255) + `":1`, ""},
		{"256 characters", `,"` + strings.Repeat("ä", 256) + `":1`, "PropertyNameTooLong"},
		{"252 properties", properties(252), ""},
		{"253 properties", properties(253), "TooManyProperties"},
		{"64 KiB", `,"A":"` + strings.Repeat("ä", 32<<10) + `"`, ""},
		{"64 KiB and more", `,"A":"` + strings.Repeat("ä", 32<<10+1) + `"`, "PropertyValueTooLarge"},
		{"binary", `,"A@odata.type":"Edm.Binary","A":"` + strings.Repeat("AAAA", (64<<10)/3) + `AAA="`, "PropertyValueTooLarge"},
		{"1 MiB", large(15, last), ""},
		{"1 MiB and more", large(15, last+1), "EntityTooLarge"},
		{"key of 512 characters", `"`, "InvalidInput"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &account{T: t, service: a.service, now: a.now}
			body := `{"PartitionKey":"p","RowKey":"r"` + c.properties + "}"
			status := 400
			if c.code == "" {
				status = 201
			}
			a.must(status, c.code, a.do("POST", "blogs", body))
			a.do("DELETE", "blogs(PartitionKey='p',RowKey='r')", "", "If-Match", "*")
			if c.code == "" {
				status = 204
			}
			a.must(status, c.code, a.do("PUT", "blogs(PartitionKey='p',RowKey='r')", body))
			a.do("DELETE", "blogs(PartitionKey='p',RowKey='r')", "", "If-Match", "*")
		})
	}
	a.must(400, "PropertiesNeedValue", a.do("POST", "blogs", `{"PartitionKey":"p"}`))
	a.must(400, "PropertiesNeedValue", a.do("POST", "blogs", `{"PartitionKey":null,"RowKey":"r"}`))
	a.must(400, "PrimaryKeyPropertyIsInvalidType", a.do("POST", "blogs", `{"PartitionKey":1,"RowKey":"r"}`))
}

func TestKeys(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	for _, key := range []string{"/", `\\`, "#", "?", `\u0000`, `\t`, `\n`, `\u001f`, `\u007f`, `\u009f`} {
		a.must(400, "OutOfRangeInput", a.do("POST", "blogs", `{"PartitionKey":"a`+key+`","RowKey":"r"}`))
		a.must(400, "OutOfRangeInput", a.do("POST", "blogs", `{"PartitionKey":"p","RowKey":"`+key+`a"}`))
	}
	a.must(400, "InvalidInput", a.do("PUT", "blogs(PartitionKey='a%2Fb',RowKey='r')", `{}`))
	a.must(400, "OutOfRangeInput", a.do("PUT", "blogs(PartitionKey='a%09b',RowKey='r')", `{}`))
	a.must(400, "OutOfRangeInput", a.do("PUT", "blogs(PartitionKey='a%FFb',RowKey='r')", `{}`))
	for _, path := range []string{"blogs(PartitionKey='a'b',RowKey='r')", "blogs(PartitionKey='a',RowKey='r'", "blogs(PartitionKey='a')", "blogs(PartitionKey='a',RowKey='r',X='y')", "blogs(PartitionKey=a,RowKey='r')", "blogs('a')", "blogs(PartitionKey='a',RowKey='r',)", "Tables('a'b)"} {
		a.must(400, "InvalidInput", a.do("GET", path, ""))
	}
	long := strings.Repeat("é", 512)
	a.must(201, "", a.do("POST", "blogs", `{"PartitionKey":"`+long+`","RowKey":"`+long+`"}`))
	a.must(400, "KeyValueTooLarge", a.do("POST", "blogs", `{"PartitionKey":"`+long+`e","RowKey":"r"}`))
	a.must(400, "KeyValueTooLarge", a.do("POST", "blogs", `{"PartitionKey":"p","RowKey":"`+strings.Repeat("😀", 257)+`"}`))
	a.must(400, "KeyValueTooLarge", a.do("PATCH", entityLink("blogs", joinKey("p", long+"e")), `{}`))
	a.must(404, "ResourceNotFound", a.do("GET", entityLink("blogs", joinKey("p", long+"e")), ""))
	for _, key := range []string{"a b", "a+b", "100%", "o'clock", "''", "Ünï", "a&b=c", "(x)", ",RowKey='", "😀"} {
		a.put(key, key, `"A":"`+key+`"`)
		if e := a.get(key, key); e["PartitionKey"] != key || e["RowKey"] != key || e["A"] != key {
			t.Errorf("stored %q as %v", key, e)
		}
		if found, _ := a.query("$filter", "PartitionKey eq '"+strings.ReplaceAll(key, "'", "''")+"'"); len(found) != 1 || found[0] != key+"/"+key {
			t.Errorf("found %q for %q", found, key)
		}
	}
}

func TestConditions(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	const link = "blogs(PartitionKey='p',RowKey='r')"
	a.must(404, "ResourceNotFound", a.do("PUT", link, `{}`, "If-Match", "*"))
	a.must(404, "ResourceNotFound", a.do("MERGE", link, `{}`, "If-Match", "*"))
	a.must(404, "ResourceNotFound", a.do("DELETE", link, "", "If-Match", "*"))
	a.must(400, "MissingRequiredHeader", a.do("DELETE", link, ""))
	first := a.put("p", "r", `"A":1,"B":1`).Header.Get("ETag")
	a.must(409, "EntityAlreadyExists", a.do("POST", "blogs", `{"PartitionKey":"p","RowKey":"r"}`))
	second := a.must(204, "", a.do("PATCH", link, `{"B":2,"C":2}`, "If-Match", first)).Header.Get("ETag")
	if first == second {
		t.Errorf("the version stays %s", first)
	}
	if e := a.get("p", "r"); e["A"] != 1.0 || e["B"] != 2.0 || e["C"] != 2.0 {
		t.Errorf("merged to %v", e)
	}
	a.must(412, "UpdateConditionNotSatisfied", a.do("PUT", link, `{}`, "If-Match", first))
	a.must(412, "UpdateConditionNotSatisfied", a.do("PATCH", link, `{}`, "If-Match", first))
	a.must(412, "UpdateConditionNotSatisfied", a.do("DELETE", link, ``, "If-Match", first))
	for _, version := range []string{"x", `"` + first + `"`, `W/"datetime'yesterday'"`, `W/"0x1"`, first + "," + second} {
		a.must(400, "InvalidInput", a.do("PUT", link, `{}`, "If-Match", version))
	}
	a.must(400, "InvalidInput", a.do("PUT", link, `{}`, "If-None-Match", "*"))
	third := a.must(204, "", a.do("POST", link, `{"D":3}`, "If-Match", strings.ReplaceAll(second, "%3A", ":"), "X-HTTP-Method", "PUT")).Header.Get("ETag")
	if e := a.get("p", "r"); len(e) != 4 || e["D"] != 3.0 {
		t.Errorf("replaced by %v", e)
	}
	a.must(204, "", a.do("POST", link, `{"E":1,"D":null}`, "X-HTTP-Method", "MERGE"))
	if e := a.get("p", "r"); len(e) != 5 || e["D"] != 3.0 {
		t.Errorf("merged to %v", e)
	}
	a.must(412, "UpdateConditionNotSatisfied", a.do("DELETE", link, "", "If-Match", third))
	a.must(204, "", a.do("DELETE", link, "", "If-Match", "*"))
	a.must(404, "ResourceNotFound", a.do("GET", link, ""))
	a.must(405, "MethodNotAllowed", a.do("POST", link, "{}"))
	a.must(400, "XMethodNotUsingPost", a.do("PUT", link, "{}", "X-HTTP-Method", "MERGE"))
	a.must(400, "XMethodIncorrectValue", a.do("POST", link, "{}", "X-HTTP-Method", "GET"))

	// A merge may not make an entity too large.
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, `,"A%d":1`, i)
	}
	a.put("p", "r", b.String()[1:])
	a.must(400, "TooManyProperties", a.do("PATCH", link, "{"+strings.ReplaceAll(b.String()[1:], "A", "B")+"}"))
}

func TestSignatures(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	for _, key := range []string{"a/1", "b/1", "b/2", "b/3", "c/1"} {
		a.put(key[:1], key[2:], "")
	}
	get := func(status int, code, partition, row string) {
		t.Helper()
		a.must(status, code, a.do("GET", entityLink("blogs", joinKey(partition, row)), ""))
	}
	a.grant = &rest.Grant{Service: true, Permissions: "raud", FromPartition: "b", FromRow: "2", ToPartition: "b"}
	get(403, "AuthorizationFailure", "b", "1")
	get(200, "", "b", "2")
	get(403, "AuthorizationFailure", "c", "1")
	if found, _ := a.query(); fmt.Sprint(found) != "[b/2 b/3]" {
		t.Errorf("found %q", found)
	}
	if found, _ := a.query("NextPartitionKey", writeToken("a"), "NextRowKey", writeToken("1")); fmt.Sprint(found) != "[b/2 b/3]" {
		t.Errorf("found %q with the token of another query", found)
	}
	a.grant = &rest.Grant{Service: true, Permissions: "raud", ToPartition: "b", ToRow: "2"}
	if found, _ := a.query("$filter", "PartitionKey ge 'b'"); fmt.Sprint(found) != "[b/1 b/2]" {
		t.Errorf("found %q", found)
	}
	a.must(403, "AuthorizationFailure", a.do("POST", "blogs", `{"PartitionKey":"b","RowKey":"3"}`))
	a.must(403, "AuthorizationFailure", a.do("DELETE", "blogs(PartitionKey='b',RowKey='3')", "", "If-Match", "*"))
	for _, permissions := range []string{"u", "a"} {
		a.grant = &rest.Grant{Permissions: permissions}
		a.must(403, "AuthorizationPermissionMismatch", a.do("PUT", "blogs(PartitionKey='b',RowKey='2')", "{}"))
		a.must(204, "", a.do("PUT", "blogs(PartitionKey='b',RowKey='2')", "{}", "If-Match", "*")) // the store checks the letter
	}
}

func TestPolicies(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	one := `<SignedIdentifier><Id>one</Id><AccessPolicy><Start>2026-01-01T00:00:00.0000000Z</Start><Expiry>2026-02-01T00:00:00.0000000Z</Expiry><Permission>raud</Permission></AccessPolicy></SignedIdentifier>`
	body := "<SignedIdentifiers>" + one + "<SignedIdentifier><Id>two</Id></SignedIdentifier></SignedIdentifiers>"
	a.must(204, "", a.do("PUT", "blogs?comp=acl", strings.Replace(body, "T00:00:00.0000000Z</E", "</E", 1)))
	answer := a.must(200, "", a.do("GET", "Blogs?comp=acl", ""))
	if string(answer.Body) != `<?xml version="1.0" encoding="utf-8"?>`+body || answer.Header.Get("Content-Type") != "application/xml" {
		t.Errorf("%s", answer.Body)
	}
	if p, ok := a.service.Policy("devaccount", "BLOGS", "one"); !ok || p.Permission != "raud" || p.Expiry != "2026-02-01T00:00:00.0000000Z" {
		t.Errorf("%v, %v", p, ok)
	}
	if _, ok := a.service.Policy("devaccount", "blogs", "three"); ok {
		t.Error("found a policy that does not exist")
	}
	for _, wrong := range []string{"<SignedIdentifiers>", "<SignedIdentifiers/>x", strings.Replace(body, "one", "", 1), strings.Replace(body, "one", "two", 1), strings.Replace(body, "raud", "raudx", 1),
		strings.Replace(body, "2026-02-01T", "soon", 1), "<SignedIdentifiers>" + strings.Repeat(one, 6) + "</SignedIdentifiers>", strings.Replace(body, "one", strings.Repeat("x", 65), 1)} {
		a.must(400, "InvalidXmlDocument", a.do("PUT", "blogs?comp=acl", wrong))
	}
	a.must(204, "", a.do("PUT", "blogs?comp=acl", ""))
	if answer := a.must(200, "", a.do("GET", "blogs?comp=acl", "")); !strings.HasSuffix(string(answer.Body), "<SignedIdentifiers></SignedIdentifiers>") {
		t.Errorf("%s", answer.Body)
	}
	a.must(404, "TableNotFound", a.do("GET", "other?comp=acl", ""))
	a.must(404, "TableNotFound", a.do("PUT", "other?comp=acl", ""))
	a.must(200, "", a.do("GET", "?restype=service&comp=properties", ""))
}

// 100,000 rows of about 200 bytes fit into 60 MiB of a process, whose heap may be
// twice as large as what it holds.
func TestMemory(t *testing.T) {
	const rows, perRow = 10_000, 195
	a := newAccount(t)
	a.create("blogs")
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range rows {
		a.put(fmt.Sprintf("p%03d", i%100), fmt.Sprintf("r%06d", i), fmt.Sprintf(`"Title":"%s","State":"done","Count":%d,"Url":"https://example.com/feeds/%d","Owner":"someone"`, strings.Repeat("x", 90), i, i))
	}
	used := (heap() - before) / rows
	t.Logf("a row needs %d bytes", used)
	if used > perRow {
		t.Errorf("a row needs %d bytes, want at most %d", used, perRow)
	}
	runtime.KeepAlive(a)
}

func TestTimes(t *testing.T) {
	for _, text := range []string{"1601-01-01T00:00:00Z", "1969-12-31T23:59:59.9999999Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59.9999999Z", "2026-01-02T03:04:05.12Z"} {
		if n, ok := parseTicks(text); !ok || string(appendTicks(nil, n)) != text {
			t.Errorf("%s became %s", text, string(appendTicks(nil, n)))
		}
		at, _ := time.Parse(time.RFC3339Nano, text)
		if n, _ := parseTicks(text); !timeOf(n).Equal(at) {
			t.Errorf("%s became %v", text, timeOf(n))
		}
	}
}
