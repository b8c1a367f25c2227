package requests

import (
	"net/http"
	"net/url"
	"strings"
)

// other is the name of all operations that have no name below.
const other = "other"

// operations names requests by service, method and target. Azure's prices make
// the same distinctions: lists cost more than reads, and a transaction is one
// request, however many rows it has.
var operations = map[[3]string]string{
	{Blob, http.MethodGet, "blob"}:              "get",
	{Blob, http.MethodHead, "blob"}:             "head",
	{Blob, http.MethodPut, "blob"}:              "put",
	{Blob, http.MethodPut, "blob metadata"}:     "update",
	{Blob, http.MethodPut, "blob block"}:        "put",
	{Blob, http.MethodPut, "blob blocklist"}:    "put",
	{Blob, http.MethodPut, "blob lease"}:        "lease",
	{Blob, http.MethodDelete, "blob"}:           "delete",
	{Blob, http.MethodGet, "container"}:         "head",
	{Blob, http.MethodHead, "container"}:        "head",
	{Blob, http.MethodPut, "container"}:         "create",
	{Blob, http.MethodGet, "container list"}:    "list",
	{Blob, http.MethodGet, "account list"}:      "list",
	{Table, http.MethodGet, "row"}:              "get",
	{Table, http.MethodGet, "rows"}:             "query",
	{Table, http.MethodPost, "rows"}:            "insert",
	{Table, http.MethodPut, "row"}:              "update",
	{Table, http.MethodPatch, "row"}:            "merge",
	{Table, http.MethodDelete, "row"}:           "delete",
	{Table, http.MethodPost, "transaction"}:     "transaction",
	{Table, http.MethodPost, "tables"}:          "create",
	{Table, http.MethodGet, "tables"}:           "list",
	{Queue, http.MethodPost, "messages"}:        "put",
	{Queue, http.MethodGet, "messages"}:         "receive",
	{Queue, http.MethodGet, "messages at peek"}: "peek",
	{Queue, http.MethodDelete, "messages"}:      "clear",
	{Queue, http.MethodPut, "message"}:          "update",
	{Queue, http.MethodDelete, "message"}:       "delete",
	{Queue, http.MethodPut, "queue"}:            "create",
	{Queue, http.MethodGet, "queue metadata"}:   "head",
	{Queue, http.MethodHead, "queue metadata"}:  "head",
	{Queue, http.MethodGet, "queue list"}:       "list",
}

// Operation returns the name of a request's operation, such as "get", "put" or
// "transaction".
func Operation(service, method string, u *url.URL) string {
	if name, ok := operations[[3]string{service, method, target(service, u)}]; ok {
		return name
	}
	return other
}

// target returns the kind of resource in an address, with the value of comp if
// there is one.
func target(service string, u *url.URL) string {
	query := u.Query()
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	last := path[strings.LastIndexByte(path, '/')+1:] // a slash in a name is escaped
	var kind string
	switch service {
	case Blob:
		kind = blobTarget(query)
	case Table:
		kind = tableTarget(last)
	case Queue:
		kind = queueTarget(path, query)
	}
	if comp := query.Get("comp"); comp != "" {
		kind += " " + comp
	}
	return kind
}

func blobTarget(query url.Values) string {
	switch {
	case query.Get("restype") != "":
		return query.Get("restype")
	case query.Get("comp") == "list":
		return "account"
	}
	return "blob"
}

// tableTarget parses the last segment of a path: $batch, Tables,
// Tables('Name'), Name(), Name or Name(PartitionKey='p',RowKey='r').
func tableTarget(last string) string {
	switch name, key, _ := strings.Cut(last, "("); {
	case last == "$batch":
		return "transaction"
	case name == "Tables":
		return "tables"
	case key != "" && key != ")":
		return "row"
	}
	return "rows"
}

// queueTarget parses a path that ends with queue, queue/messages or
// queue/messages/id.
func queueTarget(path string, query url.Values) string {
	switch {
	case query.Get("peekonly") == "true":
		return "messages at peek"
	case strings.HasSuffix(path, "/messages"):
		return "messages"
	case strings.Contains(path, "/messages/"):
		return "message"
	}
	return "queue"
}
