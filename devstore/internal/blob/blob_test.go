package blob

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/devstore/internal/rest"
)

// A store runs calls as devstore does, with a clock that the test moves and
// without checks of signatures.
type store struct {
	*Service
	t       *testing.T
	now     time.Time
	records [][]byte
	grant   *rest.Grant
}

func newStore(t *testing.T) *store {
	s := &store{t: t, now: time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)}
	s.Service = New(s, 0)
	return s
}

// Append implements [rest.Log].
func (s *store) Append(record []byte) { s.records = append(s.records, slices.Clone(record)) }

// call runs a request to the account "kennel". Headers are given in pairs.
func (s *store) call(method, target, body string, headers ...string) *rest.Answer {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:10000/kennel/"+target, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.serve(r, []byte(body), s.grant)
}

// serve answers a request. A source or a part of a batch with a signature is
// for a caller whose signature is valid.
func (s *store) serve(h *http.Request, body []byte, grant *rest.Grant) *rest.Answer {
	account, path, _ := strings.Cut(strings.TrimPrefix(h.URL.EscapedPath(), "/"), "/")
	r := &rest.Request{HTTP: h, Account: account, Path: path, Query: h.URL.Query(), Body: body, Now: s.now, ID: "id", Grant: grant}
	r.Sub = func(sub *http.Request) *rest.Answer {
		if sub.Method == http.MethodHead && !sub.URL.Query().Has("sig") {
			return rest.Fail(401, "NoAuthenticationInformation", "not signed").XML(r)
		}
		return s.serve(sub, nil, nil)
	}
	a, err := s.run(r)
	if err != nil {
		return err.(*rest.Error).XML(r) // every error of a service is one
	}
	return a
}

func (s *store) run(r *rest.Request) (*rest.Answer, error) {
	operation, err := s.Route(r)
	switch {
	case err != nil:
		return nil, err
	case operation.Run == nil:
		return nil, rest.Fail(501, "NotImplemented", "%s", operation.Name)
	case int64(len(r.Body)) > operation.MaxBody:
		return nil, rest.Fail(413, "RequestBodyTooLarge", "%s", operation.Name)
	}
	return operation.Run(r)
}

// want fails the test unless the answer has a status and, for an error, a code.
func (s *store) want(a *rest.Answer, status int, code string) *rest.Answer {
	s.t.Helper()
	if got := a.Header.Get("x-ms-error-code"); a.Status != status || got != code {
		s.t.Fatalf("the answer is %d %q, want %d %q: %s", a.Status, got, status, code, a.Body)
	}
	return a
}

// ok runs a call that must succeed with a status.
func (s *store) ok(status int, method, target, body string, headers ...string) *rest.Answer {
	s.t.Helper()
	return s.want(s.call(method, target, body, headers...), status, "")
}

// fails runs a call that must fail.
func (s *store) fails(status int, code, method, target, body string, headers ...string) *rest.Answer {
	s.t.Helper()
	return s.want(s.call(method, target, body, headers...), status, code)
}

func (s *store) create(container string) { s.ok(201, "PUT", container+"?restype=container", "") }

// put uploads a block blob and returns its ETag.
func (s *store) put(target, body string, headers ...string) string {
	s.t.Helper()
	return s.ok(201, "PUT", target, body, append(headers, "x-ms-blob-type", "BlockBlob")...).Header.Get("ETag")
}

func (s *store) content(target string) string {
	s.t.Helper()
	return string(s.ok(200, "GET", target, "").Body)
}

// image describes all that readers can see of the store.
func (s *store) image() string {
	var b bytes.Buffer
	for account, all := range s.accounts {
		for name, k := range all.From("") {
			fmt.Fprintf(&b, "%s/%s %+v\n", account, name, *k.state())
			for blobName, one := range k.blobs.From("") {
				fmt.Fprintf(&b, " %s %+v %d\n", blobName, one.lease, one.pending.Size())
				for id, data := range one.pending.From("") {
					fmt.Fprintf(&b, "  %s %q\n", id, data)
				}
				for _, v := range append(slices.Clone(one.snapshots), one.base) {
					if v == nil {
						continue
					}
					fmt.Fprintf(&b, "  %d %d %q", v.snapshot, v.length, v.bytes(0, v.length))
					p := v.props
					if p.Copy != nil {
						fmt.Fprintf(&b, " %+v", *p.Copy)
						p.Copy = nil
					}
					if len(p.Meta) == 0 {
						p.Meta = nil
					}
					fmt.Fprintf(&b, " %+v", p)
					for _, one := range v.blocks {
						fmt.Fprintf(&b, " %q:%d", one.id, len(one.data))
					}
					b.WriteByte('\n')
				}
			}
		}
	}
	return b.String()
}

