package queue_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

// claimStores are the stores of claims in memory.
type claimStores struct {
	rows  *memory.Table
	blobs *memory.Container
}

// newClaims returns claims in memory whose requests have the fault.
func newClaims(t testing.TB, fault func(memory.Call) memory.Fault) (*queue.Claims, claimStores) {
	t.Helper()
	options := memory.Options{Fault: fault, OnMisuse: func(problem string) { t.Error(problem) }}
	s := claimStores{memory.NewTable(&memory.TableOptions{Options: options}), memory.NewContainer(&options)}
	rows, err := table.New(s.rows)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := queue.NewClaims(rows, s.blobs)
	if err != nil {
		t.Fatal(err)
	}
	return claims, s
}

// newClaimsIn returns such claims that are stored in a table or as blobs.
func newClaimsIn(t testing.TB, place string, fault func(memory.Call) memory.Fault) (*queue.Claims, claimStores) {
	t.Helper()
	claims, s := newClaims(t, fault)
	if place == "blob" {
		claims.InBlobs()
	}
	return claims, s
}

// left returns how many rows and blobs there are.
func (s claimStores) left() int { return s.rows.Rows("") + len(s.blobs.Names()) }

func (s claimStores) calls() int64 { return s.rows.Calls() + s.blobs.Calls() }

// claimBody returns a body of n bytes of which the given share is noise, the rest
// repeats.
func claimBody(random *rand.Rand, n int, noise float64) []byte {
	body := make([]byte, n)
	for i := range body {
		if random.Float64() < noise {
			body[i] = byte(random.Uint32())
		} else {
			body[i] = "abcdefgh"[i%8]
		}
	}
	return body
}

func claimWork(id string) queue.Envelope { return queue.Envelope{ID: id, Time: time.Now()} }

func packed(t testing.TB, c *queue.Claims, e queue.Envelope, body []byte) string {
	t.Helper()
	text, err := c.Pack(t.Context(), e, body)
	if err != nil {
		t.Fatal(err)
	}
	if err := queue.CheckPut("work", text, 0); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRoundTrip packs bodies of all sizes and kinds, unpacks them, and leaves
// nothing behind.
func TestRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(storetest.Seed(t), 0))
	claims, stores := newClaims(t, nil)
	sizes := []int{0, 1, 2047, 2048, 33_792, 33_793, 46 << 10, 64 << 10}
	if storetest.Proving() {
		sizes = append(sizes, 368_640, 368_641, 2_949_120, 2_949_121, 5_000_000)
	}
	for range storetest.Scale(3, 30) {
		sizes = append(sizes, int(float64(storetest.Scale(100_000, 5_000_000))*random.Float64()*random.Float64()))
	}
	for _, size := range sizes {
		for _, noise := range []float64{0, 0.3, 1} {
			body := claimBody(random, size, noise)
			text := packed(t, claims, claimWork("a"), body)
			e, got, err := claims.Unpack(t.Context(), text)
			if err != nil || !bytes.Equal(got, body) || e.Size() != size {
				t.Fatalf("%d bytes, %.0f %% noise: got %d bytes, %v", size, 100*noise, len(got), err)
			}
			if (stores.left() > 0) == e.ClaimExpires().IsZero() {
				t.Errorf("%d bytes, %.0f %% noise: %d rows and blobs, expire %v", size, 100*noise, stores.left(), e.ClaimExpires())
			}
			if err := claims.Remove(t.Context(), e); err != nil || stores.left() > 0 {
				t.Fatalf("%d bytes, %.0f %% noise: %d rows and blobs left, %v", size, 100*noise, stores.left(), err)
			}
		}
	}
}

