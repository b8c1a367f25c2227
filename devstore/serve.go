package devstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kennel/devstore/internal/auth"
	"kennel/devstore/internal/rest"
)

// newestVersion is the newest x-ms-version whose documentation this package was
// written by. Newer ones are answered as that one.
const newestVersion = "2026-06-06"

// oldestVersion is the first one that the API had.
const oldestVersion = "2008-10-27"

// secondarySuffix ends the name of an account in the address of its secondary
// location.
const secondarySuffix = "-secondary"

// target is what the address of a request names.
type target struct {
	service   *service
	account   string
	secondary bool   // the location that can only be read
	path      string // below the account
}

// locate finds service and account. only is the service of a port that serves
// one alone, "" for the port of all three.
//
// The account is the first label of a host such as
// devstoreaccount1.blob.localhost, and else the first part of the path. On the
// port of all three, the path must name the service as well:
// /devstoreaccount1.blob/container.
func (s *Store) locate(r *http.Request, only string) (target, *rest.Error) {
	path := r.URL.EscapedPath()
	if account, service, found := s.accountOfHost(r.Host); found && (only == "" || only == service.name) {
		account, secondary := strings.CutSuffix(account, secondarySuffix)
		return target{service, account, secondary, strings.TrimPrefix(path, "/")}, nil
	}
	first, below, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	account, name, named := strings.Cut(first, ".")
	if !named {
		name = only
	}
	service := s.services[name]
	if service == nil || only != "" && only != name {
		return target{}, rest.Fail(400, "InvalidUri", "The address names no service. On this port it begins with the account and the service, such as /%s.blob/container, or its host does, such as %s.blob.localhost.", DefaultAccount, DefaultAccount)
	}
	account, secondary := strings.CutSuffix(account, secondarySuffix)
	if len(s.keys[account]) == 0 {
		return target{}, rest.Fail(404, "AccountNotFound", "This storage has no account %.30q. It has %s.", account, strings.Join(s.accounts(), ", "))
	}
	return target{service, account, secondary, below}, nil
}

func (s *Store) accountOfHost(hostport string) (account string, of *service, found bool) {
	account, rest, _ := strings.Cut(hostport, ".")
	name, _, _ := strings.Cut(rest, ".")
	name, _, _ = strings.Cut(name, ":")
	of = s.services[name]
	return account, of, of != nil && len(s.keys[strings.TrimSuffix(account, secondarySuffix)]) > 0
}

// reply is an answer with what a fault does to it.
type reply struct {
	*rest.Answer
	cut  bool          // the connection ends instead
	slow time.Duration // that the body takes
}

// answer answers a request to the storage.
func (s *Store) answer(r *http.Request, only string) reply {
	request := &rest.Request{HTTP: r, Now: s.options.Now().UTC(), ID: s.newID()}
	at, failed := s.locate(r, only)
	if failed != nil {
		return reply{Answer: s.finish(request, failed.XML(request))}
	}
	request.Account, request.Path, request.Secondary = at.account, at.path, at.secondary
	var hit, inside Fault
	request.Sub = func(sub *http.Request) *rest.Answer {
		part := s.answerWithin(sub, at.service.name)
		switch { // a part has no connection of its own
		case part.cut:
			inside.Kind = Cut
		case part.slow > inside.Delay && inside.Kind != Cut:
			inside = Fault{Kind: Slow, Delay: part.slow}
		}
		return part.Answer
	}
	a, err := s.run(request, at, &hit)
	if hit.Kind == 0 {
		hit = inside
	}
	if err != nil {
		a = at.service.failure(request, err)
		if r.Method == http.MethodHead {
			a.Body = nil
		}
	}
	return reply{Answer: s.finish(request, a), cut: hit.Kind == Cut, slow: delayOf(hit, Slow)}
}

// within marks the context of a request that is part of another one.
type within struct{}

// answerWithin answers a request that is part of another one, as in a batch.
func (s *Store) answerWithin(sub *http.Request, service string) reply {
	return s.answer(sub.WithContext(context.WithValue(sub.Context(), within{}, true)), service)
}

// run finds the operation, checks that its caller may have it run, reads the
// body and runs it.
func (s *Store) run(r *rest.Request, at target, hit *Fault) (*rest.Answer, error) {
	// Callers leave the semicolon of $format=application/json;odata=… as it is,
	// which ParseQuery refuses.
	query, err := url.ParseQuery(strings.ReplaceAll(r.HTTP.URL.RawQuery, ";", "%3B"))
	if err != nil {
		return nil, rest.Fail(400, "InvalidQueryParameterValue", "The query of the address cannot be read: %v.", err)
	}
	r.Query = query
	if err := s.checkVersion(r); err != nil {
		return nil, err
	}
	op, notFound := at.service.Route(r)
	if r.HTTP.Method == http.MethodOptions { // of a browser, which has no key
		name := strings.ToUpper(at.service.name[:1]) + at.service.name[1:]
		op, notFound = rest.Operation{Name: "Preflight " + name + " Request", Public: true}, nil
	}
	if notFound != nil && r.Header("Authorization") == "" && query.Has("sig") {
		return nil, notFound // what is no operation names nothing that a signature could be for
	}
	if err := s.authorize(r, at, op); err != nil {
		return nil, err
	}
	if notFound != nil {
		return nil, notFound
	}
	if at.secondary && r.HTTP.Method != http.MethodGet && r.HTTP.Method != http.MethodHead {
		return nil, rest.Fail(403, "InsufficientAccountPermissions", "Write operations are not allowed at the secondary location.")
	}
	if err := rest.CheckTimeout(query); err != nil {
		return nil, err
	}
	*hit = s.faults.next(at.service.name, op, r.HTTP.Method)
	if err := before(r.Context(), *hit); err != nil {
		return nil, err
	}
	if op.Run == nil {
		return nil, rest.Fail(501, "NotImplemented", "devstore does not imitate the operation %q. docs/local-development.md lists what it does.", op.Name)
	}
	if r.Body, err = readBody(r.HTTP, op.MaxBody); err != nil {
		return nil, err
	}
	r.Now = s.options.Now().UTC() // a fault, or the body, took its time
	a, err := s.operate(r, op)
	if err == nil && hit.Kind == Fail {
		return nil, rest.Fail(500, "InternalError", "The fault of this storage answers so, although %s was done.", op.Name)
	}
	return a, err
}

