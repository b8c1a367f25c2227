package devbus

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// This file holds the documents of the administration endpoint.

type feed struct {
	XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
	Title   string   `xml:"title"`
	ID      string   `xml:"id"`
	Updated string   `xml:"updated"`
	Entries []entry  `xml:"entry"`
}

type entry struct {
	XMLName   xml.Name    `xml:"http://www.w3.org/2005/Atom entry"`
	ID        string      `xml:"id"`
	Title     string      `xml:"title"`
	Published string      `xml:"published"`
	Updated   string      `xml:"updated"`
	Author    string      `xml:"author>name"`
	Content   atomContent `xml:"content"`
}

type atomContent struct {
	Type string `xml:"type,attr"`
	Of   any
}

type namespaceInfo struct {
	XMLName        xml.Name `xml:"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect NamespaceInfo"`
	CreatedTime    string
	MessagingSKU   string
	MessagingUnits int `xml:",omitempty"` // of a premium namespace
	ModifiedTime   string
	Name           string
	NamespaceType  string
}

// entry returns the entry of an entity. SDKs read the name from the id, a URL.
func (b *Broker) entry(r *http.Request, path, title string, of any) entry {
	now := showTime(b.created)
	id := url.URL{Scheme: "https", Host: r.Host, Path: "/" + path, RawQuery: r.URL.RawQuery}
	return entry{ID: id.String(), Title: title, Published: now, Updated: now, Author: b.namespace, Content: atomContent{"application/xml", of}}
}

func (b *Broker) queueEntries(r *http.Request) []entry {
	var out []entry
	for _, q := range b.queues {
		if q.topic == nil && q.owner == nil {
			out = append(out, b.entry(r, q.path, q.name, q.describe()))
		}
	}
	return out
}

func (b *Broker) topicEntries(r *http.Request) []entry {
	var out []entry
	for _, t := range b.topics {
		out = append(out, b.entry(r, t.path, t.name, t.describe()))
	}
	return out
}

// page returns the entries that $skip and $top select.
func page(r *http.Request, title string, entries []entry) answer {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.Title, b.Title) })
	skip, _ := strconv.ParseInt(r.URL.Query().Get("$skip"), 10, 64)
	top, err := strconv.ParseInt(r.URL.Query().Get("$top"), 10, 64)
	if err != nil {
		top = 100
	}
	entries = entries[clamp(skip, len(entries)):]
	return answer{http.StatusOK, feed{Title: title, ID: title, Entries: entries[:clamp(top, len(entries))]}}
}

// nothing is the answer of the service to a GET of an entity that does not
// exist.
func nothing() answer {
	return answer{http.StatusOK, feed{Title: "Publicly Listed Services", ID: "nothing"}}
}

func problem(status int, format string, args ...any) answer {
	return answer{status, struct {
		XMLName xml.Name `xml:"Error"`
		Code    int
		Detail  string
	}{Code: status, Detail: fmt.Sprintf(format, args...)}}
}
