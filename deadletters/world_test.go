package deadletters_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/deadletters"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

const (
	source = "work"
	poison = source + queue.PoisonSuffix
)

// world is an account in memory.
type world struct {
	t      testing.TB
	queues *memory.Queues
	rows   *memory.Table
	blobs  *memory.Container
	packs  *queue.Claims // of processes that are not killed
}

// newWorld returns an account whose queues have a fault, and the queue source.
func newWorld(t testing.TB, fault func(memory.Call) memory.Fault) *world {
	misuse := func(problem string) { t.Error(problem) }
	w := &world{
		t:      t,
		queues: memory.NewQueues(&memory.Options{Fault: fault, OnMisuse: misuse}),
		rows:   memory.NewTable(&memory.TableOptions{Options: memory.Options{OnMisuse: misuse}}),
		blobs:  memory.NewContainer(&memory.Options{OnMisuse: misuse}),
	}
	t.Cleanup(w.queues.Wait)
	return w
}

// account is a deadletters.Store of parts.
type account struct {
	queue.Store
	queue.Peeker
	queue.Lister
}

// letters returns the dead letters as a process sees them; nil: one that is not
// killed.
func (w *world) letters(p *storetest.Process, o deadletters.Options) *deadletters.Letters {
	w.t.Helper()
	var store deadletters.Store = w.queues
	if p != nil {
		store = account{p.Queues(w.queues), p.Peeker(w.queues), p.Lister(w.queues)}
	}
	if o.Claims == nil {
		claims := w.claims(p)
		o.Claims = func(string) (*queue.Claims, error) { return claims, nil }
	}
	l, err := deadletters.New(store, &o)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// claims returns the claims as a process sees them.
func (w *world) claims(p *storetest.Process) *queue.Claims {
	w.t.Helper()
	if p == nil && w.packs != nil {
		return w.packs // its compressor takes long to create
	}
	var rows table.Store = w.rows
	var blobs queue.Container = w.blobs
	if p != nil {
		rows, blobs = p.Table(rows), p.Container(blobs)
	}
	repeated, err := table.New(rows)
	if err != nil {
		w.t.Fatal(err)
	}
	claims, err := queue.NewClaims(repeated, blobs)
	if err != nil {
		w.t.Fatal(err)
	}
	if p == nil {
		w.packs = claims
	}
	return claims
}

// put puts messages, and the queue if there are none.
func (w *world) put(name string, bodies ...string) {
	w.t.Helper()
	for _, body := range bodies {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, err := w.queues.Put(ctx, name, body, 0)
		cancel()
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// fill puts n letters that are texts, from a queue that exists.
func (w *world) fill(n int) {
	w.t.Helper()
	w.create(source)
	for i := range n {
		w.put(poison, fmt.Sprint("letter ", i))
	}
	time.Sleep(time.Second)
}

// create creates an empty queue.
func (w *world) create(name string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := w.queues.Put(ctx, name, "", 0)
	if err == nil {
		err = w.queues.Delete(ctx, name, m)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// bodies returns the bodies of a queue in order, invisible ones included.
func (w *world) bodies(name string) (bodies []string) {
	for _, m := range w.queues.All(name) {
		bodies = append(bodies, m.Body)
	}
	slices.Sort(bodies)
	return bodies
}

// visible returns how many messages of a queue are visible.
func (w *world) visible(name string) (n int) {
	for _, m := range w.queues.All(name) {
		if !m.NextVisible.After(time.Now()) {
			n++
		}
	}
	return n
}

// front lists the letters.
func (w *world) front(l *deadletters.Letters) []deadletters.Letter {
	w.t.Helper()
	list, err := l.Front(context.Background(), poison)
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// form is a way in which a message becomes a dead letter.
type form struct {
	name     string
	original string // message
	stored   string // dead letter
	identity bool   // copies are known
	want     deadletters.Letter
}

const reason = "it failed & failed"

// forms returns a message in each form, with n in it; the long ones only for 0.
func (w *world) forms(n int) []form {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	claims := w.claims(nil)
	must := func(text string, err error) string {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
		return text
	}
	word := fmt.Sprint("message ", n, ", \"ä\" <€>")
	letterOf := func(text string) queue.DeadLetter {
		return queue.DeadLetter{Queue: source, Message: fmt.Sprint("id ", n), Reason: reason, Attempts: 3, At: time.Now(), Text: text}
	}
	longLen, hugeLen := 47_000, 64<<10
	if n > 0 {
		longLen, hugeLen = 1000, 1000 // not returned
	}
	long := noise(n, longLen)
	envelope := func(kind string, body string) string {
		return must(claims.Pack(ctx, queue.Envelope{ID: fmt.Sprint(kind, " ", n), Time: time.Now(), TraceParent: "00-1-2-01"}, []byte(body)))
	}
	packed := func(text string) string { return must(queue.Packed{Claims: claims}.DeadLetter(ctx, letterOf(text))) }
	attempts := int64(3)
	ours := func(body string) deadletters.Letter {
		return deadletters.Letter{Reason: reason, Attempts: &attempts, MovedBy: deadletters.ByKennel, Body: body, Encoding: deadletters.AsText, Size: len(body)}
	}
	traced := func(l deadletters.Letter) deadletters.Letter { l.TraceParent = "00-1-2-01"; return l }
	theirs := func(body string) deadletters.Letter {
		return deadletters.Letter{Reason: "The Functions host", MovedBy: deadletters.ByHost, Body: body, Encoding: deadletters.AsText, Size: len(body)}
	}
	binary := theirs(inBase64("\xff\x00binary" + fmt.Sprint(n)))
	binary.Encoding, binary.Size = deadletters.AsBase64, len("\xff\x00binary"+fmt.Sprint(n))

	short, claimed := envelope("short", word), envelope("claimed", long)
	hosted, hostedClaim := envelope("hosted", word), envelope("hosted claim", long)
	huge := noise(n, hugeLen)
	forms := []form{
		{"written", word, letterOf(word).Encode(), true, ours(word)},
		{"written in base64", inBase64(word + "2"), inBase64(withID(letterOf(word+"2"), n, "b").Encode()), true, ours(word + "2")},
		{"packed", short, packed(short), true, traced(ours(word))},
		{"packed in base64, with a claim", inBase64(claimed), inBase64(packed(claimed)), true, traced(ours(long))},
		{"no envelope", word + "3", must(queue.Packed{Claims: claims}.DeadLetter(ctx, withID(letterOf(word+"3"), n, "c"))), true, ours(word + "3")},
		{"a long text that is no envelope, in base64", inBase64(long), inBase64(must(queue.Packed{Claims: claims}.DeadLetter(ctx, withID(letterOf(long), n, "d")))), true, ours(long)},
		{"text of the host", inBase64(word + "4"), inBase64(word + "4"), false, theirs(word + "4")},
		{"plain text of another program", word + "5", word + "5", false, theirs(word + "5")},
		{"an envelope of the host", inBase64(hosted), inBase64(hosted), true, traced(theirs(word))},
		{"an envelope of the host with a claim", hostedClaim, hostedClaim, true, traced(theirs(long))},
		{"base64 of an envelope in base64", inBase64(inBase64(hosted)), inBase64(inBase64(hosted)), false, theirs(inBase64(hosted))},
		{"binary of the host", inBase64("\xff\x00binary" + fmt.Sprint(n)), inBase64("\xff\x00binary" + fmt.Sprint(n)), false, binary},
		{"too long for a reason", huge, letterOf(huge).Encode(), false, theirs(huge)},
	}
	if n > 0 {
		forms = slices.DeleteFunc(forms, func(f form) bool { return f.want.Size >= 1000 })
	}
	return forms
}

func withID(d queue.DeadLetter, n int, suffix string) queue.DeadLetter {
	d.Message = fmt.Sprint("id ", n, suffix)
	return d
}

func inBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// noise returns text of n bytes that does not become shorter, and is not
// base64.
func noise(seed, n int) string {
	var text strings.Builder
	text.WriteString("#")
	x := uint32(seed)*2654435761 + 12345
	for text.Len() < n {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		text.WriteByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[x%64])
	}
	return text.String()
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// all selects all letters.
var all = deadletters.Selection{All: true}

// redriveAll redrives until a call moves none, and returns how many were moved
// by all calls.
func redriveAll(ctx context.Context, l *deadletters.Letters) (moved int, err error) {
	s := all
	for {
		r, err := l.Redrive(ctx, poison, s)
		moved += r.Moved
		if err != nil || !r.More || r.Moved == 0 {
			return moved, err
		}
		s.Before = r.Before
	}
}

func sorted[T cmp.Ordered](values ...T) []T {
	slices.Sort(values)
	return values
}
