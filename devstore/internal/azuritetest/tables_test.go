package azuritetest

import (
	"fmt"
	"net/url"
	"strings"
)

const jsonType = "application/json"

func (w *world) accept() string {
	return w.one("application/json;odata=minimalmetadata", "application/json;odata=nometadata", "application/json;odata=minimalmetadata", "application/json;odata=fullmetadata")
}

func (w *world) createTable(name string) call {
	return call{name: "Create Table", service: "table", method: "POST", path: "/Tables", body: fmt.Sprintf(`{"TableName":%q}`, name),
		header: map[string]string{"Content-Type": jsonType, "Accept": w.accept(), "Prefer": w.one("", "return-no-content", "return-content")}}
}

func (w *world) tableCall() call {
	table := w.table(w.usual())
	c := call{service: "table", path: "/" + table, header: map[string]string{"Accept": w.accept()}}
	switch n := w.IntN(100); {
	case n < 4:
		c = w.createTable(table)
		if w.odds(8) {
			c.body = w.one(`{"TableName":"1bad"}`, `{"TableName":"ab"}`, `{}`, `{`, ``, `{"TableName":"a-b"}`)
		}
	case n < 6:
		c.name, c.method, c.path = "Delete Table", "DELETE", "/Tables('"+table+"')"
	case n < 11:
		c.name, c.method, c.path = "Query Tables", "GET", "/Tables"
		c.query = "$filter=" + url.QueryEscape(fmt.Sprintf("TableName ge '%sA' and TableName lt '%sz'", w.name, w.name)) + w.one("", "&$top=1", "&$top=0", "&$top=x", "&$top=1001")
	case n < 14:
		c.name, c.method, c.query = "Get Table ACL", "GET", "comp=acl"
	case n < 16:
		c.name, c.method, c.query, c.body = "Set Table ACL", "PUT", "comp=acl", w.policies()
		c.header["Content-Type"] = "application/xml"
	case n < 34:
		c.name, c.method, c.body = "Insert Entity", "POST", w.entity(true)
		c.header["Content-Type"], c.header["Prefer"] = jsonType, w.one("", "return-no-content", "return-content")
	case n < 56:
		w.entityWrite(&c, table)
	case n < 66:
		partition, row := w.keys()
		c.name, c.method, c.path = "Get Entity", "GET", entityPath(table, partition, row)
		c.query = w.one("", "", "$select=a,b", "$select=PartitionKey,none", "$select=*")
	case n < 88:
		c.name, c.method, c.path = "Query Entities", "GET", "/"+table+"()"
		w.entityQuery(&c)
	case n < 98:
		return w.transaction(table)
	default:
		return w.oddTableCall()
	}
	return c
}

func (w *world) keys() (string, string) {
	return w.one("p", "p", "q"), w.one("1", "2", "3", "4", "a b", "it's", "")
}

func entityPath(table, partition, row string) string {
	quote := func(s string) string {
		return strings.ReplaceAll(url.PathEscape(strings.ReplaceAll(s, "'", "''")), "+", "%2B")
	}
	return fmt.Sprintf("/%s(PartitionKey='%s',RowKey='%s')", table, quote(partition), quote(row))
}

func (w *world) properties() []string {
	all := []string{
		`"a":1`, `"a":"text"`, `"a":true`, `"b":1.5`, `"b":2147483648`, `"b":"ü\n"`, `"c":null`,
		`"d":"9007199254740993","d@odata.type":"Edm.Int64"`, `"e":"2026-01-02T03:04:05.6789Z","e@odata.type":"Edm.DateTime"`,
		`"f":"AQID","f@odata.type":"Edm.Binary"`, `"g":"00000000-0000-4000-8000-000000000001","g@odata.type":"Edm.Guid"`,
		`"h":"1.0","h@odata.type":"Edm.Double"`, `"i":"7","i@odata.type":"Edm.Int32"`, `"j":"NaN","j@odata.type":"Edm.Double"`, `"k":3,"k@odata.type":"Edm.Double"`,
	}
	bad := []string{
		`"x":[1]`, `"x":{"y":1}`, `"x":"z","x@odata.type":"Edm.Int64"`, `"x":"z","x@odata.type":"Edm.Odd"`, `"1x":1`, `"x":"z","x@odata.type":"Edm.Guid"`,
		`"x":"%%","x@odata.type":"Edm.Binary"`, `"x":"never","x@odata.type":"Edm.DateTime"`, `"x-y":1`,
	}
	var some []string
	seen := make(map[byte]bool)
	for range w.IntN(5) {
		one := all[w.IntN(len(all))]
		if !seen[one[1]] {
			some = append(some, one)
		}
		seen[one[1]] = true
	}
	if w.odds(60) {
		some = append(some, bad[w.IntN(len(bad))])
	}
	return some
}

