package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kennel/devstore/internal/rest"
)

func TestCreate(t *testing.T) {
	c := newClient(t, 0)
	c.ok(201, "PUT", "jobs", "", "X-Ms-Meta-Color", "Blue", "X-Ms-Meta-a_1", "")
	c.ok(204, "PUT", "jobs", "", "x-ms-meta-a_1", "", "x-ms-meta-color", "Blue")
	c.refused(409, "QueueAlreadyExists", "PUT", "jobs", "", "x-ms-meta-color", "blue", "x-ms-meta-a_1", "")
	c.refused(409, "QueueAlreadyExists", "PUT", "jobs", "")
	c.put("a", "")
	c.ok(204, "DELETE", "jobs", "")
	c.refused(404, "QueueNotFound", "DELETE", "jobs", "")
	c.ok(201, "PUT", "jobs", "")
	c.wantCount("0")
}

func TestMetadata(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	c.ok(204, "PUT", "jobs?comp=metadata", "", "x-ms-meta-one", "1", "x-ms-meta-two", "a b")
	answer := c.ok(200, "HEAD", "jobs?comp=metadata", "")
	want(t, "one", answer.Header.Get("x-ms-meta-one"), "1")
	want(t, "two", answer.Header.Get("x-ms-meta-two"), "a b")
	for _, again := range []*client{c.reopened(), c.copied()} {
		want(t, "one after a restart", again.ok(200, "GET", "jobs?comp=metadata", "").Header.Get("x-ms-meta-one"), "1")
	}
	c.ok(204, "PUT", "jobs?comp=metadata", "")
	if answer := c.ok(200, "GET", "jobs?comp=metadata", ""); len(answer.Header) != 1 {
		t.Errorf("headers = %v, want the count only", answer.Header)
	}
	c.refused(400, "InvalidMetadata", "PUT", "jobs?comp=metadata", "", "x-ms-meta-1a", "1")
	c.refused(400, "InvalidMetadata", "PUT", "jobs?comp=metadata", "", "x-ms-meta-a-b", "1")
	c.refused(400, "EmptyMetadataKey", "PUT", "jobs?comp=metadata", "", "x-ms-meta-", "1")
	c.refused(400, "MetadataTooLarge", "PUT", "new", "", "x-ms-meta-a", strings.Repeat("a", maxMetadata))
	c.refused(404, "QueueNotFound", "GET", "new?comp=metadata", "")
}

func TestNames(t *testing.T) {
	c := newClient(t, 0)
	for _, name := range []string{"abc", "a-b", "0-0", strings.Repeat("a", 63)} {
		c.ok(201, "PUT", name, "")
	}
	for _, name := range []string{"Abc", "a--b", "-ab", "ab-", "a_b", "%7Bqueue%7D", "a.b", "äöü"} {
		c.refused(400, "InvalidResourceName", "PUT", name, "")
	}
	for _, name := range []string{"ab", "a", strings.Repeat("a", 64)} {
		c.refused(400, "OutOfRangeInput", "PUT", name, "")
	}
	c.refused(400, "InvalidUri", "GET", "abc/other", "")
	c.refused(400, "InvalidUri", "GET", "abc/messages/1/2", "")
	c.refused(405, "UnsupportedHttpVerb", "GET", "abc", "")
	c.refused(400, "InvalidQueryParameterValue", "GET", "", "")
	c.refused(400, "InvalidQueryParameterValue", "GET", "abc?comp=lease", "")
	c.refused(405, "UnsupportedHttpVerb", "PUT", "abc/messages", "")
	c.refused(405, "UnsupportedHttpVerb", "POST", "abc", "")
}

func TestOperationsThatAreNotImitated(t *testing.T) {
	c := newClient(t, 0)
	for name, r := range map[string]*rest.Request{
		"Get User Delegation Key": request("POST", "?restype=service&comp=userdelegationkey"),
	} {
		if o, err := c.s.Route(r); err != nil || o.Name != name || o.Run != nil {
			t.Errorf("route of %s = %+v, %v", name, o, err)
		}
	}
}

