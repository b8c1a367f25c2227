package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// item is an item of the processor billing.
type item struct {
	ID        string          `json:"id"`
	Account   string          `json:"account"`
	SKU       string          `json:"sku"`
	Quantity  json.RawMessage `json:"quantity"`
	UnitPrice json.RawMessage `json:"unitPrice"`
	Currency  string          `json:"currency"`
}

// decimals are the digits of the minor unit of each currency in the sample.
var decimals = map[string]int{"EUR": 2, "USD": 2, "GBP": 2, "CHF": 2, "JPY": 0, "KRW": 0, "KWD": 3, "TND": 3}

func sample(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := call(t, nil, append([]string{"sample", "billing"}, args...)...)
	if code != exitDone || stderr != "" {
		t.Fatalf("sample billing %q: code %d, %s", args, code, stderr)
	}
	return stdout
}

// TestSampleIsTheSameEverywhere checks the bytes, which measurements and tests
// elsewhere depend on.
func TestSampleIsTheSameEverywhere(t *testing.T) {
	for args, want := range map[string]string{
		"-n 1000":                  "fdd675dc7e5b40ef2de2dca192d0f0a13eeeafe4061f4affd9728a7f14f5150c",
		"-n 1000 --seed 2":         "71f8803c046086ab05dcfe670f512213ff5bad013c7ed1036edbb6cc6602276c",
		"-n 1000 --seed 2 --array": "f44ad3d435661bf32d5f547d3ad4285c15e099ddb0c70ebb5b8659b30594b67e",
	} {
		sum := sha256.Sum256([]byte(sample(t, strings.Fields(args)...)))
		same(t, args, want, hex.EncodeToString(sum[:]))
	}
	if few, many := sample(t, "-n", "10"), sample(t, "-n", "20"); !strings.HasPrefix(many, few) || few == many {
		t.Errorf("20 items do not begin with the 10: %s", many)
	}
	one := sample(t, "-n", "1")
	same(t, "array of one item", "[\n"+one+"]\n", sample(t, "-n", "1", "--array"))
}

// TestSampleIsMixed checks that the items have everything that is hard to bill.
func TestSampleIsMixed(t *testing.T) {
	const count = 5_000
	text := sample(t, "-n", "5000")
	t.Logf("figure: bytes of an item of `kennel sample billing` | %.1f | 162 to 164", float64(len(text))/count)
	if len(text) < 162*count || len(text) > 164*count {
		t.Errorf("%d bytes for %d items, want 163 for each", len(text), count)
	}
	ids, accounts, digits := make(map[string]bool), make(map[string]bool), make(map[int]int)
	asText, negative := 0, 0
	for line := range strings.Lines(text) {
		var i item
		if err := json.Unmarshal([]byte(line), &i); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		n, known := decimals[i.Currency]
		if ids[i.ID] || i.Account == "" || i.SKU == "" || !known {
			t.Fatalf("invalid or repeated: %s", line)
		}
		ids[i.ID], accounts[i.Account] = true, true
		digits[n]++
		for _, number := range []json.RawMessage{i.Quantity, i.UnitPrice} {
			if number[0] == '"' {
				asText++
			}
		}
		if strings.HasPrefix(strings.Trim(string(i.Quantity), `"`), "-") {
			negative++
		}
	}
	if len(ids) != count || len(accounts) != 500 {
		t.Errorf("%d items of %d accounts, want %d of 500", len(ids), len(accounts), count)
	}
	for n := range 4 {
		if few := digits[n] < count/10; few != (n == 1) {
			t.Errorf("%d of %d items have a currency with %d decimals", digits[n], count, n)
		}
	}
	if asText < count/2 || asText > count*3/2 || negative < count/100 || negative > count/10 {
		t.Errorf("of %d items, %d numbers are strings and %d quantities negative", count, asText, negative)
	}
}

func TestDecimal(t *testing.T) {
	for _, tt := range []struct {
		n        uint64
		decimals int
		want     string
	}{{0, 0, "0"}, {12, 0, "12"}, {5, 1, "0.5"}, {5, 3, "0.005"}, {1200, 2, "12.00"}, {99999, 5, "0.99999"}} {
		same(t, "decimal", tt.want, decimal(tt.n, tt.decimals))
	}
}

// failing is a stream that accepts some bytes and then fails.
type failing struct{ left int }

var errFull = errors.New("no space left")

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestSampleEnds(t *testing.T) {
	for _, left := range []int{0, 10_000} {
		if err := writeBilling(t.Context(), &failing{left}, 1000, 1, true); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v, want the error of the stream", left, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := writeBilling(ctx, &failing{1 << 20}, 1000, 1, false); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
}