func (s *Store) authorize(r *rest.Request, at target, op rest.Operation) (err error) {
	for _, key := range s.keys[at.account] {
		err = auth.Authorize(auth.Caller{
			Request: r, Service: at.service.letter, Key: key, Operation: op, AnyDate: s.anyDate,
			Policy: func(id string) (rest.Policy, bool) { return at.service.Policy(at.account, op.Container, id) },
		})
		if err == nil {
			return nil
		}
	}
	return err
}

// operate runs the operation, and returns when its changes are durable, as well
// as those of others that its answer may show.
func (s *Store) operate(r *rest.Request, op rest.Operation) (*rest.Answer, error) {
	if r.Context().Value(within{}) != nil {
		return op.Run(r) // the request around it holds the lock, and waits for the disk
	}
	a, err := func() (*rest.Answer, error) {
		s.compacting.RLock()
		defer s.compacting.RUnlock()
		return op.Run(r)
	}()
	if durable := s.durable(); durable != nil {
		s.options.Log.Error("nothing can be stored any more", "error", durable)
		return nil, rest.Fail(500, "InternalError", "The storage cannot write to its disk any more.")
	}
	return a, err
}

// maxGrow is how much memory the length that a caller announces is worth.
const maxGrow = 64 << 20

// readBody reads the body of a request.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(min(r.ContentLength, maxGrow)) + bytes.MinRead) // in one piece, which the blob then keeps
	}
	if _, err := body.ReadFrom(io.LimitReader(r.Body, limit+1)); err != nil {
		return nil, rest.Fail(400, "InvalidInput", "The body of the request ended before its end: %v.", err)
	}
	if int64(body.Len()) > limit {
		return nil, tooLarge(limit)
	}
	return body.Bytes(), nil
}

func tooLarge(limit int64) error {
	e := rest.Fail(413, "RequestBodyTooLarge", "The request body is too large and exceeds the maximum permissible limit.")
	e.Details = []string{"MaxLimit", fmt.Sprint(limit)}
	return e
}

// failure returns the answer of the service for an error.
func (s *service) failure(r *rest.Request, err error) *rest.Answer {
	var failed *rest.Error
	if !errors.As(err, &failed) {
		failed = rest.Fail(500, "InternalError", "%v", err)
	}
	if s.name == "table" {
		return failed.JSON(r)
	}
	return failed.XML(r)
}

// finish adds the headers that all answers have.
func (s *Store) finish(r *rest.Request, a *rest.Answer) *rest.Answer {
	if a.Header == nil {
		a.Header = make(http.Header, 8)
	}
	h := a.Header
	h.Set("Server", "devstore")
	h.Set("x-ms-request-id", r.ID)
	h.Set("Date", rest.Date(r.Now))
	if version := r.Header("x-ms-version"); version >= oldestVersion && version <= newestVersion {
		h.Set("x-ms-version", version)
	} else {
		h.Set("x-ms-version", newestVersion)
	}
	if id := r.Header("x-ms-client-request-id"); id != "" && len(id) <= 1024 {
		h.Set("x-ms-client-request-id", id)
	}
	return a
}

// checkVersion refuses versions that cannot be, and mentions newer ones once.
func (s *Store) checkVersion(r *rest.Request) error {
	version := r.Header("x-ms-version")
	if version == "" {
		return nil
	}
	if _, err := time.Parse(time.DateOnly, version); err != nil || version < oldestVersion {
		return rest.InvalidHeader("x-ms-version", version)
	}
	if version > newestVersion && s.warned.CompareAndSwap(false, true) {
		s.options.Log.Warn("a caller uses a newer version of the storage API than this storage knows; it is answered as the newest known",
			"version", version, "known", newestVersion)
	}
	return nil
}

// delayOf returns the delay of a fault of this kind.
func delayOf(f Fault, kind Kind) time.Duration {
	if f.Kind != kind {
		return 0
	}
	return f.Delay
}

// before does what a fault does before the operation runs.
func before(ctx context.Context, f Fault) error {
	switch f.Kind {
	case Refuse:
		return rest.Fail(500, "InternalError", "A fault of this storage refuses the request. Nothing was done.")
	case Busy:
		e := rest.Fail(503, "ServerBusy", "A fault of this storage makes it busy. Nothing was done.")
		e.Header = http.Header{"Retry-After": {fmt.Sprint(max(1, int(f.Delay.Seconds())))}}
		return e
	case Late:
		return wait(ctx, f.Delay)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// newID returns the id of a request.
func (s *Store) newID() string {
	n := s.ids.Add(1)
	return fmt.Sprintf("%s-%04x-%012x", s.idPrefix, n>>48, n&(1<<48-1))
}