func TestList(t *testing.T) {
	c := newClient(t, 0)
	want(t, "the empty list", string(c.ok(200, "GET", "?comp=list", "").Body),
		`<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://127.0.0.1:10001/dev"><Queues></Queues><NextMarker /></EnumerationResults>`)
	for _, name := range []string{"job-c", "job-a", "job-b", "aaa", "zzz"} {
		c.ok(201, "PUT", name, "", "x-ms-meta-name", name+"<")
	}
	want(t, "first page", string(c.ok(200, "GET", "?comp=list&prefix=job-&maxresults=2&include=metadata", "").Body),
		`<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://127.0.0.1:10001/dev"><Prefix>job-</Prefix><MaxResults>2</MaxResults>`+
			`<Queues><Queue><Name>job-a</Name><Metadata><name>job-a&lt;</name></Metadata></Queue><Queue><Name>job-b</Name><Metadata><name>job-b&lt;</name></Metadata></Queue></Queues>`+
			`<NextMarker>/dev/job-c</NextMarker></EnumerationResults>`)
	want(t, "last page", string(c.ok(200, "GET", "?comp=list&prefix=job-&maxresults=2&marker=/dev/job-c", "").Body),
		`<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://127.0.0.1:10001/dev"><Prefix>job-</Prefix><Marker>/dev/job-c</Marker><MaxResults>2</MaxResults>`+
			`<Queues><Queue><Name>job-c</Name></Queue></Queues><NextMarker /></EnumerationResults>`)
	c.ok(204, "DELETE", "job-c", "")
	c.ok(200, "GET", "?comp=list&maxresults=6000", "")
	if got := string(c.ok(200, "GET", "?comp=list&marker=/dev/job-c", "").Body); !strings.Contains(got, "<Queue><Name>zzz</Name></Queue></Queues><NextMarker />") || strings.Contains(got, "<Name>job") {
		t.Errorf("page from a deleted queue = %s", got)
	}
	c.refused(400, "OutOfRangeQueryParameterValue", "GET", "?comp=list&maxresults=0", "")
	c.refused(400, "InvalidQueryParameterValue", "GET", "?comp=list&maxresults=x", "")
	c.refused(400, "InvalidQueryParameterValue", "GET", "?comp=list&include=messages", "")
	c.refused(400, "InvalidMarker", "GET", "?comp=list&marker=job-c", "")
}

func TestPolicies(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	policy := func(id, inner string) string {
		return "<SignedIdentifier><Id>" + id + "</Id><AccessPolicy>" + inner + "</AccessPolicy></SignedIdentifier>"
	}
	set := func(inner string) string { return "<SignedIdentifiers>" + inner + "</SignedIdentifiers>" }
	c.ok(204, "PUT", "jobs?comp=acl", set(policy("one", "<Start>2026-01-01T00:00:00.0000000Z</Start><Expiry>2026-12-31</Expiry><Permission>pur</Permission>")+policy("two", "")))
	want(t, "ACL", string(c.ok(200, "GET", "jobs?comp=acl", "").Body), `<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers>`+
		`<SignedIdentifier><Id>one</Id><AccessPolicy><Start>2026-01-01T00:00:00.0000000Z</Start><Expiry>2026-12-31</Expiry><Permission>rup</Permission></AccessPolicy></SignedIdentifier>`+
		`<SignedIdentifier><Id>two</Id><AccessPolicy></AccessPolicy></SignedIdentifier></SignedIdentifiers>`)
	if head, get := c.ok(200, "HEAD", "jobs?comp=acl", ""), c.ok(200, "GET", "jobs?comp=acl", ""); len(head.Body) != 0 || head.Length != int64(len(get.Body)) {
		t.Errorf("HEAD has a body of %d bytes and a length of %d, want 0 and %d", len(head.Body), head.Length, len(get.Body))
	}
	for _, c := range []*client{c, c.reopened(), c.copied()} {
		if p, ok := c.s.Policy("dev", "jobs", "one"); !ok || p.Permission != "rup" || p.Expiry != "2026-12-31" {
			t.Errorf("Policy = %+v, %v", p, ok)
		}
		for _, key := range [][3]string{{"dev", "jobs", "three"}, {"dev", "other", "one"}, {"other", "jobs", "one"}} {
			if p, ok := c.s.Policy(key[0], key[1], key[2]); ok {
				t.Errorf("Policy of %q = %+v", key, p)
			}
		}
	}
	for _, body := range []string{
		set(strings.Repeat(policy("one", ""), 2)), set(policy("a", "") + policy("b", "") + policy("c", "") + policy("d", "") + policy("e", "") + policy("f", "")),
		set(policy(strings.Repeat("a", 65), "")), set(policy("", "")), set(policy("a", "<Permission>rx</Permission>")), set(policy("a", "<Start>today</Start>")), "<Other/>", "<SignedIdentifiers>",
	} {
		c.refused(400, "InvalidXmlDocument", "PUT", "jobs?comp=acl", body)
	}
	c.ok(204, "PUT", "jobs?comp=acl", "")
	if _, ok := c.s.Policy("dev", "jobs", "one"); ok {
		t.Error("an empty body kept the policies")
	}
	c.refused(404, "QueueNotFound", "GET", "other?comp=acl", "")
}

