package azuritetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A world is a few containers, queues and tables, about which random requests
// are made. It remembers names of what came back, not the values.
type world struct {
	*rand.Rand
	name   string
	tokens map[string][]string // names of ETags, lease ids … by what they belong to
	step   int
}

func newWorld(seed uint64, number int) *world {
	// The name does not depend on the run, but storages are fresh or are swept.
	return &world{Rand: rand.New(rand.NewPCG(seed, uint64(number))), name: fmt.Sprintf("w%d", number), tokens: make(map[string][]string)}
}

func (w *world) one(texts ...string) string { return texts[w.IntN(len(texts))] }

// odds is true once in n times.
func (w *world) odds(n int) bool { return w.IntN(n) == 0 }

// token returns a ‹name› of what came back for a thing: mostly the newest.
func (w *world) token(kind, thing string) string {
	all := w.tokens[kind+" "+thing]
	if len(all) == 0 {
		return ""
	}
	if w.odds(4) {
		return all[w.IntN(len(all))]
	}
	return all[len(all)-1]
}

// learn remembers that an answer returned something.
func (w *world) learn(kind, thing, token string) {
	key := kind + " " + thing
	w.tokens[key] = append(w.tokens[key], token)
	if len(w.tokens[key]) > 6 {
		w.tokens[key] = w.tokens[key][1:]
	}
}

// etag returns an ETag of a thing, or one that is of none.
func (w *world) etag(thing, stranger string) string {
	if token := w.token("etag", thing); token != "" && !w.odds(6) {
		return token
	}
	return w.one("*", stranger, stranger)
}

// next returns the next request.
func (w *world) next() call {
	w.step++
	var c call
	switch n := w.IntN(100); {
	case n < 46:
		c = w.blobCall()
	case n < 68:
		c = w.queueCall()
	default:
		c = w.tableCall()
	}
	if c.header == nil {
		c.header = make(map[string]string)
	}
	for name, value := range c.header {
		if value == "" {
			delete(c.header, name)
		}
	}
	if w.odds(8) {
		w.sharedAccess(&c)
	} else if w.odds(25) {
		w.timeout(&c)
	}
	return c
}

// first returns the requests that make the world's things.
func (w *world) first() []call {
	return []call{
		{name: "Create Container", service: "blob", method: "PUT", path: "/" + w.container(0), query: "restype=container"},
		{name: "Create Container", service: "blob", method: "PUT", path: "/" + w.container(1), query: "restype=container"},
		{name: "Create Queue", service: "queue", method: "PUT", path: "/" + w.queue(0)},
		{name: "Create Queue", service: "queue", method: "PUT", path: "/" + w.queue(1)},
		w.createTable(w.table(0)), w.createTable(w.table(1)),
	}
}

// last returns the requests that remove them.
func (w *world) last() []call {
	var all []call
	for n := range 3 {
		all = append(all,
			call{service: "blob", method: "PUT", path: "/" + w.container(n), query: "restype=container&comp=lease", header: map[string]string{"x-ms-lease-action": "break", "x-ms-lease-break-period": "0"}},
			call{service: "blob", method: "DELETE", path: "/" + w.container(n), query: "restype=container"},
			call{service: "queue", method: "DELETE", path: "/" + w.queue(n)},
			call{service: "table", method: "DELETE", path: "/Tables('" + w.table(n) + "')"})
	}
	return all
}

func (w *world) container(n int) string { return fmt.Sprintf("%s-box%d", w.name, n) }
func (w *world) queue(n int) string     { return fmt.Sprintf("%s-line%d", w.name, n) }
func (w *world) table(n int) string     { return fmt.Sprintf("%sRows%d", w.name, n) }

// usual picks 0 mostly, sometimes 1, and seldom 2, which does not exist first.
func (w *world) usual() int {
	switch n := w.IntN(20); {
	case n < 14:
		return 0
	case n < 19:
		return 1
	}
	return 2
}

// metadata adds some to a request.
func (w *world) metadata(h map[string]string) {
	for n := range w.IntN(3) {
		h[fmt.Sprintf("x-ms-meta-key%d", n)] = w.one("one", "two words", "0", "a,b")
	}
	if w.odds(60) {
		h["x-ms-meta-1bad"] = "x"
	}
}

const (
	past   = "Wed, 01 Jan 2020 00:00:00 GMT"
	future = "Tue, 01 Jan 2125 00:00:00 GMT"
)

// conditions adds at most one condition of each pair.
func (w *world) conditions(h map[string]string, thing string) {
	if !w.odds(3) {
		return
	}
	switch w.IntN(6) {
	case 0, 1:
		h["If-Match"] = w.etag(thing, `"0x8D0000000000000"`)
	case 2:
		h["If-None-Match"] = w.etag(thing, `"0x8D0000000000000"`)
	case 3:
		h["If-Modified-Since"] = w.one(past, future)
	case 4:
		h["If-Unmodified-Since"] = w.one(past, future)
	case 5:
		h["If-None-Match"] = "*"
	}
}

// number returns a parameter: right, at a limit, beyond it or no number.
func (w *world) number(right ...string) string {
	if w.odds(8) {
		return w.one("0", "-1", "x", "99999999999", "1.5", "")
	}
	return w.one(right...)
}

// timeout adds how many seconds the storage may take.
func (w *world) timeout(c *call) {
	text := w.one("1", "30", "30", "31", "100000", "0", "-1", "x", "1.5", "99999999999", "")
	c.with = "(timeout " + text + ")"
	c.query = strings.TrimPrefix(c.query+"&timeout="+text, "&")
}

func guid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func escaped(name string) string {
	return strings.NewReplacer("%", "%25", " ", "%20", "#", "%23", "?", "%3F").Replace(name)
}
