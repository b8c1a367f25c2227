package queue

import (
	"bytes"
	"encoding/xml"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"kennel/devstore/internal/rest"
)

const maxList = 5000

func (s *Service) createQueue(r *rest.Request, name string) (*rest.Answer, error) {
	metadata, err := readMetadata(r.HTTP.Header)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.account(r.Account).queues[name]; old != nil {
		if !maps.Equal(old.metadata, metadata) {
			return nil, rest.Fail(409, "QueueAlreadyExists", "The specified queue already exists.")
		}
		return rest.Reply(204), nil
	}
	q := newQueue()
	q.metadata = metadata
	s.account(r.Account).put(name, q)
	s.logQueue(r, name, q)
	return rest.Reply(201), nil
}

func (s *Service) logQueue(r *rest.Request, name string, q *queue) {
	e := encode(recordQueue, r.Account, name)
	e.queue(q)
	s.log.Append(e)
}

func (s *Service) deleteQueue(r *rest.Request, name string) (*rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.open(r, name); err != nil {
		return nil, err
	}
	s.account(r.Account).remove(name)
	s.log.Append(encode(recordNoQueue, r.Account, name))
	return rest.Reply(204), nil
}

func (s *Service) getMetadata(r *rest.Request, name string) (*rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.open(r, name)
	if err != nil {
		return nil, err
	}
	answer := rest.Reply(200, "x-ms-approximate-messages-count", strconv.Itoa(len(q.byID)))
	writeMetadata(answer.Header, q.metadata)
	return answer, nil
}

func (s *Service) setMetadata(r *rest.Request, name string) (*rest.Answer, error) {
	metadata, err := readMetadata(r.HTTP.Header)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.open(r, name)
	if err != nil {
		return nil, err
	}
	q.metadata = metadata
	s.logQueue(r, name, q)
	return rest.Reply(204), nil
}

// A list holds the parameters of List Queues.
type list struct {
	prefix, marker, maxResults string

	from     string // the name to begin with
	max      int
	metadata bool
}

func readList(r *rest.Request) (list, error) {
	l := list{prefix: r.Query.Get("prefix"), marker: r.Query.Get("marker"), maxResults: r.Query.Get("maxresults"), max: maxList}
	if l.maxResults != "" {
		count, err := readNumber(r, "maxresults", 1, math.MaxInt32)
		if err != nil {
			return list{}, err
		}
		l.max = min(int(count), maxList)
	}
	if l.marker != "" {
		from, ok := strings.CutPrefix(l.marker, "/"+r.Account+"/")
		if !ok {
			return list{}, rest.Fail(400, "InvalidMarker", "The specified marker is invalid.")
		}
		l.from = from
	}
	for include := range strings.SplitSeq(r.Query.Get("include"), ",") {
		switch include {
		case "":
		case "metadata":
			l.metadata = true
		default:
			return list{}, rest.InvalidQuery("include", r.Query.Get("include"), "Invalid query parameter value.")
		}
	}
	return l, nil
}

func (s *Service) listQueues(r *rest.Request) (*rest.Answer, error) {
	l, err := readList(r)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="`)
	_ = xml.EscapeText(&b, []byte(endpoint(r)))
	b.WriteString(`">`)
	for _, given := range [][2]string{{"Prefix", l.prefix}, {"Marker", l.marker}, {"MaxResults", l.maxResults}} {
		if given[1] != "" {
			writeElement(&b, given[0], given[1])
		}
	}
	b.WriteString(`<Queues>`)
	next := s.writeQueues(&b, r.Account, l)
	b.WriteString(`</Queues>`)
	writeElement(&b, "NextMarker", next)
	b.WriteString(`</EnumerationResults>`)
	return rest.Reply(200).With("application/xml", b.Bytes()), nil
}

// writeQueues writes the queues of a list and returns the marker of the next.
func (s *Service) writeQueues(b *bytes.Buffer, name string, l list) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[name]
	if a == nil {
		return ""
	}
	first, _ := slices.BinarySearch(a.names, max(l.prefix, l.from))
	for i, queue := range a.names[first:] {
		if !strings.HasPrefix(queue, l.prefix) {
			break
		}
		if i == l.max {
			return "/" + name + "/" + queue
		}
		b.WriteString(`<Queue>`)
		writeElement(b, "Name", queue)
		if metadata := a.queues[queue].metadata; l.metadata {
			b.WriteString(`<Metadata>`)
			for _, key := range sortedNames(metadata) {
				writeElement(b, key, metadata[key])
			}
			b.WriteString(`</Metadata>`)
		}
		b.WriteString(`</Queue>`)
	}
	return ""
}

// endpoint returns the URL of the service as the caller addressed it.
func endpoint(r *rest.Request) string {
	url := "http://"
	if r.HTTP.TLS != nil {
		url = "https://"
	}
	url += r.HTTP.Host + "/"
	first, _, _ := strings.Cut(strings.TrimPrefix(r.HTTP.URL.Path, "/"), "/")
	if name, _, _ := strings.Cut(first, "."); name == r.Account {
		url += first
	}
	return url
}