// replayed returns a service to which records were applied.
func replayed(t *testing.T, records [][]byte) *store {
	t.Helper()
	s := newStore(t)
	for _, record := range records {
		if err := s.Apply(record); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// checkReplay compares the store with what its log and its snapshot give.
func (s *store) checkReplay() {
	s.t.Helper()
	want := s.image()
	if got := replayed(s.t, s.records).image(); got != want {
		s.t.Fatalf("the log gives\n%s\nwant\n%s", got, want)
	}
	var snapshot [][]byte
	err := s.Snapshot(func(record []byte) error {
		snapshot = append(snapshot, slices.Clone(record))
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	again := replayed(s.t, snapshot)
	if got := again.image(); got != want {
		s.t.Fatalf("the snapshot gives\n%s\nwant\n%s", got, want)
	}
	if len(again.restored) > 0 {
		s.t.Fatal("data of the snapshot stays in memory")
	}
}

func TestContainers(t *testing.T) {
	s := newStore(t)
	s.fails(404, "ContainerNotFound", "GET", "one?restype=container", "")
	s.fails(400, "InvalidResourceName", "PUT", "a--b?restype=container", "")
	s.fails(400, "InvalidResourceName", "PUT", "Upper?restype=container", "")
	s.fails(400, "OutOfRangeInput", "PUT", "ab?restype=container", "")
	s.fails(400, "InvalidQueryParameterValue", "PUT", "?restype=container", "")
	s.fails(400, "InvalidMetadata", "PUT", "one?restype=container", "", "x-ms-meta-a-b", "c")
	s.fails(400, "InvalidHeaderValue", "PUT", "one?restype=container", "", "x-ms-blob-public-access", "all")
	created := s.ok(201, "PUT", "one?restype=container", "", "x-ms-meta-Name", "value", "x-ms-blob-public-access", "blob")
	s.fails(409, "ContainerAlreadyExists", "PUT", "one?restype=container", "")
	got := s.ok(200, "HEAD", "one?restype=container", "")
	want := map[string]string{
		"ETag": created.Header.Get("ETag"), "Last-Modified": "Fri, 27 Nov 2026 08:00:00 GMT", "x-ms-meta-name": "value",
		"x-ms-lease-state": "available", "x-ms-lease-status": "unlocked", "x-ms-blob-public-access": "blob", "x-ms-lease-duration": "",
	}
	for name, value := range want {
		if got.Header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), value)
		}
	}
	s.fails(412, "ConditionNotMet", "PUT", "one?restype=container&comp=metadata", "", "If-Modified-Since", "Fri, 27 Nov 2026 08:00:00 GMT")
	s.ok(200, "PUT", "one?restype=container&comp=metadata", "", "If-Modified-Since", "Fri, 27 Nov 2026 07:59:59 GMT")
	if a := s.ok(200, "HEAD", "one?restype=container", ""); a.Header.Get("x-ms-meta-name") != "" {
		t.Error("the metadata was not replaced")
	}
	s.create("two")
	list := string(s.ok(200, "GET", "?comp=list&maxresults=1&include=metadata", "").Body)
	marker := between(t, list, "<NextMarker>", "</NextMarker>")
	if !strings.Contains(list, "<Name>one</Name>") || strings.Contains(list, "<Name>two</Name>") {
		t.Errorf("the first page is %s", list)
	}
	if list = string(s.ok(200, "GET", "?comp=list&marker="+marker, "").Body); !strings.Contains(list, "<Name>two</Name>") || !strings.Contains(list, "<NextMarker></NextMarker>") {
		t.Errorf("the second page is %s", list)
	}
	s.fails(400, "InvalidQueryParameterValue", "GET", "?comp=list&marker=two", "")
	s.fails(400, "OutOfRangeQueryParameterValue", "GET", "?comp=list&maxresults=0", "")
	s.checkReplay()
	s.ok(202, "DELETE", "one?restype=container", "")
	s.fails(404, "ContainerNotFound", "DELETE", "one?restype=container", "")
	s.checkReplay()
}

func between(t *testing.T, text, before, after string) string {
	t.Helper()
	_, text, found := strings.Cut(text, before)
	text, _, found2 := strings.Cut(text, after)
	if !found || !found2 || text == "" {
		t.Fatalf("nothing between %s and %s", before, after)
	}
	return text
}

func TestPolicies(t *testing.T) {
	s := newStore(t)
	s.create("one")
	policy := func(id string) string {
		return "<SignedIdentifier><Id>" + id + "</Id><AccessPolicy><Start>2026-11-27T09:00:00+01:00</Start><Expiry>2026-12-01</Expiry><Permission>lr</Permission></AccessPolicy></SignedIdentifier>"
	}
	document := func(all string) string { return "<SignedIdentifiers>" + all + "</SignedIdentifiers>" }
	six := ""
	for i := range 6 {
		six += policy(fmt.Sprint(i))
	}
	const acl = "one?restype=container&comp=acl"
	s.fails(400, "InvalidXmlDocument", "PUT", acl, document(six))
	s.fails(400, "InvalidXmlDocument", "PUT", acl, document(policy(strings.Repeat("a", 65))))
	s.fails(400, "InvalidXmlDocument", "PUT", acl, document(policy("")))
	s.fails(400, "InvalidXmlDocument", "PUT", acl, "<SignedIdentifiers>")
	s.fails(400, "InvalidXmlNodeValue", "PUT", acl, document(strings.ReplaceAll(policy("a"), "2026-12-01", "soon")))
	s.ok(200, "PUT", acl, document(policy("first")+policy("second")), "x-ms-blob-public-access", "container")
	a := s.ok(200, "GET", acl, "")
	if body := string(a.Body); a.Header.Get("x-ms-blob-public-access") != "container" || !strings.Contains(body, "<Id>second</Id>") || !strings.Contains(body, "<Start>2026-11-27T08:00:00.0000000Z</Start>") {
		t.Errorf("the list is %s", body)
	}
	if got, found := s.Policy("kennel", "one", "second"); !found || got.Permission != "rl" || got.Expiry != "2026-12-01T00:00:00.0000000Z" {
		t.Errorf("the policy is %+v", got)
	}
	if _, found := s.Policy("kennel", "one", "third"); found {
		t.Error("a policy was found that does not exist")
	}
	r := httptest.NewRequest("GET", "/kennel/one/a", nil)
	request := &rest.Request{HTTP: r, Account: "kennel", Path: "one/a", Query: url.Values{}}
	if operation, err := s.Route(request); err != nil || !operation.Public || operation.Container != "one" || operation.Level != 'o' {
		t.Errorf("the operation is %+v, %v", operation, err)
	}
	s.checkReplay()
	s.ok(200, "PUT", acl, "")
	if _, found := s.Policy("kennel", "one", "first"); found {
		t.Error("the policy was not removed")
	}
}

func TestBlockBlob(t *testing.T) {
	s := newStore(t)
	s.fails(404, "ContainerNotFound", "PUT", "one/a", "", "x-ms-blob-type", "BlockBlob")
	s.create("one")
	s.fails(404, "BlobNotFound", "GET", "one/a", "")
	s.fails(400, "MissingRequiredHeader", "PUT", "one/a", "")
	s.fails(501, "NotImplemented", "PUT", "one/a", "", "x-ms-blob-type", "PageBlob")
	s.fails(400, "HierarchicalNamespaceNotEnabled", "PUT", "one/a?comp=expiry", "", "x-ms-expiry-option", "NeverExpire")
	s.fails(400, "HierarchicalNamespaceNotEnabled", "PUT", "one/a", "", "x-ms-blob-type", "BlockBlob", "x-ms-expiry-option", "NeverExpire")
	s.fails(400, "MissingRequiredHeader", "PUT", "?restype=container&comp=undelete", "")
	s.fails(400, "MissingRequiredHeader", "PUT", "one?restype=container&comp=undelete", "", "x-ms-deleted-container-name", "two")
	s.fails(501, "NotImplemented", "PUT", "one?restype=container&comp=undelete", "",
		"x-ms-deleted-container-name", "two", "x-ms-deleted-container-version", "01D")
	s.fails(501, "NotImplemented", "PUT", "one/a", "", "x-ms-blob-type", "BlockBlob", "x-ms-tags", "a=b")
	s.fails(400, "Md5Mismatch", "PUT", "one/a", "text", "x-ms-blob-type", "BlockBlob", "Content-MD5", encode64(md5Of([]byte("other"))))
	s.fails(400, "InvalidMd5", "PUT", "one/a", "text", "x-ms-blob-type", "BlockBlob", "Content-MD5", "abc")
	s.fails(400, "Crc64Mismatch", "PUT", "one/a", "text", "x-ms-blob-type", "BlockBlob", "x-ms-content-crc64", encode64(crcOf([]byte("other"))))
	etag := s.put("one/a", "0123456789", "x-ms-blob-content-type", "text/plain", "x-ms-blob-cache-control", "no-store", "x-ms-meta-k", "v")
	a := s.ok(200, "GET", "one/a", "")
	want := map[string]string{
		"Content-Type": "text/plain", "Cache-Control": "no-store", "X-Ms-Meta-K": "v", "Etag": etag,
		"Content-Md5": encode64(md5Of([]byte("0123456789"))), "X-Ms-Blob-Type": "BlockBlob", "Accept-Ranges": "bytes",
	}
	for name, value := range want {
		if a.Header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, a.Header.Get(name), value)
		}
	}
	if properties := s.ok(200, "HEAD", "one/a", ""); properties.Length != 10 || properties.Header.Get("x-ms-access-tier") != "Hot" {
		t.Errorf("the properties are %+v", properties)
	}
	s.ok(200, "PUT", "one/a?comp=properties", "", "x-ms-blob-content-language", "en")
	if a = s.ok(200, "HEAD", "one/a", ""); a.Header.Get("Content-Type") != "" || a.Header.Get("Content-Language") != "en" || a.Header.Get("ETag") == etag {
		t.Errorf("the headers are %v", a.Header)
	}
	s.grant = &rest.Grant{Permissions: "r", Override: map[string]string{"rsct": "text/html"}}
	if a = s.ok(200, "GET", "one/a", ""); a.Header.Get("Content-Type") != "text/html" {
		t.Errorf("the overridden type is %q", a.Header.Get("Content-Type"))
	}
	s.grant = &rest.Grant{Permissions: "c"}
	s.fails(403, "UnauthorizedBlobOverwrite", "PUT", "one/a", "", "x-ms-blob-type", "BlockBlob")
	s.put("one/b", "")
	s.grant = nil
	s.ok(202, "DELETE", "one/b", "")
	s.fails(404, "BlobNotFound", "DELETE", "one/b", "")
	s.fails(400, "OutOfRangeInput", "PUT", "one/"+strings.Repeat("a", 1025), "", "x-ms-blob-type", "BlockBlob")
	s.put("one/"+strings.Repeat("%C3%A4", 1024), "")
	s.checkReplay()
}

