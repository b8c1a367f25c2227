package blob

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// A page is what callers read of a list of blobs.
type page struct {
	Blobs struct {
		Blob []struct {
			Name     string
			Snapshot string
		}
		BlobPrefix []struct{ Name string }
	}
	NextMarker string
}

// list reads all pages of a list and returns names and prefixes.
func (s *store) list(query string, max int) (names, prefixes []string) {
	s.t.Helper()
	marker := ""
	for {
		target := fmt.Sprintf("one?restype=container&comp=list&maxresults=%d&marker=%s&%s", max, url.QueryEscape(marker), query)
		var p page
		if err := xml.Unmarshal(s.ok(200, "GET", target, "").Body, &p); err != nil {
			s.t.Fatal(err)
		}
		n := len(p.Blobs.Blob) + len(p.Blobs.BlobPrefix)
		if n > max || n < max && p.NextMarker != "" {
			s.t.Fatalf("a page has %d items of %d, and continues with %q", n, max, p.NextMarker)
		}
		for _, b := range p.Blobs.Blob {
			names = append(names, b.Name)
			if b.Snapshot != "" {
				names[len(names)-1] += "@" + b.Snapshot
			}
		}
		for _, b := range p.Blobs.BlobPrefix {
			prefixes = append(prefixes, b.Name)
		}
		if marker = p.NextMarker; marker == "" {
			return names, prefixes
		}
	}
}

// TestLists compares lists of all kinds with what plain code finds.
func TestLists(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStore(t)
	s.create("one")
	var names []string
	snapshots := make(map[string][]string)
	for range 60 {
		name := ""
		for range 1 + random.IntN(5) {
			name += string("ab/-é"[random.IntN(4)])
		}
		if slices.Contains(names, name) || strings.HasPrefix(name, "/") {
			continue
		}
		names = append(names, name)
		s.put("one/"+url.PathEscape(name), "x")
		for range random.IntN(3) {
			snapshots[name] = append(snapshots[name], s.ok(201, "PUT", "one/"+url.PathEscape(name)+"?comp=snapshot", "").Header.Get("x-ms-snapshot"))
		}
	}
	s.ok(201, "PUT", "one/aa%2Fstaged?comp=block&blockid=AAAA", "x")
	slices.Sort(names)
	for range 200 {
		prefix := strings.Repeat("a", random.IntN(3)) + []string{"", "/", "b"}[random.IntN(3)]
		delimiter := []string{"", "/", "a", "ab"}[random.IntN(4)]
		withSnapshots := delimiter == "" && random.IntN(2) == 0
		withStaged := random.IntN(2) == 0
		all := slices.Clone(names)
		if withStaged {
			all = append(all, "aa/staged")
			slices.Sort(all)
		}
		var wantNames, wantPrefixes []string
		for _, name := range all {
			rest, found := strings.CutPrefix(name, prefix)
			if !found {
				continue
			}
			if before, _, found := strings.Cut(rest, delimiter); found && delimiter != "" {
				if group := prefix + before + delimiter; !slices.Contains(wantPrefixes, group) {
					wantPrefixes = append(wantPrefixes, group)
				}
				continue
			}
			if withSnapshots {
				for _, one := range snapshots[name] {
					wantNames = append(wantNames, name+"@"+one)
				}
			}
			wantNames = append(wantNames, name)
		}
		query := url.Values{"prefix": {prefix}, "delimiter": {delimiter}}
		if withSnapshots {
			query.Add("include", "snapshots")
		}
		if withStaged {
			query.Add("include", "uncommittedblobs,metadata")
		}
		gotNames, gotPrefixes := s.list(query.Encode(), 1+random.IntN(9))
		if !slices.Equal(gotNames, wantNames) || !slices.Equal(gotPrefixes, wantPrefixes) {
			t.Fatalf("%s gives %q and %q, want %q and %q", query.Encode(), gotNames, gotPrefixes, wantNames, wantPrefixes)
		}
	}
	s.fails(400, "InvalidQueryParameterValue", "GET", "one?restype=container&comp=list&delimiter=/&include=snapshots", "")
	s.fails(400, "InvalidQueryParameterValue", "GET", "one?restype=container&comp=list&include=everything", "")
	s.fails(404, "ContainerNotFound", "GET", "two?restype=container&comp=list", "")
}

// TestNamesThatXMLCannotHold lists names that have to be encoded.
func TestNamesThatXMLCannotHold(t *testing.T) {
	s := newStore(t)
	s.create("one")
	s.put("one/dir%2F%EF%BF%BF+%01", "")
	s.put("one/%3Cplain%3E&", "")
	text := string(s.ok(200, "GET", "one?restype=container&comp=list", "").Body)
	for _, want := range []string{`<Name Encoded="true">dir%2F%EF%BF%BF%2B%01</Name>`, `<Name>&lt;plain&gt;&amp;</Name>`} {
		if !strings.Contains(text, want) {
			t.Errorf("the list has no %s: %s", want, text)
		}
	}
}