// TestPlaces: a claim is stored where its requests cost least, among the places
// that it fits into.
func TestPlaces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		name        string
		size        int
		rows, blobs int
	}{
		{"in the message", 33_000, 0, 0},
		{"a row", 34_000, 1, 0},
		{"eight rows", 2_949_120, 8, 0},
		{"a blob", 2_949_121, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.size > 1<<20 {
				storetest.OnlyInProve(t)
			}
			claims, stores := newClaims(t, nil)
			packed(t, claims, claimWork("a"), claimBody(random, tt.size, 1))
			if rows, blobs := stores.rows.Rows(""), len(stores.blobs.Names()); rows != tt.rows || blobs != tt.blobs {
				t.Errorf("%d rows and %d blobs, want %d and %d", rows, blobs, tt.rows, tt.blobs)
			}
			if n := stores.calls(); n > 1 {
				t.Errorf("%d requests, want one at most", n)
			}
		})
	}
	claims, stores := newClaims(t, nil)
	for name, e := range map[string]queue.Envelope{"no id": {Time: time.Now()}, "no time": {ID: "a"}} {
		if _, err := claims.Pack(t.Context(), e, claimBody(random, 50_000, 1)); !errors.Is(err, queue.ErrLimit) || stores.calls() > 0 {
			t.Errorf("%s: %v after %d requests, want ErrLimit after none", name, err, stores.calls())
		}
	}
	if _, err := claims.Pack(t.Context(), claimWork("a"), make([]byte, queue.MaxContent+1)); !errors.Is(err, queue.ErrLimit) {
		t.Errorf("a body that is too long: %v, want ErrLimit", err)
	}
}

// TestClaimWritesThatFail: each request fails once, refused or applied without
// an answer, and the call still succeeds. While storage is down, no message is
// packed.
func TestClaimWritesThatFail(t *testing.T) {
	errLost := errors.New("connection reset")
	body := claimBody(rand.New(rand.NewPCG(1, 2)), 34_000, 1)
	for _, place := range []string{"table", "blob"} {
		for name, nth := range map[string]func(int64, error) func(memory.Call) memory.Fault{"refused": memory.RefuseNth, "applied": memory.LoseReplyNth} {
			for n := int64(1); n < 10; n++ {
				synctest.Test(t, func(t *testing.T) {
					claims, stores := newClaimsIn(t, place, nth(n, errLost))
					e, got, err := claims.Unpack(t.Context(), packed(t, claims, claimWork("a"), body))
					if err != nil || !bytes.Equal(got, body) {
						t.Errorf("%s %s %d: got %d bytes, %v", place, name, n, len(got), err)
					}
					longer, err := claims.Extend(t.Context(), e, time.Now().Add(queue.ClaimTime+2*queue.TimeToLive))
					if err == nil {
						err = claims.Remove(t.Context(), longer)
					}
					if err != nil {
						t.Errorf("%s %s %d: %v", place, name, n, err)
					}
					if swept, err := claims.Sweep(t.Context(), e.ClaimExpires()); swept != 1 || err != nil || stores.left() > 0 {
						t.Errorf("%s %s %d: swept %d, %v, and left %d", place, name, n, swept, err, stores.left())
					}
				})
			}
		}
		for _, outage := range []error{errLost, table.ErrRefused} {
			synctest.Test(t, func(t *testing.T) {
				down := func(memory.Call) memory.Fault { return memory.Fault{Err: outage, Lost: true} }
				claims, _ := newClaimsIn(t, place, down)
				if text, err := claims.Pack(t.Context(), claimWork("a"), body); text != "" || !errors.Is(err, outage) {
					t.Errorf("%s: packed %.80q, %v, want %v", place, text, err, outage)
				}
			})
		}
	}
}

// TestCheck checks whether a claim is stored, with one request that reads no
// body.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"table", "blob"} {
		claims, stores := newClaimsIn(t, place, nil)
		for _, c := range []struct {
			size, requests int
			gone           error
		}{{10, 0, nil}, {34_000, 1, queue.ErrClaimGone}} {
			e, err := queue.Parse(packed(t, claims, claimWork("a"), claimBody(rand.New(rand.NewPCG(1, 2)), c.size, 1)))
			if err != nil {
				t.Fatal(err)
			}
			before := stores.calls()
			if err := claims.Check(t.Context(), e); err != nil || stores.calls()-before != int64(c.requests) {
				t.Errorf("%d bytes: %v, %d requests", c.size, err, stores.calls()-before)
			}
			if err := claims.Remove(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if err := claims.Check(t.Context(), e); !errors.Is(err, c.gone) {
				t.Errorf("%d bytes, removed: %v, want %v", c.size, err, c.gone)
			}
		}
	}
}