// The letters are those of Microsoft's table of permissions by operation.
func TestLettersOfSignatures(t *testing.T) {
	s := newStore(t)
	for _, tt := range []struct{ target, action, want string }{
		{"one/a", "", "cw"},
		{"one/a?comp=block&blockid=AAAA", "", "w"},
		{"one/a?comp=blocklist", "", "w"},
		{"one/a?comp=blocklist&skoid=user", "", "cw"},
		{"one/a?comp=appendblock", "", "aw"},
		{"one/a?comp=lease", "acquire", "w"},
		{"one/a?comp=lease", "break", "dw"},
		{"one?restype=container&comp=lease", "release", "w"},
		{"one?restype=container&comp=lease", "Break", "dw"},
	} {
		r := httptest.NewRequest("PUT", "/kennel/"+tt.target, nil)
		r.Header.Set("x-ms-lease-action", tt.action)
		r.Header.Set("x-ms-blob-type", "BlockBlob")
		path, _, _ := strings.Cut(tt.target, "?")
		o, err := s.Route(&rest.Request{HTTP: r, Account: "kennel", Path: path, Query: r.URL.Query()})
		letters := []byte(o.Permission)
		slices.Sort(letters)
		if err != nil || string(letters) != tt.want {
			t.Errorf("%s %s: %q, %v, want %q", tt.target, tt.action, o.Permission, err, tt.want)
		}
	}
}

