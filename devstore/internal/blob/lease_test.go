package blob

import (
	"net/http"
	"testing"
	"time"
)

const (
	leaseA = "11111111-1111-1111-1111-111111111111"
	leaseB = "22222222-2222-2222-2222-222222222222"
)

// leaseStates brings a lease with the ID A into each state.
var leaseStates = []struct {
	name  string
	enter func(s *store, target string)
}{
	{available, func(*store, string) {}},
	{leased, func(s *store, target string) { s.acquire(target, leaseA, "60") }},
	{breaking, func(s *store, target string) {
		s.acquire(target, leaseA, "60")
		s.ok(202, "PUT", target, "", "x-ms-lease-action", "break", "x-ms-lease-break-period", "20")
	}},
	{broken, func(s *store, target string) {
		s.acquire(target, leaseA, "60")
		s.ok(202, "PUT", target, "", "x-ms-lease-action", "break", "x-ms-lease-break-period", "0")
	}},
	{expired, func(s *store, target string) {
		s.acquire(target, leaseA, "15")
		s.now = s.now.Add(15 * time.Second)
	}},
}

func (s *store) acquire(target, id, seconds string) {
	s.t.Helper()
	a := s.ok(201, "PUT", target, "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", seconds, "x-ms-proposed-lease-id", id)
	if got := a.Header.Get("x-ms-lease-id"); got != id {
		s.t.Fatalf("the lease is %q, want %q", got, id)
	}
}

// TestLeaseActions holds Microsoft's table of outcomes of lease operations.
func TestLeaseActions(t *testing.T) {
	const (
		mismatch = "LeaseIdMismatchWithLeaseOperation"
		absent   = "LeaseNotPresentWithLeaseOperation"
	)
	actions := []struct {
		name    string
		headers []string
		status  int
		codes   [5]string // by the order of leaseStates, "" for success
		after   [5]string // the state
	}{
		{"acquire A", []string{"x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1", "x-ms-proposed-lease-id", leaseA}, 201,
			[5]string{"", "", "LeaseIsBreakingAndCannotBeAcquired", "", ""}, [5]string{leased, leased, breaking, leased, leased}},
		{"acquire B", []string{"x-ms-lease-action", "acquire", "x-ms-lease-duration", "15", "x-ms-proposed-lease-id", leaseB}, 201,
			[5]string{"", "LeaseAlreadyPresent", "LeaseAlreadyPresent", "", ""}, [5]string{leased, leased, breaking, leased, leased}},
		{"renew A", []string{"x-ms-lease-action", "renew", "x-ms-lease-id", leaseA}, 200,
			[5]string{mismatch, "", "LeaseIsBrokenAndCannotBeRenewed", "LeaseIsBrokenAndCannotBeRenewed", ""}, [5]string{available, leased, breaking, broken, leased}},
		{"renew B", []string{"x-ms-lease-action", "renew", "x-ms-lease-id", leaseB}, 200,
			[5]string{mismatch, mismatch, mismatch, mismatch, mismatch}, [5]string{available, leased, breaking, broken, expired}},
		{"change A to B", []string{"x-ms-lease-action", "change", "x-ms-lease-id", leaseA, "x-ms-proposed-lease-id", leaseB}, 200,
			[5]string{absent, "", "LeaseIsBreakingAndCannotBeChanged", absent, absent}, [5]string{available, leased, breaking, broken, expired}},
		{"change B to A", []string{"x-ms-lease-action", "change", "x-ms-lease-id", leaseB, "x-ms-proposed-lease-id", leaseA}, 200,
			[5]string{absent, "", "LeaseIsBreakingAndCannotBeChanged", absent, absent}, [5]string{available, leased, breaking, broken, expired}},
		{"release A", []string{"x-ms-lease-action", "release", "x-ms-lease-id", leaseA}, 200,
			[5]string{mismatch, "", "", "", ""}, [5]string{available, available, available, available, available}},
		{"release B", []string{"x-ms-lease-action", "release", "x-ms-lease-id", leaseB}, 200,
			[5]string{mismatch, mismatch, mismatch, mismatch, mismatch}, [5]string{available, leased, breaking, broken, expired}},
		{"break", []string{"x-ms-lease-action", "break"}, 202,
			[5]string{absent, "", "", "", ""}, [5]string{available, breaking, breaking, broken, broken}},
		{"break at once", []string{"x-ms-lease-action", "break", "x-ms-lease-break-period", "0"}, 202,
			[5]string{absent, "", "", "", ""}, [5]string{available, broken, broken, broken, broken}},
	}
	for _, subject := range []string{"one?restype=container", "one/a?x=y"} {
		for _, action := range actions {
			for i, state := range leaseStates {
				t.Run(subject+"/"+action.name+"/"+state.name, func(t *testing.T) {
					s := newStore(t)
					s.create("one")
					s.put("one/a", "")
					target := subject + "&comp=lease"
					before := s.call("HEAD", subject, "").Header.Get("ETag")
					state.enter(s, target)
					if status := action.status; action.codes[i] == "" {
						s.ok(status, "PUT", target, "", action.headers...)
					} else {
						s.fails(409, action.codes[i], "PUT", target, "", action.headers...)
					}
					a := s.ok(200, "HEAD", subject, "")
					if got := a.Header.Get("x-ms-lease-state"); got != action.after[i] {
						t.Errorf("the state is %q, want %q", got, action.after[i])
					}
					if a.Header.Get("ETag") != before {
						t.Error("the ETag changed")
					}
					s.checkReplay()
				})
			}
		}
	}
}

