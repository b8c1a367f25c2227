package devbus

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
)

// This file is the administration endpoint: it answers HTTP requests with Atom
// feeds and entries (feed.go). It requires a token and accepts any.

// AdminTransport carries requests to the administration endpoint without a
// network. Use it as the Transport of the SDKs' administration clients.
type AdminTransport struct{ b *Broker }

// AdminTransport returns a transport to the broker's administration endpoint.
func (b *Broker) AdminTransport() *AdminTransport { return &AdminTransport{b} }

// Do answers a request, or returns an error if a fault prevents an answer.
func (t *AdminTransport) Do(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a, err := t.b.administer(r)
	if err != nil {
		return nil, err
	}
	body := a.encode()
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)),
		StatusCode: a.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        a.header(),
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}, nil
}

// serveHTTP answers a request that arrived over a network.
func (b *Broker) serveHTTP(w http.ResponseWriter, r *http.Request) {
	a, err := b.administer(r)
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection
	}
	maps.Copy(w.Header(), a.header())
	w.WriteHeader(a.status)
	w.Write(a.encode())
}

// maxDescription is the number of bytes that are read of a request's body.
const maxDescription = 1 << 20

const contentType = "application/atom+xml;type=entry;charset=utf-8"

// administer answers a request, or returns an error if a fault prevents an
// answer.
func (b *Broker) administer(r *http.Request) (answer, error) {
	if err := b.reachable(r); err != nil {
		return answer{}, err
	}
	// A client that sends its body slowly must not hold the lock.
	body, err := io.ReadAll(io.LimitReader(r.Body, maxDescription))
	if err != nil {
		return answer{}, fmt.Errorf("read the body: %w", err)
	}
	r = r.WithContext(r.Context()) // a copy
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.pick(Admin, r.URL.Path); f != nil {
		return f.answer(), nil
	}
	return b.route(r), nil
}

// reachable returns an error if a fault prevents an answer. Under BlackHole it
// waits until the client cancels the request.
func (b *Broker) reachable(r *http.Request) error {
	b.mu.Lock()
	refused, lost := b.closed || b.pick(RefuseDial, "") != nil, b.pick(BlackHole, "") != nil
	b.mu.Unlock()
	if refused {
		return errRefused
	}
	if lost {
		<-r.Context().Done()
		return r.Context().Err()
	}
	return nil
}

// answer is a response of the administration endpoint.
type answer struct {
	status   int
	document any // nil: none
}

func (a answer) encode() []byte {
	if a.document == nil {
		return nil
	}
	b, err := xml.Marshal(a.document)
	if err != nil {
		panic("devbus: " + err.Error()) // a bug in the types of this file
	}
	return append([]byte(xml.Header), b...)
}

func (b *Broker) route(r *http.Request) answer {
	if t := r.Header.Get("Authorization"); t == "" {
		return problem(http.StatusUnauthorized, "Manage,EntityRead claims required for this operation: send a token.")
	}
	path := strings.Trim(r.URL.Path, "/")
	topicPath, sub, isSub := cutFold(path, "/subscriptions")
	switch {
	case strings.EqualFold(path, "$namespaceinfo"):
		created := showTime(b.created)
		info := namespaceInfo{CreatedTime: created, MessagingSKU: "Standard", ModifiedTime: created, Name: b.namespace, NamespaceType: "Messaging"}
		if b.premium {
			info.MessagingSKU, info.MessagingUnits = "Premium", 1
		}
		return answer{http.StatusOK, b.entry(r, path, b.namespace, info)}
	case strings.EqualFold(path, "$Resources/queues"):
		return page(r, "Queues", b.queueEntries(r))
	case strings.EqualFold(path, "$Resources/topics"):
		return page(r, "Topics", b.topicEntries(r))
	case isSub:
		return b.administerSubscriptions(r, topicPath, strings.Trim(sub, "/"))
	}
	switch r.Method {
	case http.MethodPut:
		return b.putEntity(r, path)
	case http.MethodGet:
		if q := b.queues[key(path)]; q != nil && q.owner == nil {
			return answer{http.StatusOK, b.entry(r, q.path, q.name, q.describe())}
		}
		if t := b.topics[key(path)]; t != nil {
			return answer{http.StatusOK, b.entry(r, t.path, t.name, t.describe())}
		}
		return nothing()
	case http.MethodDelete:
		return b.deleteEntity(path)
	}
	return problem(http.StatusMethodNotAllowed, "The method %s is not allowed for entities.", r.Method)
}

// cutFold is strings.Cut without regard to the case of path. separator must be
// lower case, and must end at the end of a path segment.
func cutFold(path, separator string) (before, after string, found bool) {
	i := strings.Index(strings.ToLower(path), separator)
	if i < 0 || len(path) > i+len(separator) && path[i+len(separator)] != '/' {
		return path, "", false
	}
	return path[:i], path[i+len(separator):], true
}