func TestRanges(t *testing.T) {
	s := newStore(t)
	s.create("one")
	for _, id := range []string{"AAAA", "BBBB", "CCCC"} {
		s.ok(201, "PUT", "one/a?comp=block&blockid="+id, id[:3])
	}
	s.ok(201, "PUT", "one/a?comp=blocklist", "<BlockList><Latest>AAAA</Latest><Latest>BBBB</Latest><Latest>CCCC</Latest></BlockList>")
	for _, test := range []struct {
		text, want string
		status     int
	}{
		{"bytes=0-0", "A", 206}, {"bytes=2-3", "AB", 206}, {"bytes=3-5", "BBB", 206}, {"bytes=1-7", "AABBBCC", 206},
		{"bytes=8-", "C", 206}, {"bytes=5-100", "BCCC", 206}, {"bytes=-1-", "AAABBBCCC", 200}, {"bytes=3-2", "AAABBBCCC", 200}, {"bytes=x-2", "AAABBBCCC", 200},
	} {
		a := s.ok(test.status, "GET", "one/a", "", "x-ms-range", test.text)
		if string(a.Body) != test.want {
			t.Errorf("%s gives %q, want %q", test.text, a.Body, test.want)
		}
	}
	a := s.ok(206, "GET", "one/a", "", "Range", "bytes=2-3", "x-ms-range-get-content-md5", "true")
	if a.Header.Get("Content-Range") != "bytes 2-3/9" || a.Header.Get("Content-MD5") != encode64(md5Of([]byte("AB"))) {
		t.Errorf("the headers are %v", a.Header)
	}
	s.fails(416, "InvalidRange", "GET", "one/a", "", "Range", "bytes=9-")
	s.fails(400, "InvalidHeaderValue", "GET", "one/a", "", "x-ms-range-get-content-md5", "true")
}

