package blob

import (
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kennel/devstore/internal/rest"
)

// TestConcurrentWriters has many callers count in one blob with If-Match, append
// to another and read lists. No count may be lost.
func TestConcurrentWriters(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.put("one/count", "0")
	s.ok(201, "PUT", "one/log", "", "x-ms-blob-type", "AppendBlob")
	const writers, turns = 8, 25
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for done := 0; done < turns; {
				old := s.try("GET", "one/count", "")
				n, _ := strconv.Atoi(string(old.Body))
				a := s.try("PUT", "one/count", fmt.Sprint(n+1), "x-ms-blob-type", "BlockBlob", "If-Match", old.Header.Get("ETag"))
				switch a.Status {
				case 201:
					done++
				case 412:
				default:
					t.Errorf("the answer is %d", a.Status)
					return
				}
				s.try("PUT", "one/log?comp=appendblock", "x")
				s.try("GET", "one?restype=container&comp=list", "")
			}
		})
	}
	group.Wait()
	if got := s.content("one/count"); got != fmt.Sprint(writers*turns) {
		t.Errorf("the count is %s, want %d", got, writers*turns)
	}
	if log := s.content("one/log"); len(log) < writers*turns || strings.Trim(log, "x") != "" {
		t.Errorf("the log has %d bytes", len(log))
	}
	s.checkReplay()
}

// try runs a call that may fail. Goroutines may use it.
func (s *store) try(method, target, body string, headers ...string) *rest.Answer {
	r := httptest.NewRequest(method, "http://127.0.0.1:10000/kennel/"+target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.serve(r, []byte(body), nil)
}

// BenchmarkReplace measures a conditional write of 1 KiB without a log.
func BenchmarkReplace(b *testing.B) {
	s := &store{t: &testing.T{}}
	s.Service = New(rest.Memory{}, 0)
	s.try("PUT", "one?restype=container", "")
	body := strings.Repeat("x", 1<<10)
	etag := s.try("PUT", "one/a", body, "x-ms-blob-type", "BlockBlob").Header.Get("ETag")
	for b.Loop() {
		a := s.try("PUT", "one/a", body, "x-ms-blob-type", "BlockBlob", "If-Match", etag)
		if etag = a.Header.Get("ETag"); a.Status != 201 {
			b.Fatal(a.Status)
		}
	}
}

// BenchmarkList measures a page of 5000 blobs.
func BenchmarkList(b *testing.B) {
	s := &store{t: &testing.T{}}
	s.Service = New(rest.Memory{}, 0)
	s.try("PUT", "one?restype=container", "")
	for i := range 20_000 {
		s.try("PUT", fmt.Sprintf("one/%06d", i*7919%20_000), "x", "x-ms-blob-type", "BlockBlob")
	}
	for b.Loop() {
		if a := s.try("GET", "one?restype=container&comp=list&prefix=01", ""); a.Status != 200 {
			b.Fatal(a.Status)
		}
	}
}
