package azuritetest

import (
	"fmt"
	"strings"
)

// transaction returns an entity group transaction of a few operations. One in
// six is wrong in a way that its name tells.
func (w *world) transaction(table string) call {
	fault := ""
	if w.odds(6) {
		fault = w.one("two partitions", "a row twice", "a row twice", "two tables", "a query", "kind", "part", "part", "frame", "frame")
	}
	c := call{name: "Entity Group Transaction", service: "table", method: "POST", path: "/$batch",
		header: map[string]string{"Content-Type": "multipart/mixed; boundary=batch_1", "Accept": w.accept()}}
	if fault != "" {
		c.name += " (" + fault + ")"
	}
	partition := w.one("p", "p", "q")
	rows := []string{"1", "2", "3", "4", "5", "a b", "it's"}
	w.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	rows = rows[:1+w.IntN(6)]
	at := w.IntN(len(rows)) // of the fault
	var parts []string
	for n, row := range rows {
		in, key := table, partition
		if n == at {
			switch fault {
			case "two partitions":
				key = w.one("p", "q")
			case "a row twice":
				row = rows[w.IntN(len(rows))]
			case "two tables":
				in = w.table(w.IntN(2))
			}
		}
		c.rows = append(c.rows, in+" "+key+" "+row)
		part := w.operation(in, key, row)
		if n == at {
			switch fault {
			case "a query":
				part = operation{method: "GET", address: entityPath(in, key, row)}.part()
			case "kind":
				part = w.oddOperation(in, key, row)
			case "part":
				part = w.spoiled(part)
			}
		}
		parts = append(parts, part)
	}
	c.body = framed(parts)
	if fault == "frame" {
		w.spoilFrame(&c, parts, table)
	}
	return c
}

// framed puts the operations into a change set, and that into a batch.
func framed(parts []string) string {
	return "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n--changeset_1\r\n" + strings.Join(parts, "--changeset_1\r\n") + "--changeset_1--\r\n--batch_1--\r\n"
}

// An operation is a request in a transaction.
type operation struct {
	method, address string
	header          []string
	body            string
}

func (o operation) part() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n%s ‹root›%s HTTP/1.1\r\n", o.method, o.address)
	for _, line := range o.header {
		b.WriteString(line + "\r\n")
	}
	return b.String() + "\r\n" + o.body + "\r\n"
}

// operation returns one of all kinds, whose condition may fail.
func (w *world) operation(table, partition, row string) string {
	o := operation{address: entityPath(table, partition, row), header: []string{"Accept: application/json;odata=minimalmetadata", "Content-Type: application/json"}}
	o.method = w.one("POST", "PUT", "PUT", "PATCH", "MERGE", "DELETE")
	keys := fmt.Sprintf(`"PartitionKey":%q,"RowKey":%q`, partition, row)
	switch o.method {
	case "POST":
		o.address = "/" + table
		if prefer := w.one("", "return-no-content", "return-no-content", "return-content"); prefer != "" {
			o.header = append(o.header, "Prefer: "+prefer)
		}
	case "DELETE":
		o.header = append(o.header[:1], "If-Match: "+w.match(table+" "+partition+" "+row))
		return o.part()
	default:
		if w.odds(2) {
			o.header = append(o.header, "If-Match: "+w.match(table+" "+partition+" "+row))
		}
	}
	properties := w.properties()
	if o.method == "POST" || len(properties) == 0 || w.odds(2) {
		properties = append([]string{keys}, properties...)
	}
	o.body = "{" + strings.Join(properties, ",") + "}"
	return o.part()
}

// match returns a condition: mostly one that holds if the row exists.
func (w *world) match(thing string) string {
	if w.odds(2) {
		return "*"
	}
	return w.etag(thing, `W/"datetime'2020-01-01T00%3A00%3A00.0000000Z'"`)
}

// oddOperation returns one that a transaction cannot have.
func (w *world) oddOperation(table, partition, row string) string {
	keys := fmt.Sprintf(`{"PartitionKey":%q,"RowKey":%q}`, partition, row)
	all := []operation{
		{method: "SPLIT", address: entityPath(table, partition, row), body: keys},
		{method: "HEAD", address: entityPath(table, partition, row)},
		{method: "POST", address: entityPath(table, partition, row), body: keys},
		{method: "PUT", address: "/" + table, body: keys},
		{method: "DELETE", address: entityPath(table, partition, row)},
		{method: "POST", address: "/Tables", body: fmt.Sprintf(`{"TableName":%q}`, w.table(2))},
		{method: "DELETE", address: "/Tables('" + w.table(2) + "')"},
		{method: "POST", address: "/$batch"},
	}
	o := all[w.IntN(len(all))]
	o.header = []string{"Content-Type: application/json"}
	return o.part()
}

// spoiled returns an operation that cannot be read.
func (w *world) spoiled(part string) string {
	header, request, _ := strings.Cut(part, "\r\n\r\n")
	line, rest, _ := strings.Cut(request, "\r\n")
	switch w.IntN(8) {
	case 0:
		return request
	case 1:
		return strings.Replace(header, "application/http", "text/plain", 1) + "\r\n\r\n" + request
	case 2:
		return header + "\r\n\r\n" + strings.TrimSuffix(line, " HTTP/1.1") + "\r\n" + rest
	case 3:
		return header + "\r\n\r\n" + rest
	case 4:
		return header + "\r\n\r\n" + line + "\r\nno header\r\n" + rest
	case 5:
		return header + "\r\n\r\n" + line + "\r\nContent-Type: application/json\r\n\r\n{\"a\":\r\n"
	case 6:
		return header + "\r\n\r\n"
	default:
		return strings.Replace(part, "(PartitionKey='", "(PartitionKey=", 1)
	}
}

// spoilFrame has the parts around the operations wrong, or unusual.
func (w *world) spoilFrame(c *call, parts []string, table string) {
	query := operation{method: "GET", address: entityPath(table, "p", "1"), header: []string{"Accept: application/json;odata=minimalmetadata"}}.part()
	switch w.IntN(9) {
	case 0:
		c.body = framed(nil)
	case 1:
		c.body = ""
	case 2:
		c.header["Content-Type"] = w.one("application/json", "multipart/mixed", "multipart/mixed; boundary=other")
	case 3:
		c.body = strings.Replace(c.body, "boundary=changeset_1", "boundary=other", 1)
	case 4: // no end
		c.body = strings.TrimSuffix(c.body, "--changeset_1--\r\n--batch_1--\r\n")
	case 5: // two change sets
		c.body = strings.TrimSuffix(c.body, "--batch_1--\r\n") + framed(parts)
	case 6: // operations without a change set
		c.body = "--batch_1\r\n" + strings.Join(parts, "--batch_1\r\n") + "--batch_1--\r\n"
	case 7: // one query is right
		c.name = "Entity Group Transaction (one query)"
		c.body = "--batch_1\r\n" + query + "--batch_1--\r\n"
	default:
		c.body = "--batch_1\r\n" + query + "--batch_1\r\n" + query + "--batch_1--\r\n"
	}
}