func TestLog(t *testing.T) {
	c := newClient(t, 7)
	c.ok(202, "PUT", "?restype=service&comp=properties", "<StorageServiceProperties><Cors/></StorageServiceProperties>")
	c.create()
	start, given := c.now, make(map[string]bool)
	for i := range 50 {
		given[c.put(fmt.Sprint(i), "messagettl=3600").PopReceipt] = true
	}
	received := c.receive("numofmessages=10&visibilitytimeout=5")
	updated := c.update(received[0], "visibilitytimeout=1", body("new"))
	kept := c.update(received[1], "visibilitytimeout=1", "")
	c.ok(204, "DELETE", received[2].path("jobs"), "")
	c.ok(201, "PUT", "gone", "")
	c.ok(204, "DELETE", "gone", "")
	c.wait(time.Minute)
	for name, again := range map[string]*client{"log": c.reopened(), "snapshot": c.copied()} {
		again.wantCount("49")
		again.refused(404, "QueueNotFound", "GET", "gone?comp=metadata", "")
		if got, want := fmt.Sprint(again.peek("numofmessages=32")), fmt.Sprint(c.peek("numofmessages=32")); got != want {
			t.Errorf("%s: messages = %s\nwant %s", name, got, want)
		}
		again.ok(204, "DELETE", updated.path("jobs"), "")
		again.ok(204, "DELETE", kept.path("jobs"), "")
		again.refused(404, "MessageNotFound", "DELETE", received[1].path("jobs"), "")

		// The clock was set back before the restart: receipts are new nevertheless.
		again.now = start
		for _, m := range again.receive("numofmessages=32") {
			if given[m.PopReceipt] {
				t.Errorf("%s: a receipt came twice", name)
			}
		}
	}
	c.ok(204, "DELETE", "jobs/messages", "")
	c.reopened().wantCount("0")
	c.s.Reset()
	c.reopened().refused(404, "QueueNotFound", "GET", "jobs?comp=metadata", "")
	n := 0
	_ = c.s.Snapshot(func([]byte) error { n++; return nil })
	if n != 1 { // the time that does not repeat
		t.Errorf("after Reset the snapshot has %d records", n)
	}
}

func TestSnapshotLeavesOutWhatExpired(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	c.put("a", "messagettl=1")
	c.wait(time.Minute)
	c.ok(201, "PUT", "other", "")
	c.refused(404, "QueueNotFound", "GET", "none?comp=metadata", "")
	n := 0
	if err := c.s.Snapshot(func([]byte) error { n++; return nil }); err != nil || n != 3 {
		t.Errorf("snapshot has %d records, want those of the two queues and of the last time; %v", n, err)
	}
}

func TestApplyRefuses(t *testing.T) {
	s := New(rest.Memory{}, 0)
	for _, record := range [][]byte{nil, {1}, {2, 'q'}, {1, 'x', 0, 0}, encode(recordMessage, "dev", "jobs"), append(encode(recordQueue, "dev", "jobs"), 2), encode(recordProperties)} {
		if err := s.Apply(record); err == nil {
			t.Errorf("record %q was accepted", record)
		}
	}
}
