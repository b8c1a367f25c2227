package storetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kennel/internal/table"
	"kennel/queue"
)

// ClaimStores are the table and the container of claims.
type ClaimStores struct {
	Rows  table.Store
	Blobs queue.Container
}

// TestClaims checks [queue.Claims] on stores. Each call of newStores returns a
// table and a container that do not exist yet.
func TestClaims(t *testing.T, newStores func(t *testing.T) ClaimStores) {
	for name, test := range map[string]func(*claimTest){
		"Life": claimLife, "Damaged": damagedClaims, "Extended": extendedClaims, "Swept": sweptClaims,
		"KilledAtEachRequest": claimsKilled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := newStores(t)
			test(&claimTest{t, ctx, s, s.claims(t)})
		})
	}
}

// claimTest is one test with its stores.
type claimTest struct {
	*testing.T
	ctx context.Context
	ClaimStores
	*queue.Claims
}

func (s ClaimStores) claims(t testing.TB) *queue.Claims {
	t.Helper()
	rows, err := table.New(s.Rows)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := queue.NewClaims(rows, s.Blobs)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// inMessage is the length of a body that needs no claim.
const inMessage = 10_000

// claimKind is a kind of claim.
type claimKind struct {
	in   string
	size int // of a body of noise
}

var (
	inTable = claimKind{"table", 34_000}
	inBlob  = claimKind{"blob", 2_949_121}
)

// claimKinds returns what a test covers.
func claimKinds() []claimKind {
	if Proving() {
		return []claimKind{inTable, inBlob, {"table", 2_949_120}}
	}
	return []claimKind{inTable, inBlob}
}

// noise returns n bytes that cannot be compressed.
func noise(n int) []byte {
	body := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = random.Read(body) // never fails
	return body
}

func (t *claimTest) pack(body []byte) string {
	t.Helper()
	text, err := t.Pack(t.ctx, queue.Envelope{ID: "a", Time: time.Now()}, body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unpacks checks that the message has the body, or returns the error want.
func (t *claimTest) unpacks(text string, body []byte, want error) queue.Envelope {
	t.Helper()
	e, got, err := t.Unpack(t.ctx, text)
	if !errors.Is(err, want) || err == nil && !bytes.Equal(got, body) {
		t.Errorf("unpacked %d bytes, %v, want %d, %v", len(got), err, len(body), want)
	}
	return e
}

// left counts the rows and blobs.
func (t *claimTest) left() int {
	t.Helper()
	page, err := t.Rows.Query(t.ctx, table.Query{Top: 1000, KeysOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	names, err := t.Blobs.List(t.ctx, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Rows) + len(names)
}

// A claim exists from Pack to Remove, and both may be repeated.
func claimLife(t *claimTest) {
	for _, size := range []int{0, inMessage} {
		body := noise(size)
		if e := t.unpacks(t.pack(body), body, nil); !e.ClaimExpires().IsZero() || t.Remove(t.ctx, e) != nil || t.left() > 0 {
			t.Errorf("%d bytes: a claim until %v, %d rows and blobs", size, e.ClaimExpires(), t.left())
		}
	}
	for _, kind := range claimKinds() {
		body := noise(kind.size)
		first, second := t.pack(body), t.pack(body)
		if in, _ := t.claimOf(first); in != kind.in {
			t.Errorf("%+v: a claim in the %s", kind, in)
		}
		e := t.unpacks(first, body, nil)
		for range 2 {
			if err := t.Remove(t.ctx, e); err != nil {
				t.Errorf("%+v: %v", kind, err)
			}
		}
		t.unpacks(first, nil, queue.ErrClaimGone)
		e = t.unpacks(second, body, nil)
		if err := t.Remove(t.ctx, e); err != nil {
			t.Error(err)
		}
	}
	if n := t.left(); n > 0 {
		t.Errorf("%d rows and blobs are left", n)
	}
}

// claimOf returns where the claim of a message is.
func (t *claimTest) claimOf(text string) (in, key string) {
	t.Helper()
	var message struct{ Claim struct{ In, Key string } }
	if err := json.Unmarshal([]byte(text), &message); err != nil || message.Claim.Key == "" {
		t.Fatalf("no claim in %.300s: %v", text, err)
	}
	return message.Claim.In, message.Claim.Key
}

// Whatever is stored in place of a claim is rejected as corrupt, and not
// reported as gone.
func damagedClaims(t *claimTest) {
	t.damagedRows()
	t.excessRows()
	t.damagedBlobs()
}

// compressible is a body that is stored compressed, in the table.
func compressible() []byte { return append(noise(40_000), bytes.Repeat([]byte("x"), 10_000)...) }

func (t *claimTest) damagedRows() {
	for name, spoil := range map[string]func(content []byte) []byte{
		"cut":       func(c []byte) []byte { return c[:len(c)-1] },
		"longer":    func(c []byte) []byte { return append(c, 0) },
		"changed":   func(c []byte) []byte { c[30_000] ^= 1; return c },
		"other":     func(c []byte) []byte { return noise(len(c)) },
		"empty":     func(c []byte) []byte { return nil },
		"a picture": func(c []byte) []byte { return noise(80_000) },
	} {
		text := t.pack(compressible())
		in, key := t.claimOf(text)
		if in != "table" {
			t.Fatalf("claim in %q, want table", in)
		}
		row, err := t.Rows.Get(t.ctx, key, "0")
		if err != nil {
			t.Fatal(err)
		}
		var content []byte
		for i := range len(row.Values) {
			part, err := base64.RawStdEncoding.DecodeString(row.Values[fmt.Sprintf("c%02d", i)])
			if err != nil {
				t.Fatal(err)
			}
			content = append(content, part...)
		}
		content = spoil(content)
		row.Values = make(map[string]string)
		for i := 0; i < len(content); i += 24 << 10 {
			row.Values[fmt.Sprintf("c%02d", i/(24<<10))] = base64.RawStdEncoding.EncodeToString(content[i:min(len(content), i+24<<10)])
		}
		if _, err := t.Rows.Submit(t.ctx, change(table.Replace, key, "0", row.Values, table.AnyVersion)); err != nil {
			t.Fatal(err)
		}
		t.corrupt(text, name+" row")
	}
}

// excessRows adds more rows than a claim has, with values that are not base64.
func (t *claimTest) excessRows() {
	text := t.pack(compressible())
	_, key := t.claimOf(text)
	for i := range 10 {
		t.submitRow(key, fmt.Sprint("x", i), values{"c00": "!"})
		if i == 0 || i == 9 {
			t.corrupt(text, fmt.Sprintf("%d rows too many", i+1))
		}
	}
}

func (t *claimTest) damagedBlobs() {
	size := inBlob.size
	text := t.pack(noise(size))
	in, key := t.claimOf(text)
	if in != "blob" {
		t.Fatalf("claim in %q, want blob", in)
	}
	for name, content := range map[string][]byte{"cut": noise(size)[1:], "longer": noise(size + 1), "other": make([]byte, size), "empty": {}} {
		if err := t.Blobs.Put(t.ctx, key, content); err != nil {
			t.Fatal(err)
		}
		t.corrupt(text, name+" blob")
	}
}

// corrupt checks that the claim of a message is reported as corrupt.
func (t *claimTest) corrupt(text, name string) {
	t.Helper()
	if _, _, err := t.Unpack(t.ctx, text); !errors.Is(err, queue.ErrMessage) || errors.Is(err, queue.ErrClaimGone) {
		t.Errorf("%s: %v, want ErrMessage", name, err)
	}
}

func (t *claimTest) submitRow(partition, key string, v values) {
	t.Helper()
	if _, err := t.Rows.Submit(t.ctx, insert(partition, key, v)); err != nil {
		t.Fatal(err)
	}
}

// A claim that is valid long enough is not copied. Otherwise the copy outlives
// the old one, which other copies of the message may name.
func extendedClaims(t *claimTest) {
	for _, kind := range append(claimKinds(), claimKind{"message", inMessage}) {
		size, body := kind.size, noise(kind.size)
		old := t.unpacks(t.pack(body), body, nil)
		before := t.left()
		soon := time.Now().Add(queue.ClaimTime + queue.TimeToLive - time.Hour)
		e, err := t.Extend(t.ctx, old, soon)
		if err != nil || t.left() != before || !e.ClaimExpires().Equal(old.ClaimExpires()) {
			t.Errorf("%d bytes: extended by less than a week to %v, %v; %d rows and blobs, want %d", size, e.ClaimExpires(), err, t.left(), before)
		}
		late := time.Now().Add(queue.ClaimTime + 2*queue.TimeToLive)
		e.Attempts, e.Reason = 3, "held"
		if e, err = t.Extend(t.ctx, e, late); err != nil {
			t.Fatal(err)
		}
		if size > inMessage && (e.ClaimExpires().Before(late) || t.left() != 2*before) {
			t.Errorf("%d bytes: extended to %v, want at least %v; %d rows and blobs, want %d", size, e.ClaimExpires(), late, t.left(), 2*before)
		}
		text, err := e.Text()
		if err != nil {
			t.Fatal(err)
		}
		if got := t.unpacks(text, body, nil); got.ID != "a" || got.Attempts != 3 || got.Reason != "held" || !got.Time.Equal(old.Time) {
			t.Errorf("%d bytes: got %.300v", size, got)
		}
		if _, err := t.Body(t.ctx, old); err != nil {
			t.Errorf("%d bytes: the old claim: %v", size, err)
		}
		for _, e := range []queue.Envelope{e, old} {
			if err := t.Remove(t.ctx, e); err != nil {
				t.Error(err)
			}
		}
		if size > inMessage {
			if e, err := t.Extend(t.ctx, old, late); !errors.Is(err, queue.ErrClaimGone) {
				t.Errorf("%d bytes: extended a removed claim to %v, %v", size, e.ClaimExpires(), err)
			}
		}
	}
}

// The sweep deletes expired claims, and nothing else.
func sweptClaims(t *claimTest) {
	now := time.Now()
	sweep := func(at time.Time, want int) {
		t.Helper()
		if got, err := t.Sweep(t.ctx, at); err != nil || got != want {
			t.Errorf("swept %d claims, %v, want %d", got, err, want)
		}
	}
	sweep(now, 0) // without a table and a container
	var early, late []string
	var bodies [][]byte
	for _, kind := range claimKinds() {
		body := noise(kind.size)
		bodies = append(bodies, body)
		early = append(early, t.pack(body))
		e := t.unpacks(t.pack(body), body, nil)
		e, err := t.Extend(t.ctx, e, now.Add(60*24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		text, err := e.Text()
		if err != nil {
			t.Fatal(err)
		}
		late = append(late, text)
	}
	t.submitRow("other program", "0", nil)
	if err := t.Blobs.Put(t.ctx, "other program", nil); err != nil {
		t.Fatal(err)
	}
	sweep(now.Add(queue.ClaimTime+queue.TimeToLive), 0)
	for i, body := range bodies {
		t.unpacks(early[i], body, nil)
	}
	sweep(now.Add(30*24*time.Hour), 2*len(bodies)) // early ones and the old claims of late ones
	sweep(now.Add(30*24*time.Hour), 0)
	for i, body := range bodies {
		t.unpacks(early[i], nil, queue.ErrClaimGone)
		t.unpacks(late[i], body, nil)
	}
	sweep(now.Add(90*24*time.Hour), len(bodies))
	if n := t.left(); n != 2 {
		t.Errorf("%d rows and blobs are left, want the two of another program", n)
	}
}