// TestLeaseUses holds what a lease does to writes, deletions and reads.
func TestLeaseUses(t *testing.T) {
	uses := []struct {
		name, method, target string
		id                   string
		status               int
		codes                [5]string
	}{
		{"write", "PUT", "one/a", "", 201, [5]string{"", "LeaseIdMissing", "LeaseIdMissing", "", ""}},
		{"write with A", "PUT", "one/a", leaseA, 201, [5]string{"LeaseNotPresentWithBlobOperation", "", "", "LeaseLost", "LeaseLost"}},
		{"write with B", "PUT", "one/a", leaseB, 201, [5]string{"LeaseNotPresentWithBlobOperation", "LeaseIdMismatchWithBlobOperation", "LeaseIdMismatchWithBlobOperation", "LeaseIdMismatchWithBlobOperation", "LeaseIdMismatchWithBlobOperation"}},
		{"read", "GET", "one/a", "", 200, [5]string{}},
		{"read with A", "GET", "one/a", leaseA, 200, [5]string{"LeaseNotPresentWithBlobOperation", "", "", "LeaseLost", "LeaseLost"}},
		{"delete", "DELETE", "one/a", "", 202, [5]string{"", "LeaseIdMissing", "LeaseIdMissing", "", ""}},
		{"delete with A", "DELETE", "one/a", leaseA, 202, [5]string{"LeaseNotPresentWithBlobOperation", "", "", "LeaseLost", "LeaseLost"}},
		{"block", "PUT", "one/a?comp=block&blockid=AAAA", "", 201, [5]string{"", "LeaseIdMissing", "LeaseIdMissing", "", ""}},
		{"metadata", "PUT", "one/a?comp=metadata", leaseB, 200, [5]string{"LeaseNotPresentWithBlobOperation", "LeaseIdMismatchWithBlobOperation", "LeaseIdMismatchWithBlobOperation", "LeaseIdMismatchWithBlobOperation", "LeaseIdMismatchWithBlobOperation"}},
	}
	for _, use := range uses {
		for i, state := range leaseStates {
			t.Run(use.name+"/"+state.name, func(t *testing.T) {
				s := newStore(t)
				s.create("one")
				s.put("one/a", "")
				state.enter(s, "one/a?comp=lease")
				var headers []string
				body := ""
				switch {
				case use.name == "block":
					body = "x"
				case use.method == http.MethodPut && use.target == "one/a":
					headers = append(headers, "x-ms-blob-type", "BlockBlob")
				}
				if use.id != "" {
					headers = append(headers, "x-ms-lease-id", use.id)
				}
				a := s.call(use.method, use.target, body, headers...)
				if use.codes[i] != "" {
					s.want(a, 412, use.codes[i])
					return
				}
				s.want(a, use.status, "")
				if use.name == "write" && (state.name == expired || state.name == broken) {
					s.fails(409, "LeaseIdMismatchWithLeaseOperation", "PUT", "one/a?comp=lease", "", "x-ms-lease-action", "renew", "x-ms-lease-id", leaseA)
				}
				s.checkReplay()
			})
		}
	}
}

func TestLeaseLimits(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.put("one/a", "")
	const target = "one/a?comp=lease"
	for _, seconds := range []string{"0", "14", "61", "-2", "x"} {
		s.fails(400, "InvalidHeaderValue", "PUT", target, "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", seconds)
	}
	s.fails(400, "MissingRequiredHeader", "PUT", target, "", "x-ms-lease-action", "acquire")
	s.fails(400, "MissingRequiredHeader", "PUT", target, "")
	s.fails(400, "MissingRequiredHeader", "PUT", target, "", "x-ms-lease-action", "renew")
	s.fails(400, "InvalidHeaderValue", "PUT", target, "", "x-ms-lease-action", "steal")
	s.fails(400, "InvalidHeaderValue", "PUT", target, "", "x-ms-lease-action", "break", "x-ms-lease-break-period", "61")
	s.fails(404, "BlobNotFound", "PUT", "one/b?comp=lease", "", "x-ms-lease-action", "break")
	id := s.ok(201, "PUT", target, "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "30").Header.Get("x-ms-lease-id")
	if _, err := parseID("", id); err != nil {
		t.Errorf("the ID %q is no GUID", id)
	}
	s.now = s.now.Add(29 * time.Second)
	s.ok(200, "PUT", target, "", "x-ms-lease-action", "renew", "x-ms-lease-id", "{"+id+"}")
	s.now = s.now.Add(29 * time.Second)
	if a := s.ok(202, "PUT", target, "", "x-ms-lease-action", "break", "x-ms-lease-break-period", "60"); a.Header.Get("x-ms-lease-time") != "1" {
		t.Errorf("the lease lasts for %s s, want 1", a.Header.Get("x-ms-lease-time"))
	}
	s.ok(200, "PUT", target, "", "x-ms-lease-action", "release", "x-ms-lease-id", id)
	s.acquire(target, leaseA, "-1")
	if a := s.ok(202, "PUT", target, "", "x-ms-lease-action", "break", "x-ms-lease-break-period", "60"); a.Header.Get("x-ms-lease-time") != "60" {
		t.Errorf("the lease lasts for %s s, want 60", a.Header.Get("x-ms-lease-time"))
	}
	if a := s.ok(202, "PUT", target, "", "x-ms-lease-action", "break"); a.Header.Get("x-ms-lease-time") != "60" {
		t.Errorf("the lease lasts for %s s, want 60", a.Header.Get("x-ms-lease-time"))
	}
}