func (w *world) entity(withKeys bool) string {
	parts := w.properties()
	if withKeys {
		partition, row := w.keys()
		parts = append([]string{fmt.Sprintf(`"PartitionKey":%q`, partition), fmt.Sprintf(`"RowKey":%q`, row)}, parts...)
		if w.odds(30) {
			parts = parts[1:]
		}
	}
	if w.odds(60) {
		return w.one("", "{", "[]", `"x"`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (w *world) entityWrite(c *call, table string) {
	partition, row := w.keys()
	c.path = entityPath(table, partition, row)
	thing := table + " " + partition + " " + row
	match := w.one("", "*", "etag", "etag")
	if match == "etag" {
		match = w.etag(thing, `W/"datetime'2020-01-01T00%3A00%3A00.0000000Z'"`)
	}
	c.header["If-Match"] = match
	if w.odds(4) {
		c.name, c.method = "Delete Entity", "DELETE"
		return
	}
	c.method, c.body = w.one("PUT", "MERGE", "PATCH"), w.entity(false)
	c.header["Content-Type"] = jsonType
	kind := map[string]string{"PUT": "Replace", "MERGE": "Merge", "PATCH": "Merge"}[c.method]
	if match == "" {
		c.name = "Insert Or " + kind + " Entity"
	} else {
		c.name = kind + " Entity"
	}
}

// acrossTypes are filters on a property that has several types here.
var acrossTypes = []string{"not (a eq 1)", "a ne 1", "a ge 0 and a le 5", "a", "b gt 1.0", "b lt 2", "k ge 3"}

func (w *world) entityQuery(c *call) {
	filters := []string{
		"PartitionKey eq 'p'", "PartitionKey eq 'p' and RowKey gt '2'", "RowKey lt '3'", "a eq 1", "a eq 'text'", "a eq true", "d eq 9007199254740993L",
		"PartitionKey eq 'q' or RowKey eq '1'", "e gt datetime'2025-01-01T00:00:00Z'", "g eq guid'00000000-0000-4000-8000-000000000001'",
		"f eq X'010203'", "f eq binary'010203'", "none eq 1", "(RowKey ge '1') and (RowKey lt '3')", "RowKey eq 'it''s'", "i eq 7",
	}
	var parts []string
	if w.odds(2) {
		filter := filters[w.IntN(len(filters))]
		if w.odds(25) {
			filter = w.one("a eq", "a odd 1", "(a eq 1", "a eq 'x", "eq 1", "a eq 1 b eq 2", "startswith(a,'t')")
		}
		if w.odds(6) {
			filter = acrossTypes[w.IntN(len(acrossTypes))]
			c.name += " (across types)"
		}
		parts = append(parts, "$filter="+url.QueryEscape(filter))
	}
	if w.odds(3) {
		parts = append(parts, "$top="+w.number("1", "2", "1000", "1001"))
	}
	if w.odds(4) {
		parts = append(parts, "$select="+w.one("a", "a,b", "RowKey", "none", "PartitionKey,RowKey,Timestamp"))
	}
	if w.odds(6) {
		parts = append(parts, "NextPartitionKey=p&NextRowKey=2")
	}
	c.query = strings.Join(parts, "&")
}

func (w *world) oddTableCall() call {
	table := w.table(0)
	all := []call{
		{method: "PUT", path: "/" + table, body: "{}"},
		{method: "GET", path: "/" + table + "(PartitionKey='p')"},
		{method: "GET", path: "/" + table + "(PartitionKey='p',RowKey='1'"},
		{method: "DELETE", path: "/" + table},
		{method: "POST", path: "/" + table + "(PartitionKey='p',RowKey='1')", body: "{}"},
		{method: "GET", path: "/Tables('" + table + "')"},
		{method: "PUT", path: "/Tables('" + table + "')"},
		{method: "GET", path: "/" + table, query: "comp=odd"},
	}
	c := all[w.IntN(len(all))]
	c.name, c.service = "(odd) "+c.method+" "+strings.ReplaceAll(c.path, w.name, "w")+"?"+c.query, "table"
	c.header = map[string]string{"Accept": "application/json", "Content-Type": jsonType}
	return c
}
