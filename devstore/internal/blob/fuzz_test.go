package blob

import (
	"bytes"
	"slices"
	"testing"
)

func FuzzBlockList(f *testing.F) {
	f.Add([]byte("<BlockList><Latest>AAAA</Latest><Committed>BBBB</Committed></BlockList>"))
	f.Add([]byte(`<?xml version="1.0"?><BlockList/>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := parseBlockList(body)
		if err == nil && len(list) > len(body) {
			t.Error("the list is longer than its text")
		}
	})
}

func FuzzPolicies(f *testing.F) {
	f.Add([]byte("<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>2026-11-27</Start></AccessPolicy></SignedIdentifier></SignedIdentifiers>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		policies, err := parsePolicies(body)
		if err != nil {
			return
		}
		again, err := parsePolicies(writePolicies(policies))
		if err != nil || len(again) != len(policies) {
			t.Errorf("%+v is read again as %+v, %v", policies, again, err)
		}
	})
}

func FuzzBatch(f *testing.F) {
	f.Add("multipart/mixed; boundary=b", []byte("--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nDELETE /kennel/one/a HTTP/1.1\r\n\r\n\r\n--b--\r\n"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		all, err := parseBatch(contentType, body)
		if err == nil && (len(all) == 0 || len(all) > maxBatch) {
			t.Errorf("a batch has %d requests", len(all))
		}
	})
}

func FuzzMarker(f *testing.F) {
	f.Add(writeMarker("a/b", whole))
	f.Fuzz(func(t *testing.T, text string) {
		name, snapshot, err := parseMarker(text)
		if err != nil || text == "" {
			return
		}
		if again, _, err := parseMarker(writeMarker(name, snapshot)); err != nil || again != name {
			t.Errorf("%q is read again as %q, %v", name, again, err)
		}
	})
}

// FuzzRecord applies records of all kinds that were damaged. The store must not
// panic then, nor when it emits what it has.
func FuzzRecord(f *testing.F) {
	s := newStore(&testing.T{})
	s.create("one")
	s.put("one/a", "text", "x-ms-meta-k", "v")
	s.ok(201, "PUT", "one/a?comp=snapshot", "")
	s.ok(201, "PUT", "one/a?comp=block&blockid=AAAA", "block")
	s.ok(202, "PUT", "one/b", "", "x-ms-copy-source", here+"one/a")
	s.ok(201, "PUT", "one/a?comp=blocklist", "<BlockList><Latest>AAAA</Latest></BlockList>")
	s.acquire("one/a?comp=lease", leaseA, "60")
	s.ok(201, "PUT", "one/c", "", "x-ms-blob-type", "AppendBlob")
	s.ok(201, "PUT", "one/c?comp=appendblock", "x")
	s.ok(202, "DELETE", "one/b", "")
	records := slices.Clone(s.records)
	if err := s.Snapshot(func(record []byte) error { records = append(records, slices.Clone(record)); return nil }); err != nil {
		f.Fatal(err)
	}
	for i, record := range records {
		f.Add(i, record)
	}
	f.Fuzz(func(t *testing.T, after int, record []byte) {
		s := newStore(t)
		for i, one := range records {
			if i == after {
				_ = s.Apply(bytes.Clone(record))
			}
			_ = s.Apply(one)
		}
		_ = s.Snapshot(func([]byte) error { return nil })
	})
}
