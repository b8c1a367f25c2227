package processors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/internal/memory"
	"kennel/internal/table"
	"kennel/queue"
	"kennel/work"
)

// billed is an item of the benchmark.
type billed struct {
	ID        string `json:"id"`
	Account   string `json:"account"`
	SKU       string `json:"sku"`
	Quantity  string `json:"quantity"`
	UnitPrice string `json:"unitPrice"`
	Currency  string `json:"currency"`
}

// billedItem returns an item of 163 bytes.
func billedItem(i int) []byte {
	text, err := json.Marshal(billed{
		ID: fmt.Sprintf("order-%07d", i), Account: fmt.Sprintf("account-%04d", i*7919%1000), SKU: "monthly rent of a kennel with a garden and heating",
		Quantity: fmt.Sprintf("%d.5", i%9+1), UnitPrice: fmt.Sprintf("%d.%04d", i%900+100, i*7%10_000), Currency: "EUR",
	})
	if err != nil {
		panic(err) // cannot occur: texts
	}
	return text
}

// BenchmarkBatch compares a batch, from its submission to its report, in memory,
// with a loop that decodes the same items, computes their exact amounts and adds
// them up. The ratio is the median of alternating rounds.
func BenchmarkBatch(b *testing.B) {
	const items, rounds = 20_000, 9
	lines := make([][]byte, items)
	for i := range lines {
		lines[i] = billedItem(i)
	}
	body := append(bytes.Join(lines, []byte("\n")), '\n')
	for b.Loop() {
		var ratios, rates []float64
		for range rounds {
			began := time.Now()
			want := billBare(b, lines)
			bare := time.Since(began)
			began = time.Now()
			got := billBatch(b, body)
			ours := time.Since(began)
			if got != want {
				b.Fatalf("the batch has %s, want %s", got, want)
			}
			ratios, rates = append(ratios, bare.Seconds()/ours.Seconds()), append(rates, items/ours.Seconds())
		}
		slices.Sort(ratios)
		slices.Sort(rates)
		b.Logf("figure: items submitted, processed and reported, in memory (%.0f/s here) | %.2f × the rate of a bare loop | ≥ 0.25 ×", rates[rounds/2], ratios[rounds/2])
	}
}

// billBare returns the totals of items.
func billBare(b *testing.B, items [][]byte) string {
	totals := make(map[billKey]int64)
	for _, text := range items {
		var item billed
		err := json.Unmarshal(text, &item)
		var quantity, price decimal
		if err == nil {
			quantity, err = parseDecimal(item.Quantity)
		}
		if err == nil {
			price, err = parseDecimal(item.UnitPrice)
		}
		units, fits := quantity.times(price, minorDigits[item.Currency])
		if err != nil || !fits {
			b.Fatal(err, fits)
		}
		totals[billKey{item.Account, item.Currency}] += units
	}
	var sum int64
	for _, units := range totals {
		sum += units
	}
	return fmt.Sprint(len(totals), " ", sum)
}

// billBatch returns the totals of the items in a batch.
func billBatch(b *testing.B, body []byte) string {
	claimRows, err := table.New(memory.NewTable(nil))
	if err != nil {
		b.Fatal(err)
	}
	claims, err := queue.NewClaims(claimRows, memory.NewContainer(nil))
	if err != nil {
		b.Fatal(err)
	}
	queues := memory.NewQueues(nil)
	publisher, err := queue.NewPublisher(queues, nil)
	if err != nil {
		b.Fatal(err)
	}
	batches, err := work.New(work.Stores{
		Rows: memory.NewTable(nil), Staging: memory.NewContainer(nil), Reports: memory.NewContainer(nil),
		Claims: claims, Put: publisher.Publish, Depths: queues,
	}, map[string]work.Processor{"billing": Billing{}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	batch, _, err := batches.Submit(b.Context(), work.Submission{Processor: "billing", Body: bytes.NewReader(body)})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"work-0", "work-1", "work-2", "work-3"} {
		for {
			messages, err := queues.Receive(b.Context(), name, queue.MaxReceive, time.Minute)
			if err != nil {
				b.Fatal(err)
			}
			for _, m := range messages {
				message := work.Message{Text: m.Body, Share: 1 / float64(len(messages))}
				err := batches.Process(b.Context(), name, message)
				if err == nil {
					err = queues.Delete(b.Context(), name, m)
				}
				if err == nil {
					err = batches.Forget(b.Context(), m.Body)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			if len(messages) == 0 {
				break
			}
		}
	}
	report, err := batches.Report(b.Context(), batch.ID, false)
	if err != nil {
		b.Fatal(err)
	}
	var totals struct{ Totals []billLine }
	if err := json.Unmarshal(report, &totals); err != nil {
		b.Fatal(err)
	}
	var sum int64
	for _, line := range totals.Totals {
		units, err := parseDecimal(strings.ReplaceAll(line.Amount, ".", ""))
		if err != nil {
			b.Fatal(err)
		}
		sum += int64(units.digits)
	}
	return fmt.Sprint(len(totals.Totals), " ", sum)
}