func TestConditions(t *testing.T) {
	const before, at, later = "Fri, 27 Nov 2026 07:59:59 GMT", "Fri, 27 Nov 2026 08:00:00 GMT", "Fri, 27 Nov 2026 08:00:01 GMT"
	s := newStore(t)
	s.create("one")
	etag := s.put("one/a", "text")
	const other = `"0x1"`
	for _, test := range []struct {
		headers     []string
		read, write int // 0 for success
	}{
		{[]string{"If-Match", etag}, 0, 0},
		{[]string{"If-Match", bare(etag)}, 0, 0},
		{[]string{"If-Match", "*"}, 0, 0},
		{[]string{"If-Match", other}, 412, 412},
		{[]string{"If-Match", other + ", " + etag}, 0, 0},
		{[]string{"If-None-Match", etag}, 304, 412},
		{[]string{"If-None-Match", other}, 0, 0},
		{[]string{"If-None-Match", other + "," + etag}, 304, 412},
		{[]string{"If-Modified-Since", before}, 0, 0},
		{[]string{"If-Modified-Since", at}, 304, 412},
		{[]string{"If-Unmodified-Since", at}, 0, 0},
		{[]string{"If-Unmodified-Since", before}, 412, 412},
		{[]string{"If-Unmodified-Since", before, "If-Match", etag}, 412, 0},
		{[]string{"If-Modified-Since", later, "If-None-Match", other}, 0, 0},
		{[]string{"If-Modified-Since", before, "If-None-Match", etag}, 0, 412},
		{[]string{"If-Match", etag, "If-None-Match", other}, 0, 400},
		{[]string{"If-Modified-Since", "yesterday"}, 400, 400},
	} {
		for method, status := range map[string]int{"GET": test.read, "HEAD": test.read, "PUT": test.write} {
			target := "one/a"
			if method == "PUT" {
				target += "?comp=lease" // which changes no ETag
				test.headers = append(test.headers, "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1")
			}
			got := s.call(method, target, "", test.headers...)
			if method == "PUT" && got.Status == 201 {
				s.ok(202, "PUT", target, "", "x-ms-lease-action", "break")
			}
			if failed := got.Status >= 300; failed != (status != 0) || failed && got.Status != status {
				t.Errorf("%s with %v gives %d, want %d", method, test.headers, got.Status, status)
			}
		}
	}
	s.fails(400, "UnsatisfiableCondition", "GET", "one/a", "", "If-None-Match", "*")
	s.fails(409, "BlobAlreadyExists", "PUT", "one/a", "", "x-ms-blob-type", "BlockBlob", "If-None-Match", "*")
	s.fails(412, "ConditionNotMet", "PUT", "one/a", "", "x-ms-blob-type", "BlockBlob", "If-None-Match", etag)
	s.fails(412, "ConditionNotMet", "PUT", "one/b", "", "x-ms-blob-type", "BlockBlob", "If-Match", etag)
	s.fails(412, "ConditionNotMet", "PUT", "one/b", "", "x-ms-blob-type", "BlockBlob", "If-Match", "*")
	s.put("one/b", "", "If-None-Match", "*")
	if next := s.put("one/a", "", "If-Match", etag); next == etag {
		t.Error("the ETag did not change")
	}
	s.fails(412, "ConditionNotMet", "DELETE", "one/a", "", "If-Match", etag)
}

