package table

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"kennel/devstore/internal/rest"
)

// A recorder is a log in memory.
type recorder struct {
	mu      sync.Mutex
	records [][]byte
}

func (r *recorder) Append(record []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, slices.Clone(record))
}

func (r *recorder) emit(record []byte) error {
	r.Append(record)
	return nil
}

func rebuild(t *testing.T, records [][]byte) *account {
	t.Helper()
	a := newAccount(t)
	for _, record := range records {
		if err := a.service.Apply(record); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// state returns all that a service would answer.
func (a *account) state() string {
	var b bytes.Buffer
	for _, path := range []string{"Tables", "blogs()", "other()", "blogs?comp=acl", "?restype=service&comp=properties"} {
		fmt.Fprintf(&b, "%s\n", a.do("GET", path, "").Body)
	}
	return b.String()
}

func TestLog(t *testing.T) {
	log := &recorder{}
	a := newAccount(t)
	a.service = New(log, 0)
	a.create("gone")
	a.must(204, "", a.do("DELETE", "Tables('gone')", ""))
	a.create("blogs")
	a.create("Other")
	a.must(201, "", a.do("POST", "blogs", allTypes))
	for i := range 300 {
		a.put(fmt.Sprint("p", i%7), fmt.Sprintf("%04d", i), fmt.Sprintf(`"N":%d,"Own%d":"x"`, i, i))
	}
	a.batch(insertion("one"), insertion("two"))
	a.must(204, "", a.do("DELETE", "blogs(PartitionKey='p1',RowKey='0001')", "", "If-Match", "*"))
	a.must(204, "", a.do("PUT", "blogs?comp=acl", "<SignedIdentifiers><SignedIdentifier><Id>one</Id></SignedIdentifier></SignedIdentifiers>"))
	a.must(202, "", a.do("PUT", "?restype=service&comp=properties", "<StorageServiceProperties><HourMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics></StorageServiceProperties>"))
	want := a.state()

	if got := rebuild(t, log.records).state(); got != want {
		t.Errorf("the log became\n%s, want\n%s", got, want)
	}
	snapshot := &recorder{}
	if err := a.service.Snapshot(snapshot.emit); err != nil {
		t.Fatal(err)
	}
	b := rebuild(t, snapshot.records)
	if got := b.state(); got != want {
		t.Errorf("the snapshot became\n%s, want\n%s", got, want)
	}

	// The last row is deleted, and the clock was set back.
	last := a.put("p", "last", "").Header.Get("ETag")
	b = rebuild(t, log.records)
	b.now = b.now.Add(-time.Hour)
	before, _ := parseETag(last)
	if after, _ := parseETag(b.put("p", "last", "").Header.Get("ETag")); after <= before {
		t.Errorf("the version went from %s to %s", timeOf(before), timeOf(after))
	}
	a.must(204, "", a.do("DELETE", "blogs(PartitionKey='p',RowKey='last')", "", "If-Match", "*"))
	snapshot = &recorder{}
	if err := a.service.Snapshot(snapshot.emit); err != nil {
		t.Fatal(err)
	}
	b = rebuild(t, snapshot.records)
	b.now = b.now.Add(-time.Hour)
	if after, _ := parseETag(b.put("p", "last", "").Header.Get("ETag")); after <= before {
		t.Errorf("the version went from %s to %s in a snapshot", timeOf(before), timeOf(after))
	}

	a.service.Reset()
	empty := newAccount(t).state()
	if got := a.state(); got != empty {
		t.Errorf("after a reset: %s", got)
	}
	if got := rebuild(t, log.records).state(); got != empty {
		t.Errorf("the log after a reset became %s", got)
	}
}

// Large tables are emitted in pieces.
func TestSnapshotPieces(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	for i := range 40 {
		a.put("p", fmt.Sprint(i), `"A":"`+string(bytes.Repeat([]byte("x"), 30_000))+`"`)
	}
	snapshot := &recorder{}
	if err := a.service.Snapshot(snapshot.emit); err != nil {
		t.Fatal(err)
	}
	for _, record := range snapshot.records {
		if len(record) > snapshotSize+maxEntity {
			t.Errorf("a record has %d bytes", len(record))
		}
	}
	if len(snapshot.records) < 6 || rebuild(t, snapshot.records).state() != a.state() {
		t.Errorf("%d records", len(snapshot.records))
	}
	failed := fmt.Errorf("disk full")
	if err := a.service.Snapshot(func([]byte) error { return failed }); err != failed {
		t.Errorf("%v", err)
	}
}

func TestDamagedRecords(t *testing.T) {
	d := newDictionary()
	r := change{row: newRow(d, "p\x00r", 1, []property{{"A", textValue("x")}})}
	good := r.appendTo(newRecord(changeRows, "a", "blogs"), d)
	table := newRecord(putTable, "a", "blogs")
	for i, record := range [][]byte{
		nil, {}, {recordVersion}, {2, putTable}, {recordVersion, 'x', 1, 'a', 1, 'b'}, newRecord(putTable, "a"), newRecord(putTable, "a", "b", "c"),
		good[:len(good)-1], newRecord(changeRows, "a", "other", deleteRow, "x"), newRecord(changeRows, "a", "blogs", "?", "x"), newRecord(changeRows, "a", "blogs", putRow),
		newRecord(changeRows, "a", "blogs", putRow, "x"), newRecord(setStamp, "1"), newRecord(setStamp), {recordVersion, setProperty, 9},
	} {
		s := New(rest.Memory{}, 0)
		if err := s.Apply(table); err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(record); err == nil {
			t.Errorf("record %d, %q, is accepted", i, record)
		}
	}
	s := New(rest.Memory{}, 0)
	if err := s.Apply(good); err == nil {
		t.Error("rows of a table that does not exist are accepted")
	}
}

// Writers that use versions lose no update.
func TestConcurrentWrites(t *testing.T) {
	a := newAccount(t)
	a.create("blogs")
	a.put("p", "counter", `"N":0`)
	const writers, each = 8, 25
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for range each {
				for done := false; !done; {
					found := a.do("GET", entityLink("blogs", joinKey("p", "counter")), "")
					n := decode[struct{ N int }](t, found.Body).N
					update := operation{"PUT " + link("counter"), "If-Match: " + found.Header.Get("ETag") + "\r\n", fmt.Sprintf(`{"N":%d}`, n+1)}
					result := operation{"POST " + base + "blogs", "", fmt.Sprintf(`{"PartitionKey":"p","RowKey":"%d-%d"}`, w, n)}
					done = len(a.batch(result, update)) == 2
				}
			}
		})
	}
	group.Wait()
	if n := a.get("p", "counter")["N"]; n != float64(writers*each) {
		t.Errorf("counted %v", n)
	}
	if keys, _ := a.query(); len(keys) != 1+writers*each {
		t.Errorf("%d rows", len(keys))
	}
}