func (b *Broker) administerSubscriptions(r *http.Request, topicPath, name string) answer {
	t := b.topics[key(topicPath)]
	if t == nil {
		return problem(http.StatusNotFound, "The messaging entity '%s' could not be found.", topicPath)
	}
	if strings.Contains(name, "/") {
		return problem(http.StatusNotImplemented, "devbus does not support rules: every subscription receives all messages.")
	}
	q := b.queues[key(topicPath+infixSubscriptions+name)]
	switch {
	case name == "" && r.Method == http.MethodGet:
		var entries []entry
		for _, q := range t.subscriptions {
			entries = append(entries, b.entry(r, q.path, q.name, q.describe()))
		}
		return page(r, "Subscriptions", entries)
	case name == "":
	case r.Method == http.MethodPut:
		return b.putSubscription(r, t, q, name)
	case r.Method == http.MethodGet && q == nil:
		return nothing()
	case r.Method == http.MethodGet:
		return answer{http.StatusOK, b.entry(r, q.path, q.name, q.describe())}
	case r.Method == http.MethodDelete:
		return b.deleteEntity(t.path + infixSubscriptions + name)
	}
	return problem(http.StatusMethodNotAllowed, "The method %s is not allowed for subscriptions.", r.Method)
}

// readDescription returns the description in a request's body.
func readDescription(r *http.Request) (*description, error) {
	var e struct {
		Content struct {
			Queue        *description `xml:"QueueDescription"`
			Topic        *description `xml:"TopicDescription"`
			Subscription *description `xml:"SubscriptionDescription"`
		} `xml:"content"`
	}
	if err := xml.NewDecoder(r.Body).Decode(&e); err != nil {
		return nil, fmt.Errorf("the body is not an Atom entry with a description: %w", err)
	}
	for _, d := range []*description{e.Content.Queue, e.Content.Topic, e.Content.Subscription} {
		if d != nil {
			return d, nil
		}
	}
	return nil, errors.New("the entry has no QueueDescription, TopicDescription or SubscriptionDescription")
}

// readSettings reads and checks the body of a PUT. exists are the settings of
// the existing entity, or nil.
func (b *Broker) readSettings(r *http.Request, path string, exists *Settings) (*description, Settings, *answer) {
	fail := func(status int, format string, args ...any) (*description, Settings, *answer) {
		a := problem(status, format, args...)
		return nil, Settings{}, &a
	}
	if len(path) > 260 {
		return fail(http.StatusBadRequest, "The path '%s' is longer than 260 characters.", path)
	}
	update := r.Header.Get("If-Match") != ""
	switch {
	case exists != nil && !update:
		return fail(http.StatusConflict, "SubCode=40900. Conflict. The entity '%s' already exists.", path)
	case exists == nil && update:
		return fail(http.StatusNotFound, "The messaging entity '%s' could not be found.", path)
	}
	d, err := readDescription(r)
	if err != nil {
		return fail(http.StatusBadRequest, "%v", err)
	}
	if what := d.refused(); what != "" {
		return fail(http.StatusNotImplemented, "devbus does not support %s.", what)
	}
	s, err := d.settings(exists, b.premium)
	if err != nil {
		return fail(http.StatusBadRequest, "SubCode=40000. %v. To know more visit https://aka.ms/sbResourceMgrExceptions.", err)
	}
	return d, s, nil
}

func (b *Broker) putEntity(r *http.Request, path string) answer {
	q, t := b.queues[key(path)], b.topics[key(path)]
	var exists *Settings
	switch {
	case q != nil:
		exists = &q.settings
	case t != nil:
		exists = &t.settings
	}
	d, s, failed := b.readSettings(r, path, exists)
	if failed != nil {
		return *failed
	}
	isTopic := d.XMLName.Local == kindTopic
	if exists != nil && isTopic != (t != nil) {
		return problem(http.StatusConflict, "SubCode=40900. Conflict. The entity '%s' has another kind.", path)
	}
	status := http.StatusOK
	var err error
	switch {
	case exists == nil && isTopic:
		t, err = b.createTopic(path, &s)
		status = http.StatusCreated
	case exists == nil:
		q, err = b.createQueue(path, &s)
		status = http.StatusCreated
	case isTopic:
		t.update(s)
		t.use()
	default:
		q.update(s)
		q.use()
	}
	if err != nil {
		return problem(http.StatusBadRequest, "%v", err)
	}
	if isTopic {
		t.ineffective = d.ineffective
		return answer{status, b.entry(r, t.path, t.name, t.describe())}
	}
	q.ineffective = d.ineffective
	return answer{status, b.entry(r, q.path, q.name, q.describe())}
}

func (b *Broker) putSubscription(r *http.Request, t *topic, q *queue, name string) answer {
	if len(name) > 50 {
		return problem(http.StatusBadRequest, "The subscription name '%s' is longer than 50 characters.", name)
	}
	var exists *Settings
	if q != nil {
		exists = &q.settings
	}
	d, s, failed := b.readSettings(r, name, exists)
	if failed != nil {
		return *failed
	}
	status := http.StatusOK
	if q == nil {
		if len(t.subscriptions) >= 2000 {
			return problem(http.StatusForbidden, "SubCode=40301. The topic '%s' already has 2000 subscriptions.", t.path)
		}
		q, _ = b.createSubscription(t.path, name, &s) // cannot fail: the topic exists, the subscription does not
		status = http.StatusCreated
	} else {
		q.update(s)
		q.use()
	}
	q.ineffective = d.ineffective
	return answer{status, b.entry(r, q.path, q.name, q.describe())}
}

func (b *Broker) deleteEntity(path string) answer {
	if err := b.remove(path); err != nil {
		return problem(http.StatusNotFound, "The messaging entity '%s' could not be found.", path)
	}
	return answer{status: http.StatusOK}
}