func TestBlocks(t *testing.T) {
	s := newStore(t)
	s.create("one")
	const target = "one/a?comp=blocklist"
	s.fails(404, "BlobNotFound", "GET", target, "")
	s.fails(400, "InvalidQueryParameterValue", "PUT", "one/a?comp=block&blockid=!", "x")
	s.fails(400, "InvalidHeaderValue", "PUT", "one/a?comp=block&blockid=AAAA", "")
	s.fails(400, "Md5Mismatch", "PUT", "one/a?comp=block&blockid=AAAA", "x", "Content-MD5", encode64(md5Of(nil)))
	for _, id := range []string{"BBBB", "AAAA", "CCCC"} {
		s.ok(201, "PUT", "one/a?comp=block&blockid="+id, id)
	}
	s.fails(400, "InvalidBlobOrBlock", "PUT", "one/a?comp=block&blockid=AA==", "x")
	s.fails(404, "BlobNotFound", "GET", "one/a", "")
	list := "<BlockList><Uncommitted>BBBB</Uncommitted><Latest>AAAA</Latest></BlockList>"
	s.fails(400, "InvalidBlockList", "PUT", target, strings.Replace(list, "Uncommitted", "Committed", 2))
	s.fails(400, "InvalidBlockList", "PUT", target, "<BlockList><Latest>DDDD</Latest></BlockList>")
	s.fails(400, "InvalidXmlDocument", "PUT", target, "<BlockList><Newest>AAAA</Newest></BlockList>")
	s.fails(400, "InvalidXmlDocument", "PUT", target, "<BlockList>")
	s.fails(412, "ConditionNotMet", "PUT", target, list, "If-Modified-Since", "Fri, 27 Nov 2026 08:00:10 GMT")
	s.fails(412, "ConditionNotMet", "PUT", target, list, "If-Unmodified-Since", "Fri, 27 Nov 2026 07:59:59 GMT")
	s.fails(409, "BlobAlreadyExists", "PUT", "one/a?comp=blocklist", list, "If-None-Match", "*", "x-test", s.put("one/a", "old"))
	for _, id := range []string{"BBBB", "AAAA", "CCCC"} {
		s.ok(201, "PUT", "one/a?comp=block&blockid="+id, id)
	}
	s.checkReplay()
	all := string(s.ok(200, "GET", target+"&blocklisttype=all", "").Body)
	if !strings.Contains(all, "<CommittedBlocks></CommittedBlocks>") || !strings.Contains(all, "<Name>CCCC</Name><Size>4</Size>") {
		t.Errorf("the list is %s", all)
	}
	s.ok(201, "PUT", target, list)
	if got := s.content("one/a"); got != "BBBBAAAA" {
		t.Errorf("the content is %q", got)
	}
	s.fails(400, "InvalidBlockList", "PUT", target, "<BlockList><Uncommitted>CCCC</Uncommitted></BlockList>")
	s.ok(201, "PUT", "one/a?comp=block&blockid=AAAA", "new")
	s.ok(201, "PUT", target, "<BlockList><Committed>AAAA</Committed><Latest>AAAA</Latest><Latest>BBBB</Latest><Latest>BBBB</Latest></BlockList>")
	if got := s.content("one/a"); got != "AAAAnewBBBBBBBB" {
		t.Errorf("the content is %q", got)
	}
	s.checkReplay()
	s.ok(201, "PUT", "one/b?comp=block&blockid=AAAA", "x")
	s.now = s.now.Add(8 * 24 * time.Hour)
	s.ok(201, "PUT", "one/c?comp=block&blockid=AAAA", "x")
	s.fails(404, "BlobNotFound", "GET", "one/b?comp=blocklist&blocklisttype=all", "")
	if len(s.staged) != 1 || s.Service.container("kennel", "one").blobs.Size() != 2 {
		t.Error("old blocks that were not committed are still there")
	}
	s.checkReplay()
	s.ok(202, "DELETE", "one?restype=container", "")
	if len(s.staged) != 0 {
		t.Error("blocks of a deleted container are still there")
	}
}

