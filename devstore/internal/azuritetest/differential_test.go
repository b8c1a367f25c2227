package azuritetest

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"kennel/devstore"
	"kennel/internal/storetest"
)

var requests = flag.Int("requests", 20_000, "how many random requests are compared")

// stepsOfWorld is how many random requests a world sees, unless its two copies
// part before.
const stepsOfWorld = 120

// devstore and Azurite answer the same to random requests, except where a row
// of differences says why they do not.
func TestAnswersAsAzurite(t *testing.T) {
	theirs := newSide(t, "Azurite", storetest.Azurite(t).ConnectionString())
	store, err := devstore.Open("", nil)
	if err != nil {
		t.Fatal(err)
	}
	ours := newSide(t, "devstore", store.ConnectionString())
	seed := uint64(1) // the same in each run, since Azurite has differences that are found once in 100,000 requests
	if flag.Lookup("seed").Value.String() != "0" {
		seed = storetest.Seed(t)
	}
	t.Logf("seed %d", seed)
	run := &run{sides: [2]*side{ours, theirs}, seed: seed, left: *requests, seen: make(map[int]int), unlisted: make(map[string]*finding)}
	var all sync.WaitGroup
	for range 4 { // Azurite has one thread; the rest is waiting
		all.Go(func() {
			for number, more := run.world(); more; number, more = run.world() {
				if err := run.play(newWorld(seed, number)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	run.report(t)
}

// A run compares a number of requests.
type run struct {
	sides [2]*side
	seed  uint64

	mu       sync.Mutex
	left     int // requests that are still to be made
	worlds   int
	done     int
	parted   int
	seen     map[int]int // how often each row of differences was seen
	unlisted map[string]*finding
}

// A finding is a difference that has no reason yet.
type finding struct {
	times   int
	example string
}

func (r *run) world() (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.worlds++
	return r.worlds, r.left > 0
}

// play makes the requests of one world, until its copies part: then what they
// answer cannot be compared any more.
func (r *run) play(w *world) error {
	p := newPairs()
	defer func() {
		for _, c := range w.last() {
			for n := range r.sides {
				_, _ = r.sides[n].send(c, p.resolve(n, r.sides[n].roots[c.service]))
			}
		}
	}()
	for _, c := range w.first() {
		if parted, err := r.step(w, p, c); err != nil || parted {
			return err
		}
	}
	for range stepsOfWorld {
		if parted, err := r.step(w, p, w.next()); err != nil || parted {
			return err
		}
	}
	return nil
}

// step makes one request to both.
func (r *run) step(w *world, p *pairs, c call) (parted bool, err error) {
	var parts [2][]field
	var answers [2]answer
	for n, side := range r.sides {
		answers[n], err = side.send(c, p.resolve(n, side.roots[c.service]))
		if err != nil && n == 0 {
			return false, fmt.Errorf("%s: %v: %w", side.name, c, err)
		} else if err != nil {
			answers[n] = answer{body: []byte(err.Error())} // Azurite sends broken answers
		}
		if parts[n], err = fields(c, answers[n]); err != nil && n == 0 { // else its fields are missing
			return false, fmt.Errorf("%s: answer to %v: %w: %.300q", side.name, c, err, answers[n].body)
		}
	}
	differences := inOrder(p.compare(parts[0], parts[1]))
	w.remember(c, p, parts[0])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	r.left--
	for _, d := range differences {
		r.take(w, c, d, answers)
		reads := c.method == "GET" && c.name != "Get Messages" || c.method == "HEAD"
		refused := strings.HasPrefix(d.field, "part[") && strings.HasPrefix(d.devstore, "4") && strings.HasPrefix(d.azurite, "4") &&
			!strings.HasSuffix(c.name, "(two tables)") // Azurite does not take back what it did to the second one
		parted = parted || strings.HasPrefix(d.field, "part[") && !refused || d.field == order || d.field == result && !reads && (answers[0].status < 300) != (answers[1].status < 300)
	}
	if parted {
		r.parted++
	}
	return parted, nil
}

// order is the field of an answer with other messages than those of Azurite.
const order = "order"

// inOrder replaces all differences of such an answer, and those of transactions
// of which one failed and not the other, or not in the same way.
func inOrder(all []difference) []difference {
	for _, d := range all {
		if strings.HasSuffix(d.field, "/MessageId") {
			return []difference{{order, d.devstore, d.azurite}}
		}
		if d.field == "part[0]/"+result {
			return []difference{d}
		}
	}
	return all
}

// take notes a difference.
func (r *run) take(w *world, c call, d difference, answers [2]answer) {
	for n, row := range differences {
		if row.covers(c, d) {
			r.seen[n]++
			return
		}
	}
	name := unnumbered.ReplaceAllString(d.field, "[n]")
	key := fmt.Sprintf("%s: %s: devstore %.60q, Azurite %.60q", c.name, name, d.devstore, d.azurite)
	f := r.unlisted[key]
	if f == nil {
		f = &finding{example: fmt.Sprintf("world %s, step %d: %s%v\n\tdevstore: %d %.700s\n\tAzurite:  %d %.700s", w.name, w.step, c.with, c, answers[0].status, answers[0].body, answers[1].status, answers[1].body)}
		r.unlisted[key] = f
	}
	f.times++
}

func (r *run) report(t *testing.T) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(r.unlisted)) {
		t.Errorf("%d × %s\n%s", r.unlisted[key].times, key, r.unlisted[key].example)
	}
	for n, row := range differences {
		if r.seen[n] == 0 {
			t.Logf("never seen: %s, %s: %s", row.operation, row.field, row.why)
		}
	}
	t.Logf("figure: differences to Azurite without a reason, of random requests (%d, in %d worlds) | %d | 0", r.done, r.worlds, len(r.unlisted))
}

// remember keeps the names of what came back, for later requests.
func (w *world) remember(c call, p *pairs, all []field) {
	for _, f := range all {
		if f.kind == "" {
			continue
		}
		name, bound := p.names[0][f.kind+f.value]
		if !bound {
			continue
		}
		switch c.service {
		case "blob":
			thing := strings.TrimPrefix(strings.ReplaceAll(c.path, "%20", " "), "/")
			if !strings.Contains(f.name, "/") {
				w.learn(f.kind, thing, name)
			}
		case "queue":
			queue, _, _ := strings.Cut(strings.TrimPrefix(c.path, "/"), "/")
			w.learn(f.kind, queue, name)
		case "table":
			w.learnRow(c, f, name)
		}
	}
}

// learnRow keeps the ETag of a row, if the answer is about one or a transaction.
func (w *world) learnRow(c call, f field, name string) {
	var n int
	if _, err := fmt.Sscanf(f.name, "part[%d]/Etag", &n); err == nil && n < len(c.rows) {
		w.learn(f.kind, c.rows[n], name)
		return
	}
	table, keys, one := strings.Cut(strings.TrimPrefix(c.path, "/"), "(PartitionKey='")
	if !one {
		return
	}
	keys = strings.NewReplacer("',RowKey='", " ", "')", "", "%20", " ", "%27%27", "'").Replace(keys)
	w.learn(f.kind, table+" "+keys, name)
}
