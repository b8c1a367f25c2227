// Package rest holds what the three services of devstore share: the shape of
// a call and of its answer, errors as the SDKs parse them, and time stamps that
// never repeat.
package rest

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A Service is one of blob, queue and table.
type Service interface {
	// Route names the operation that a request asks for, and what its caller
	// must be allowed to do. It changes nothing. An error is an *Error.
	Route(*Request) (Operation, error)

	// Policy returns the stored access policy of a container, queue or table
	// that a shared access signature names.
	Policy(account, container, id string) (Policy, bool)

	// Apply makes the change of a record that this service wrote to its log
	// before. It runs before the first request. The record's bytes do not
	// change, but who keeps a part of them keeps their neighbours too.
	Apply(record []byte) error

	// Snapshot emits records from which Apply builds the present state.
	// No operation runs meanwhile.
	Snapshot(emit func(record []byte) error) error

	// Reset forgets everything, also in the log.
	Reset()
}

// A Log keeps the changes of a service. A service appends a record while it
// holds the lock under which it makes the change, so records are in the order
// of changes. A change of several things that belong together is one record.
// The store waits until the log is durable before it answers.
type Log interface {
	Append(record []byte)
}

// Memory is the log of a store that keeps nothing.
type Memory struct{}

// Append implements [Log].
func (Memory) Append([]byte) {}

// A Request is one call, whose caller is known and allowed to make it when an
// operation runs.
type Request struct {
	HTTP    *http.Request // for method, headers and context; its body was read
	Account string
	Path    string     // below the account, without a slash at its front, escaped as the caller sent it
	Query   url.Values // decoded
	Body    []byte
	Now     time.Time // in UTC
	ID      string    // x-ms-request-id

	// Secondary is set for a request to the secondary location, which is read
	// only, and here never behind.
	Secondary bool

	// Grant is what a shared access signature allows, nil for other callers.
	Grant *Grant

	// Token is of a caller who came with one, nil for others.
	Token *Token

	// Sub answers a request within this one, as batches contain them. Its path
	// begins as the path of HTTP does.
	Sub func(*http.Request) *Answer
}

// Header returns a header of the request.
func (r *Request) Header(name string) string { return r.HTTP.Header.Get(name) }

// Context ends with the caller.
func (r *Request) Context() context.Context { return r.HTTP.Context() }

// A Token is who a caller with a token is, in Microsoft Entra ID.
type Token struct {
	Object, Tenant string

	// Delegate returns the key with which the caller may sign for the account,
	// for the values of [Delegation] in their order.
	Delegate func(values ...string) []byte
}

// Delegation names the parameters of a shared access signature that say which
// key a user signed it with.
var Delegation = []string{"skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid"}

// An Operation is what one request asks for.
type Operation struct {
	// Name is that of Microsoft's documentation, such as "Put Blob".
	Name string

	// Container is the container, queue or table, "" for the service itself.
	Container string

	// Level is what a shared access signature must be for: 's' for the service,
	// 'c' for containers, queues and tables, 'o' for blobs, messages and
	// entities.
	Level byte

	// Permission holds the letters of a shared access signature of which one
	// is enough, "" for operations that no signature allows.
	Permission string

	// ForAccount says that a signature for one container, queue or table is not
	// enough, whatever its permissions: the answer is AuthorizationFailure.
	ForAccount bool

	// Public says that everybody may call it, as for a blob in a container
	// with public access.
	Public bool

	// MaxBody is how many bytes the body may have; 0 is for none at all. A
	// longer body is answered with RequestBodyTooLarge.
	MaxBody int64

	// Run answers. It is nil for an operation that this store does not
	// imitate: the answer is then 501 with its name.
	Run func(*Request) (*Answer, error)
}

// A Grant is what a valid shared access signature allows.
type Grant struct {
	Service bool // for one container, queue, table or blob; else for the account

	Permissions string // letters, such as "rwdl"
	Services    string // letters b, q and t; for an account
	Levels      string // letters s, c and o; for an account

	Version  string
	Resource string // sr: b, c, bs, d; "" for queues and tables
	Identity string // si

	// A signature for a table may be for a part of it, from the first pair of
	// keys to the last, both included.
	FromPartition, FromRow, ToPartition, ToRow string

	// Override holds the response headers that a blob is to be read with, by
	// the names rscc, rscd, rsce, rscl and rsct.
	Override map[string]string
}

// May reports whether the caller has one of these letters. Without a grant, it
// has all of them.
func (g *Grant) May(letters string) bool {
	return g == nil || strings.ContainsAny(g.Permissions, letters)
}

// A Policy is a stored access policy. Empty members are in the signature.
type Policy struct {
	ID         string
	Start      string
	Expiry     string
	Permission string
}

// An Answer goes to the caller. The store adds x-ms-request-id, x-ms-version,
// x-ms-client-request-id, Date and Server.
type Answer struct {
	Status int
	Header http.Header // nil is like an empty one
	Body   []byte      // is not changed after it was given here

	// Length is the Content-Length of an answer to HEAD, which has no body.
	Length int64
}

// Reply returns an answer with headers, which are given in pairs. A header
// whose value is empty is left out.
func Reply(status int, headers ...string) *Answer {
	h := make(http.Header, len(headers)/2)
	values := make([]string, len(headers)/2) // of all, in one piece of memory
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] != "" {
			values[0] = headers[i+1]
			h[http.CanonicalHeaderKey(headers[i])], values = values[:1:1], values[1:]
		}
	}
	return &Answer{Status: status, Header: h}
}

// With returns the answer with a body of this type.
func (a *Answer) With(contentType string, body []byte) *Answer {
	if a.Header == nil {
		a.Header = make(http.Header, 1)
	}
	a.Header.Set("Content-Type", contentType)
	a.Body = body
	return a
}