func TestAppendBlob(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.fails(404, "BlobNotFound", "PUT", "one/a?comp=appendblock", "x")
	s.ok(201, "PUT", "one/a", "", "x-ms-blob-type", "AppendBlob")
	const target = "one/a?comp=appendblock"
	s.fails(400, "InvalidHeaderValue", "PUT", target, "")
	s.fails(400, "InvalidHeaderValue", "PUT", target, "x", "x-ms-blob-condition-appendpos", "-1")
	for i, text := range []string{"one", "two"} {
		a := s.ok(201, "PUT", target, text)
		if a.Header.Get("x-ms-blob-append-offset") != fmt.Sprint(3*i) || a.Header.Get("x-ms-blob-committed-block-count") != fmt.Sprint(i+1) {
			t.Errorf("the headers are %v", a.Header)
		}
	}
	s.fails(412, "AppendPositionConditionNotMet", "PUT", target, "x", "x-ms-blob-condition-appendpos", "5")
	s.fails(412, "MaxBlobSizeConditionNotMet", "PUT", target, "xx", "x-ms-blob-condition-maxsize", "7")
	snapshot := s.ok(201, "PUT", "one/a?comp=snapshot", "").Header.Get("x-ms-snapshot")
	s.ok(201, "PUT", target, "x", "x-ms-blob-condition-maxsize", "7", "x-ms-blob-condition-appendpos", "6")
	if got := s.content("one/a"); got != "onetwox" {
		t.Errorf("the content is %q", got)
	}
	if got := s.content("one/a?snapshot=" + snapshot); got != "onetwo" {
		t.Errorf("the content of the snapshot is %q", got)
	}
	s.fails(409, "InvalidBlobType", "PUT", "one/a?comp=block&blockid=AAAA", "x")
	s.ok(200, "PUT", "one/a?comp=seal", "")
	s.fails(409, "BlobIsSealed", "PUT", target, "x")
	s.checkReplay()
	s.put("one/b", "")
	s.fails(409, "InvalidBlobType", "PUT", "one/b?comp=appendblock", "x")
}

func TestSnapshots(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.put("one/a", "old", "x-ms-meta-k", "v")
	snapshot := s.ok(201, "PUT", "one/a?comp=snapshot", "").Header.Get("x-ms-snapshot")
	other := s.ok(201, "PUT", "one/a?comp=snapshot", "", "x-ms-meta-k", "w").Header.Get("x-ms-snapshot")
	s.put("one/a", "new")
	if got := s.content("one/a?snapshot=" + snapshot); got != "old" {
		t.Errorf("the snapshot has %q", got)
	}
	for name, want := range map[string]string{snapshot: "v", other: "w"} {
		if got := s.ok(200, "HEAD", "one/a?snapshot="+name, "").Header.Get("x-ms-meta-k"); got != want {
			t.Errorf("the metadata of the snapshot is %q, want %q", got, want)
		}
	}
	s.fails(400, "InvalidQueryParameterValue", "PUT", "one/a?comp=snapshot&snapshot="+snapshot, "")
	s.fails(400, "InvalidQueryParameterValue", "GET", "one/a?snapshot=today", "")
	list := string(s.ok(200, "GET", "one?restype=container&comp=list&include=snapshots", "").Body)
	if strings.Count(list, "<Blob>") != 3 || !strings.Contains(list, "<Snapshot>"+other+"</Snapshot>") {
		t.Errorf("the list is %s", list)
	}
	s.checkReplay()
	s.fails(409, "SnapshotsPresent", "DELETE", "one/a", "")
	s.ok(202, "DELETE", "one/a?snapshot="+snapshot, "")
	s.fails(404, "BlobNotFound", "GET", "one/a?snapshot="+snapshot, "")
	s.ok(202, "DELETE", "one/a", "", "x-ms-delete-snapshots", "only")
	s.fails(404, "BlobNotFound", "GET", "one/a?snapshot="+other, "")
	s.ok(201, "PUT", "one/a?comp=snapshot", "")
	s.ok(202, "DELETE", "one/a", "", "x-ms-delete-snapshots", "include")
	s.fails(404, "BlobNotFound", "GET", "one/a", "")
	if s.Service.container("kennel", "one").blobs.Size() != 0 {
		t.Error("something is left of a deleted blob")
	}
}

