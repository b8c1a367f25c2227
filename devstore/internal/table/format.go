package table

import (
	"net/url"
	"slices"
	"strings"

	"kennel/devstore/internal/rest"
)

// A level says how much metadata an answer has.
type level int

const (
	minimalMetadata level = iota
	noMetadata
	fullMetadata
)

var levelNames = map[level]string{minimalMetadata: "minimalmetadata", noMetadata: "nometadata", fullMetadata: "fullmetadata"}

// A format says how an answer is written.
type format struct {
	level   level
	base    string // the address of the account, with a slash at its end
	account string
}

// formatOf returns the format that a caller accepts. Its parameter counts more
// than its header.
func formatOf(r *rest.Request) (format, error) { return formatAt(baseOf(r), r) }

// formatAt returns that of a request to an account at an address.
func formatAt(base string, r *rest.Request) (format, error) {
	f := format{base: base, account: r.Account}
	accept := r.Query.Get("$format")
	if accept == "" {
		accept = r.Header("Accept")
	}
	accept = strings.ToLower(strings.ReplaceAll(accept, " ", ""))
	if strings.Contains(accept, "atom+xml") && !strings.Contains(accept, "json") {
		return f, rest.Fail(415, "AtomFormatNotSupported", "Atom format is not supported.")
	}
	switch {
	case strings.Contains(accept, "odata=nometadata"):
		f.level = noMetadata
	case strings.Contains(accept, "odata=fullmetadata"):
		f.level = fullMetadata
	}
	return f, nil
}

// prefixOf returns what stands before the path of a request below its account,
// with a slash at its end.
func prefixOf(r *rest.Request) string {
	prefix := strings.TrimSuffix(r.HTTP.URL.EscapedPath(), r.Path)
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return prefix
}

func baseOf(r *rest.Request) string {
	scheme := "http://"
	if r.HTTP.TLS != nil {
		scheme = "https://"
	}
	return scheme + r.HTTP.Host + prefixOf(r)
}

func (f format) contentType() string {
	return "application/json;odata=" + levelNames[f.level] + ";streaming=true;charset=utf-8"
}

// answer returns an answer with the headers of all answers with JSON.
func (f format) answer(status int, body []byte, headers ...string) *rest.Answer {
	headers = append(headers, "Cache-Control", "no-cache", "X-Content-Type-Options", "nosniff")
	return rest.Reply(status, headers...).With(f.contentType(), body)
}

// appendMetadata begins an object with what it is.
func (f format) appendMetadata(b []byte, set string) []byte {
	b = append(b, '{')
	if f.level != noMetadata {
		b = append(b, `"odata.metadata":`...)
		b = appendQuoted(b, f.base+"$metadata#"+set)
	}
	return b
}

// appendName appends the name of a member, after a comma if it is not the first.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(appendQuoted(b, name), ':')
}

func appendMember(b []byte, name, text string) []byte {
	return appendQuoted(appendName(b, name), text)
}

// entityLink returns the address of an entity below that of the account.
func entityLink(table, key string) string {
	partition, row := splitKey(key)
	return table + "(PartitionKey='" + escapeKey(partition) + "',RowKey='" + escapeKey(row) + "')"
}

func escapeKey(key string) string {
	return strings.ReplaceAll(url.PathEscape(strings.ReplaceAll(key, "'", "''")), "%27", "'")
}

// appendEntity appends the members of a row to an object that was begun. Nil
// names are for all of its properties. A name that the row does not have is
// null, as in Azure.
func (f format) appendEntity(b []byte, t *table, r row, names []string) []byte {
	if f.level == fullMetadata {
		b = appendMember(b, "odata.type", f.account+"."+t.name)
		b = appendMember(b, "odata.id", f.base+entityLink(t.name, r.key()))
	}
	if f.level != noMetadata {
		b = appendMember(b, "odata.etag", etag(r.stamp()))
	}
	if f.level == fullMetadata {
		b = appendMember(b, "odata.editLink", entityLink(t.name, r.key()))
	}
	if names != nil {
		for _, name := range names {
			if v, ok := r.find(t.names, name); ok {
				b = f.appendProperty(b, name, v)
			} else {
				b = append(appendName(b, name), "null"...)
			}
		}
		return append(b, '}')
	}
	for _, name := range []string{"PartitionKey", "RowKey", "Timestamp"} {
		v, _ := r.find(t.names, name)
		b = f.appendProperty(b, name, v)
	}
	for name, v := range r.properties(t.names) {
		b = f.appendProperty(b, name, v)
	}
	return append(b, '}')
}

func (f format) appendProperty(b []byte, name string, v value) []byte {
	if v.annotated() && (f.level == fullMetadata || f.level == minimalMetadata && name != "Timestamp") {
		b = appendMember(b, name+"@odata.type", kindNames[v.kind])
	}
	return v.appendJSON(appendName(b, name))
}

// appendTable appends the members of a table to an object that was begun.
func (f format) appendTable(b []byte, name string) []byte {
	if f.level == fullMetadata {
		link := "Tables('" + name + "')"
		b = appendMember(b, "odata.type", f.account+".Tables")
		b = appendMember(b, "odata.id", f.base+link)
		b = appendMember(b, "odata.editLink", link)
	}
	return append(appendMember(b, "TableName", name), '}')
}

// selected returns the names of a query's $select, nil for all.
func selected(query string) ([]string, error) {
	if strings.TrimSpace(query) == "" {
		return nil, nil
	}
	var names []string
	for name := range strings.SplitSeq(query, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "*":
			return nil, nil
		case !validName(name) || nameTooLong(name):
			return nil, errQuery
		case !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	return names, nil
}

// preference returns whether a caller wants the created resource in the answer,
// and the value of Preference-Applied.
func preference(r *rest.Request) (content bool, applied string) {
	switch prefer := strings.ToLower(strings.TrimSpace(r.Header("Prefer"))); prefer {
	case "return-no-content":
		return false, prefer
	case "return-content":
		return true, prefer
	default:
		return true, ""
	}
}

// created returns the answer to an insertion.
func (f format) created(r *rest.Request, link string, body []byte, headers ...string) *rest.Answer {
	content, applied := preference(r)
	headers = append(headers, "Location", f.base+link, "Preference-Applied", applied, "DataServiceVersion", "3.0;")
	if content {
		return f.answer(201, body, headers...)
	}
	return noContent(append(headers, "DataServiceId", f.base+link)...)
}

func noContent(headers ...string) *rest.Answer {
	return rest.Reply(204, append(headers, "Cache-Control", "no-cache", "X-Content-Type-Options", "nosniff")...)
}

// checkContentType refuses bodies that are not JSON.
func checkContentType(r *rest.Request) error {
	if strings.Contains(strings.ToLower(r.Header("Content-Type")), "atom+xml") {
		return rest.Fail(415, "AtomFormatNotSupported", "Atom format is not supported.")
	}
	return nil
}
