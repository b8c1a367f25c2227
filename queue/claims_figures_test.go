package queue_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"kennel/queue"
)

// BenchmarkClaims prints the figures of docs/benchmarks.md. The baseline is a
// program that encodes and decodes the same body as a member of a JSON object,
// without size, digest, compression and limits.
func BenchmarkClaims(b *testing.B) {
	for b.Loop() {
		for _, kind := range []struct {
			name  string
			body  []byte
			calls int
			bar   string
		}{
			{"of 163 bytes", transactions(1), 500, "≤ 4"},
			{"of 47 kB of JSON", transactions(290), 10, "≤ 3"},
		} {
			packed, length := timesOfJSON(b, kind.body, kind.calls)
			b.Logf("figure: pack and unpack a body %s, in multiples of encoding and decoding JSON alone | %.1f | %s", kind.name, packed, kind.bar)
			b.Logf("figure: message with a body %s, relative to JSON alone | %.2f | ≤ 1.75", kind.name, length)
		}
	}
}

// BenchmarkClaimRequests prints how many requests claims cause.
func BenchmarkClaimRequests(b *testing.B) {
	for b.Loop() {
		claimRequests(b)
	}
}

// transactions returns n items of a batch as JSON.
func transactions(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var lines bytes.Buffer
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"txn-%08d","account":"acc-%06d","kind":"call","seconds":%04d,"from":"+3120%07d","to":"+4930%07d","at":"2026-07-%02dT%02d:%02d:%02dZ","rate":"standard"}`,
			i, random.IntN(1e6), random.IntN(3600), random.IntN(1e7), random.IntN(1e7), 1+random.IntN(28), random.IntN(24), random.IntN(60), random.IntN(60))
		lines.WriteByte('\n')
	}
	return bytes.TrimSpace(lines.Bytes())
}

// timesOfJSON returns the median ratios of the times and of the lengths.
func timesOfJSON(b *testing.B, body []byte, calls int) (times, lengths float64) {
	claims, _ := newClaims(b, nil)
	type plain struct {
		ID   string    `json:"id"`
		Time time.Time `json:"time"`
		Body string    `json:"body"`
	}
	var ratios []float64
	var text string
	var bare []byte
	for range 41 {
		begin := time.Now()
		for range calls {
			var back plain
			var err error
			if bare, err = json.Marshal(plain{"a", begin, string(body)}); err == nil {
				err = json.Unmarshal(bare, &back)
			}
			if err != nil || back.Body != string(body) {
				b.Fatal(err)
			}
		}
		base := time.Since(begin)
		begin = time.Now()
		for range calls {
			text = packed(b, claims, queue.Envelope{ID: "a", Time: begin}, body)
			if _, got, err := claims.Unpack(b.Context(), text); err != nil || !bytes.Equal(got, body) {
				b.Fatal(err)
			}
		}
		ratios = append(ratios, float64(time.Since(begin))/float64(base))
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2], float64(len(text)) / float64(len(bare))
}

// claimRequests counts what a message costs in addition to its own put, get and
// delete, and what a sweep costs beside many live claims.
func claimRequests(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		place string
		size  int
	}{{"the message", 1000}, {"the table", 400_000}, {"a blob", 3_000_000}} {
		claims, stores := newClaims(b, nil)
		e, _, err := claims.Unpack(b.Context(), packed(b, claims, claimWork("a"), claimBody(random, tt.size, 1)))
		if err == nil {
			e, err = claims.Extend(b.Context(), e, time.Now().Add(queue.ClaimTime)) // held within the first week
		}
		if err == nil {
			err = claims.Remove(b.Context(), e)
		}
		if err != nil {
			b.Fatal(err)
		}
		want := 3
		if tt.place == "the message" {
			want = 0
		}
		// The list prices of a general purpose v2 account with local redundancy;
		// deletions are free.
		money := float64(stores.rows.Calls())*0.00036 + float64(stores.blobs.CallsOf("Put"))*0.054 + float64(stores.blobs.CallsOf("Get"))*0.0043
		b.Logf("figure: requests for a body in %s, held once (%d bytes) | %d | %d", tt.place, tt.size, stores.calls(), want)
		b.Logf("figure: price of 10,000 bodies in %s, in US dollars | %.5f | ≤ %.5f", tt.place, money, map[string]float64{"the message": 0, "the table": 0.00108, "a blob": 0.0583}[tt.place])
	}
	claims, stores := newClaims(b, nil)
	for range 2500 {
		packed(b, claims, claimWork("a"), claimBody(random, 34_000, 1))
	}
	before := stores.calls()
	if n, err := claims.Sweep(b.Context(), time.Now()); n != 0 || err != nil {
		b.Fatal(n, err)
	}
	b.Logf("figure: requests of a sweep beside 2,500 claims that did not expire | %d | 2", stores.calls()-before)
	before = stores.calls()
	n, err := claims.Sweep(b.Context(), time.Now().Add(30*24*time.Hour))
	if n != 2500 || err != nil {
		b.Fatal(n, err)
	}
	b.Logf("figure: requests of a sweep for each expired claim | %.3f | ≤ 1.01", float64(stores.calls()-before)/float64(n))
}
