package azuritetest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/devstore"
	"kennel/internal/storetest"
)

const (
	callersAtOnce = 16
	callsOfRound  = 320
	roundsOfSpeed = 3
)

// work is one kind of request, of which number makes one that no other has.
type work struct {
	name string
	call func(number int) call
}

var rowBody = `{"PartitionKey":"p","RowKey":"%d","a":1,"text":"` + strings.Repeat("x", 150) + `"}`

func works(name string, receipts *receipts) []work {
	queue := "/" + name + "/messages"
	message := "<QueueMessage><MessageText>" + strings.Repeat("x", 200) + "</MessageText></QueueMessage>"
	table := strings.ReplaceAll(name, "-", "")
	row := func(n int) string { return fmt.Sprintf("/%s(PartitionKey='p',RowKey='%d')", table, n) }
	blob := func(n int) string { return fmt.Sprintf("/%s/blob-%d", name, n) }
	accept := func() map[string]string {
		return map[string]string{"Accept": "application/json;odata=minimalmetadata", "Content-Type": jsonType, "Prefer": "return-no-content", "If-Match": "*"}
	}
	insert := accept()
	delete(insert, "If-Match")
	return []work{
		{"puts of messages", func(int) call { return call{service: "queue", method: "POST", path: queue, body: message} }},
		{"gets of a message", func(int) call {
			return call{name: "Get Messages", service: "queue", method: "GET", path: queue, query: "visibilitytimeout=1000"}
		}},
		{"deletes of messages", func(int) call {
			id, receipt := receipts.next()
			return call{service: "queue", method: "DELETE", path: queue + "/" + id, query: "popreceipt=" + url.QueryEscape(receipt)}
		}},
		{"inserts of rows", func(n int) call {
			return call{service: "table", method: "POST", path: "/" + table, header: insert, body: fmt.Sprintf(rowBody, n)}
		}},
		{"gets of rows", func(n int) call { return call{service: "table", method: "GET", path: row(n), header: accept()} }},
		{"deletes of rows", func(n int) call { return call{service: "table", method: "DELETE", path: row(n), header: accept()} }},
		{"puts of blobs of 1 KiB", func(n int) call {
			return call{service: "blob", method: "PUT", path: blob(n), header: map[string]string{"x-ms-blob-type": "BlockBlob"}, body: strings.Repeat("x", 1024)}
		}},
		{"gets of blobs of 1 KiB", func(n int) call { return call{service: "blob", method: "GET", path: blob(n)} }},
		{"deletes of blobs", func(n int) call { return call{service: "blob", method: "DELETE", path: blob(n)} }},
		{"transactions of 100 rows", func(n int) call { return hundredRows(table, n) }},
	}
}

func hundredRows(table string, n int) call {
	var b strings.Builder
	b.WriteString("--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n")
	for row := range 100 {
		fmt.Fprintf(&b, "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPUT ‹root›/%s(PartitionKey='t%d',RowKey='%d') HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nContent-Type: application/json\r\n\r\n"+
			`{"PartitionKey":"t%d","RowKey":"%d","a":1,"text":"%s"}`+"\r\n", table, n, row, n, row, strings.Repeat("x", 150))
	}
	b.WriteString("--changeset_1--\r\n--batch_1--\r\n")
	return call{service: "table", method: "POST", path: "/$batch", header: map[string]string{"Content-Type": "multipart/mixed; boundary=batch_1", "Accept": "application/json"}, body: b.String()}
}

// receipts are those that the gets of messages returned.
type receipts struct {
	mu  sync.Mutex
	all [][2]string
}

func (r *receipts) add(body []byte) error {
	all, err := xmlFields(body)
	if err != nil {
		return err
	}
	var id string
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range all {
		switch {
		case strings.HasSuffix(f.name, "/MessageId"):
			id = f.value
		case strings.HasSuffix(f.name, "/PopReceipt"):
			r.all = append(r.all, [2]string{id, f.value})
		}
	}
	return nil
}

func (r *receipts) next() (id, receipt string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.all[len(r.all)-1]
	r.all = r.all[:len(r.all)-1]
	return last[0], last[1]
}

// A contender is a side with what its requests returned.
type contender struct {
	*side
	works    []work
	receipts receipts
	rounds   int // of numbers that were used
}

func newContender(t testing.TB, name, connection string) *contender {
	t.Helper()
	c := &contender{side: newSide(t, name, connection)}
	thing := storetest.Name()
	c.works = works(thing, &c.receipts)
	for _, one := range []call{
		{service: "blob", method: "PUT", path: "/" + thing, query: "restype=container"},
		{service: "queue", method: "PUT", path: "/" + thing},
		{service: "table", method: "POST", path: "/Tables", body: fmt.Sprintf(`{"TableName":%q}`, strings.ReplaceAll(thing, "-", "")), header: map[string]string{"Content-Type": jsonType, "Accept": "application/json;odata=nometadata"}},
	} {
		if a, err := c.do(one); err != nil || a.status > 299 {
			t.Fatalf("%s: %v: %d %s, %v", name, one, a.status, a.body, err)
		}
	}
	return c
}

func (c *contender) do(one call) (answer, error) {
	return c.send(one, func(text string) string { return strings.ReplaceAll(text, "‹root›", c.roots[one.service]) })
}

// round runs so many requests of a kind and returns how long they took. Numbers
// begin at first.
func (c *contender) round(t testing.TB, kind, count, first int) time.Duration {
	t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range callersAtOnce {
		all.Go(func() {
			for n := next.Add(1); int(n) <= count; n = next.Add(1) {
				one := c.works[kind].call(first + int(n))
				a, err := c.do(one)
				if err != nil || a.status > 299 {
					t.Errorf("%s: %v: %d %.300s, %v", c.name, one, a.status, a.body, err)
					return
				}
				if one.name == "Get Messages" {
					if err := c.receipts.add(a.body); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

// BenchmarkAgainstAzurite compares the requests a second of a store in memory
// and of one in a folder with those of Azurite, which keeps all in memory. All
// get the same requests over HTTP, in turn.
func BenchmarkAgainstAzurite(b *testing.B) {
	azurite := newContender(b, "Azurite", storetest.Azurite(b).ConnectionString())
	b.Run("in memory", func(b *testing.B) { azurite.against(b, "in memory", "", 3) })
	b.Run("in a folder", func(b *testing.B) { azurite.against(b, "in a folder", b.TempDir(), 1) })
}

func (c *contender) against(b *testing.B, name, folder string, bar float64) {
	b.Helper()
	store, err := devstore.Open(folder, nil)
	if err != nil {
		b.Fatal(err)
	}
	ours := newContender(b, "devstore "+name, store.ConnectionString())
	c.rounds++
	ratios := make([][]float64, len(ours.works))
	for round := range roundsOfSpeed {
		for kind, w := range ours.works {
			count := callsOfRound
			if strings.HasPrefix(w.name, "transactions") {
				count /= 20
			}
			first := (c.rounds*roundsOfSpeed + round) * callsOfRound
			slow, fast := c.round(b, kind, count, first), ours.round(b, kind, count, first)
			ratios[kind] = append(ratios[kind], slow.Seconds()/fast.Seconds())
		}
		if b.Failed() {
			b.FailNow()
		}
	}
	for kind, w := range ours.works {
		slices.Sort(ratios[kind])
		b.Logf("figure: %s, %s, by %d callers | %.1f × Azurite | ≥ %g ×", w.name, name, callersAtOnce, ratios[kind][len(ratios[kind])/2], bar)
	}
	if err := store.Close(); err != nil {
		b.Error(err)
	}
}
