package blob

import (
	"testing"

	"kennel/devstore/internal/rest"
)

const here = "http://127.0.0.1:10000/kennel/"

func TestCopy(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.fails(404, "BlobNotFound", "PUT", "one/b", "", "x-ms-copy-source", here+"one/a")
	etag := s.put("one/a", "text", "x-ms-blob-content-type", "text/plain", "x-ms-meta-k", "v")
	a := s.ok(202, "PUT", "one/b", "", "x-ms-copy-source", here+"one/a")
	if a.Header.Get("x-ms-copy-status") != "success" || a.Header.Get("x-ms-copy-id") == "" {
		t.Errorf("the headers are %v", a.Header)
	}
	got := s.ok(200, "GET", "one/b", "")
	for name, want := range map[string]string{
		"Content-Type": "text/plain", "x-ms-meta-k": "v", "x-ms-copy-id": a.Header.Get("x-ms-copy-id"), "x-ms-copy-progress": "4/4", "x-ms-copy-source": here + "one/a",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), want)
		}
	}
	s.ok(202, "PUT", "one/b", "", "x-ms-copy-source", "http://localhost:10000/kennel/one/a", "x-ms-meta-other", "w")
	if got = s.ok(200, "GET", "one/b", ""); got.Header.Get("x-ms-meta-k") != "" || string(got.Body) != "text" {
		t.Errorf("the copy is %+v", got)
	}
	s.fails(412, "SourceConditionNotMet", "PUT", "one/b", "", "x-ms-copy-source", here+"one/a", "x-ms-source-if-match", `"0x1"`)
	s.fails(412, "SourceConditionNotMet", "PUT", "one/b", "", "x-ms-copy-source", here+"one/a", "x-ms-source-if-none-match", etag)
	s.fails(304, "CannotVerifyCopySource", "PUT", "one/b", "", "x-ms-copy-source", here+"one/a?sig=x", "x-ms-blob-type", "BlockBlob", "x-ms-source-if-none-match", etag)
	s.fails(412, "ConditionNotMet", "PUT", "one/b", "", "x-ms-copy-source", here+"one/a", "If-Match", `"0x1"`)
	s.fails(409, "BlobAlreadyExists", "PUT", "one/b", "", "x-ms-copy-source", here+"one/a", "If-None-Match", "*")
	s.fails(501, "NotImplemented", "PUT", "one/b", "", "x-ms-copy-source", "http://storage.example/kennel/one/a")
	s.fails(400, "InvalidHeaderValue", "PUT", "one/b", "", "x-ms-copy-source", "one/a")
	s.fails(409, "NoPendingCopyOperation", "PUT", "one/b?comp=copy&copyid="+leaseA, "")
	s.fails(400, "InvalidQueryParameterValue", "PUT", "one/b?comp=copy&copyid=none", "")
	s.checkReplay()
}

func TestCopyNeedsASignature(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.put("one/a", "0123456789")
	s.ok(201, "PUT", "one/log", "", "x-ms-blob-type", "AppendBlob")
	sum := encode64(md5Of([]byte("0123456789")))
	for _, test := range []struct {
		status  int
		target  string
		headers []string
	}{
		{202, "one/b", []string{"x-ms-requires-sync", "true", "x-ms-source-content-md5", sum}},
		{201, "one/c", []string{"x-ms-blob-type", "BlockBlob", "x-ms-source-content-md5", sum}},
		{201, "one/d?comp=block&blockid=AAAA", []string{"x-ms-source-range", "bytes=0-9"}},
		{201, "one/log?comp=appendblock", []string{"x-ms-source-content-md5", sum}},
	} {
		s.fails(401, "CannotVerifyCopySource", "PUT", test.target, "", append(test.headers, "x-ms-copy-source", here+"one/a")...)
		s.fails(404, "CannotVerifyCopySource", "PUT", test.target, "", append(test.headers, "x-ms-copy-source", here+"one/none?sig=x")...)
		headers := append(test.headers, "x-ms-copy-source", here+"one/a?sig=x")
		s.ok(test.status, "PUT", test.target, "", headers...)
		s.fails(400, "Md5Mismatch", "PUT", test.target, "", append(headers, "x-ms-source-content-md5", encode64(md5Of(nil)))...)
	}
	s.ok(201, "PUT", "one/d?comp=blocklist", "<BlockList><Latest>AAAA</Latest></BlockList>")
	for _, name := range []string{"b", "c", "d", "log"} {
		if got := s.content("one/" + name); got != "0123456789" {
			t.Errorf("%s is %q", name, got)
		}
	}
	s.grant = &rest.Grant{Permissions: "w"}
	s.fails(401, "CannotVerifyCopySource", "PUT", "one/b", "", "x-ms-copy-source", here+"one/a")
	s.checkReplay()
}

// TestCopiesDoNotShareTheirEnd appends to a blob and to its copy, whose blocks
// are the same up to there.
func TestCopiesDoNotShareTheirEnd(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.ok(201, "PUT", "one/a", "", "x-ms-blob-type", "AppendBlob")
	for range 3 { // so that the list of blocks has room for one more
		s.ok(201, "PUT", "one/a?comp=appendblock", "x")
	}
	s.ok(202, "PUT", "one/b", "", "x-ms-copy-source", here+"one/a")
	s.ok(201, "PUT", "one/b?comp=appendblock", "b")
	s.ok(201, "PUT", "one/a?comp=appendblock", "a")
	if a, b := s.content("one/a"), s.content("one/b"); a != "xxxa" || b != "xxxb" {
		t.Errorf("the blobs are %q and %q", a, b)
	}
	s.fails(409, "InvalidBlobType", "PUT", "one/b", "", "x-ms-copy-source", here+"one/c", "x-none", s.put("one/c", ""))
	s.ok(200, "PUT", "one/a?comp=seal", "")
	s.ok(202, "PUT", "one/d", "", "x-ms-copy-source", here+"one/a")
	s.fails(409, "BlobIsSealed", "PUT", "one/d?comp=appendblock", "x")
	s.ok(202, "PUT", "one/d", "", "x-ms-copy-source", here+"one/a", "x-ms-seal-blob", "false")
	s.ok(201, "PUT", "one/d?comp=appendblock", "x")
	s.checkReplay()
}

// TestPartsOfBlobsInASnapshot keeps parts of a block that begin where the block
// does, and share its memory.
func TestPartsOfBlobsInASnapshot(t *testing.T) {
	for _, names := range [][2]string{{"a-whole", "part"}, {"whole", "a-part"}} { // a list has them in either order
		s := newStore(t)
		s.create("one")
		s.put("one/"+names[0], "0123456789")
		s.ok(201, "PUT", "one/"+names[1]+"?comp=block&blockid=AAAA", "", "x-ms-copy-source", here+"one/"+names[0]+"?sig=x", "x-ms-source-range", "bytes=0-3")
		s.ok(201, "PUT", "one/"+names[1]+"?comp=blocklist", "<BlockList><Latest>AAAA</Latest></BlockList>")
		s.checkReplay()
	}
}
