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
	callersAtOnce       = 16
	callsOfRound        = 320
	transactionsOfRound = 48
	roundsOfSpeed       = 5
)

// work is one kind of request, of which number makes one that no other has.
type work struct {
	name  string
	call  func(number int) call
	table func(number int) string // that a round from this number on fills; nil for none of its own
}

// calls is how many requests a round has.
func (w work) calls() int {
	if w.table != nil {
		return transactionsOfRound
	}
	return callsOfRound
}

var rowBody = `{"PartitionKey":"p","RowKey":"%d","a":1,"text":"` + strings.Repeat("x", 150) + `"}`

// works returns all kinds of requests to a container, a queue and a table with a
// name, which the tables of an account at an address have.
func works(name, tables string, receipts *receipts) []work {
	queue := "/" + name + "/messages"
	message := "<QueueMessage><MessageText>" + strings.Repeat("x", 200) + "</MessageText></QueueMessage>"
	table := strings.ReplaceAll(name, "-", "")
	row := func(n int) string { return fmt.Sprintf("/%s(PartitionKey='p',RowKey='%d')", table, n) }
	blob := func(n int) string { return fmt.Sprintf("/%s/blob-%d", name, n) }
	// Transactions fill a table of their own in each round, because Azurite takes
	// longer for each the more rows a table has.
	tableOf := func(n int) string { return fmt.Sprintf("%sr%d", table, n/callsOfRound) }
	accept := func() map[string]string {
		return map[string]string{"Accept": "application/json;odata=minimalmetadata", "Content-Type": jsonType, "Prefer": "return-no-content", "If-Match": "*"}
	}
	insert := accept()
	delete(insert, "If-Match")
	return []work{
		{name: "puts of messages", call: func(int) call { return call{service: "queue", method: "POST", path: queue, body: message} }},
		{name: "gets of a message", call: func(int) call {
			return call{name: "Get Messages", service: "queue", method: "GET", path: queue, query: "visibilitytimeout=1000"}
		}},
		{name: "deletes of messages", call: func(int) call {
			id, receipt := receipts.next()
			return call{service: "queue", method: "DELETE", path: queue + "/" + id, query: "popreceipt=" + url.QueryEscape(receipt)}
		}},
		{name: "inserts of rows", call: func(n int) call {
			return call{service: "table", method: "POST", path: "/" + table, header: insert, body: fmt.Sprintf(rowBody, n)}
		}},
		{name: "gets of rows", call: func(n int) call { return call{service: "table", method: "GET", path: row(n), header: accept()} }},
		{name: "deletes of rows", call: func(n int) call { return call{service: "table", method: "DELETE", path: row(n), header: accept()} }},
		{name: "puts of blobs of 1 KiB", call: func(n int) call {
			return call{service: "blob", method: "PUT", path: blob(n), header: map[string]string{"x-ms-blob-type": "BlockBlob"}, body: strings.Repeat("x", 1024)}
		}},
		{name: "gets of blobs of 1 KiB", call: func(n int) call { return call{service: "blob", method: "GET", path: blob(n)} }},
		{name: "deletes of blobs", call: func(n int) call { return call{service: "blob", method: "DELETE", path: blob(n)} }},
		{name: "transactions of 100 rows", call: func(n int) call { return hundredRows(tables+"/"+tableOf(n), n) }, table: tableOf},
	}
}

func hundredRows(table string, n int) call {
	var b strings.Builder
	b.WriteString("--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n")
	for row := range 100 {
		fmt.Fprintf(&b, "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPUT %s(PartitionKey='t%d',RowKey='%d') HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nContent-Type: application/json\r\n\r\n"+
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
	c.works = works(thing, c.roots["table"], &c.receipts)
	for _, one := range []call{
		{service: "blob", method: "PUT", path: "/" + thing, query: "restype=container"},
		{service: "queue", method: "PUT", path: "/" + thing},
		createTable(strings.ReplaceAll(thing, "-", "")),
	} {
		c.must(t, one)
	}
	return c
}

func createTable(name string) call {
	return call{service: "table", method: "POST", path: "/Tables", body: fmt.Sprintf(`{"TableName":%q}`, name),
		header: map[string]string{"Content-Type": jsonType, "Accept": "application/json;odata=nometadata"}}
}

func (c *contender) must(t testing.TB, one call) {
	t.Helper()
	if a, err := c.do(one); err != nil || a.status > 299 {
		t.Fatalf("%s: %v: %d %s, %v", c.name, one, a.status, a.body, err)
	}
}

func (c *contender) do(one call) (answer, error) {
	return c.send(one, func(text string) string { return text })
}

// round runs the requests of a kind and returns how long they took. Numbers
// begin at first. The requests are written before, because that takes time from
// devstore alone, which is in this process.
func (c *contender) round(t testing.TB, kind, first int) time.Duration {
	t.Helper()
	w := c.works[kind]
	if w.table != nil {
		c.must(t, createTable(w.table(first)))
	}
	calls := make([]call, w.calls())
	for n := range calls {
		calls[n] = w.call(first + n)
	}
	var next atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range callersAtOnce {
		all.Go(func() {
			for n := next.Add(1); int(n) <= len(calls); n = next.Add(1) {
				one := calls[n-1]
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
		for kind := range ours.works {
			first := (c.rounds*roundsOfSpeed + round) * callsOfRound
			slow, fast := c.round(b, kind, first), ours.round(b, kind, first)
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