func TestBatch(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.put("one/a", "")
	s.put("one/b%20c", "")
	body := ""
	for i, name := range []string{"a", "b%20c", "gone"} {
		body += fmt.Sprintf("--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: %d\r\n\r\nDELETE /kennel/one/%s HTTP/1.1\r\nx-ms-date: now\r\nContent-Length: 0\r\n\r\n\r\n", i, name)
	}
	body += "--batch_1--\r\n"
	a := s.ok(202, "POST", "?comp=batch", body, "Content-Type", "multipart/mixed; boundary=batch_1")
	text := string(a.Body)
	if strings.Count(text, "HTTP/1.1 202 Accepted\r\n") != 2 || strings.Count(text, "HTTP/1.1 404 Not Found\r\n") != 1 || !strings.Contains(text, "Content-ID: 2\r\n") {
		t.Errorf("the answer is %s", text)
	}
	s.fails(404, "BlobNotFound", "GET", "one/b%20c", "")
	s.fails(400, "InvalidInput", "POST", "two?restype=container&comp=batch", body, "Content-Type", "multipart/mixed; boundary=batch_1")
	s.fails(400, "InvalidInput", "POST", "?comp=batch", strings.ReplaceAll(body, "DELETE", "GET"), "Content-Type", "multipart/mixed; boundary=batch_1")
	s.fails(400, "InvalidInput", "POST", "?comp=batch", "", "Content-Type", "multipart/mixed; boundary=batch_1")
	s.fails(400, "InvalidHeaderValue", "POST", "?comp=batch", body, "Content-Type", "text/plain")
}

func TestReset(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.put("one/a", "text")
	s.Reset()
	s.fails(404, "ContainerNotFound", "GET", "one/a", "")
	if got := replayed(t, s.records).image(); got != "" {
		t.Errorf("the log gives %s", got)
	}
}

// TestRepeatedBlocks makes small requests for content that no machine holds.
func TestRepeatedBlocks(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.ok(201, "PUT", "one/a?comp=block&blockid=AAAA", strings.Repeat("x", mib))
	list := func(blocks int) string {
		return "<BlockList>" + strings.Repeat("<Latest>AAAA</Latest>", blocks) + "</BlockList>"
	}
	s.ok(201, "PUT", "one/a?comp=blocklist", list(1))
	s.fails(413, "RequestBodyTooLarge", "PUT", "one/a?comp=blocklist", list(maxContent/mib+1))
	s.ok(201, "PUT", "one/a?comp=blocklist", list(maxContent/mib))
	s.ok(201, "PUT", "one/log", "", "x-ms-blob-type", "AppendBlob")
	s.ok(201, "PUT", "one/log?comp=appendblock", "x")
	s.fails(413, "RequestBodyTooLarge", "PUT", "one/log?comp=appendblock", "", "x-ms-copy-source", here+"one/a?sig=x")
	s.fails(413, "RequestBodyTooLarge", "PUT", "one/b?comp=block&blockid=AAAA", "", "x-ms-copy-source", here+"one/a?sig=x")
	log, _ := s.container("kennel", "one").blobs.Get("log")
	log.base.length = maxContent
	s.fails(413, "RequestBodyTooLarge", "PUT", "one/log?comp=appendblock", "x")
}
