package work

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"kennel/queue"
)

// sale is an item of the benchmarks, of 163 bytes.
type sale struct {
	ID       string `json:"id"`
	Account  string `json:"account"`
	Quantity int64  `json:"quantity"`
	Price    int64  `json:"price"`
	Currency string `json:"currency"`
	Text     string `json:"text"`
}

type line struct {
	Account  string `json:"account"`
	Currency string `json:"currency"`
	Amount   int64  `json:"amount"`
}

func sales(n int) (items []string) {
	for i := range n {
		text, err := json.Marshal(sale{fmt.Sprintf("order-%07d", i), fmt.Sprintf("account-%04d", i*7919%1000), int64(i%9 + 1), int64(i%1000 + 100), "EUR",
			"monthly rent of a kennel with a view, garden, and heating"})
		if err != nil {
			panic(err)
		}
		items = append(items, string(text))
	}
	return items
}

type selling struct{}

func (selling) Validate(json.RawMessage) error { return nil }

func (selling) Process(_ context.Context, i Item) (json.RawMessage, error) {
	var s sale
	if err := json.Unmarshal(i.Data, &s); err != nil {
		return nil, err
	}
	return json.Marshal(line{s.Account, s.Currency, s.Quantity * s.Price})
}

func (selling) NewReport(string) Report { return &sums{make(map[[2]string]int64)} }

type sums struct{ of map[[2]string]int64 }

func (s *sums) Add(r Result) error {
	var l line
	if err := json.Unmarshal(r.Result, &l); err != nil {
		return err
	}
	s.of[[2]string{l.Account, l.Currency}] += l.Amount
	return nil
}

func (s *sums) JSON() ([]byte, error) { return json.Marshal(len(s.of)) }
func (s *sums) CSV() ([]byte, error)  { return nil, nil }

// BenchmarkBareLoop decodes, processes and sums items without any queue.
func BenchmarkBareLoop(b *testing.B) {
	items := sales(10_000)
	b.ReportMetric(float64(len(items[0])), "bytes/item")
	for b.Loop() {
		of := make(map[[2]string]int64)
		for _, item := range items {
			var s sale
			if err := json.Unmarshal([]byte(item), &s); err != nil {
				b.Fatal(err)
			}
			of[[2]string{s.Account, s.Currency}] += s.Quantity * s.Price
		}
	}
	b.ReportMetric(float64(b.N*len(items))/b.Elapsed().Seconds(), "items/s")
}

// BenchmarkBatch processes, collects and gathers items in memory.
func BenchmarkBatch(b *testing.B) {
	items := sales(10_000)
	for b.Loop() {
		s := newSite(b, nil, 0)
		in := s.start(nil, nil)
		in.processors["scripted"] = selling{}
		d, err := in.submit(b.Context(), items, ParcelItems)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"work-0", "work-1", "work-2", "work-3", ResultsQueue} {
			for {
				ctx, stop := context.WithTimeout(b.Context(), time.Minute)
				messages, err := in.qs.Receive(ctx, name, queue.MaxReceive, time.Minute)
				if err != nil {
					b.Fatal(err)
				}
				for _, m := range messages {
					in.handle(ctx, name, m, 1/float64(len(messages)))
				}
				if stop(); len(messages) == 0 {
					break
				}
			}
		}
		if got, err := in.Get(b.Context(), d.ID); err != nil || got.State != Done || got.Done != len(items) {
			b.Fatalf("batch %+v, %v, want it done", got, err)
		}
	}
	b.ReportMetric(float64(b.N*len(items))/b.Elapsed().Seconds(), "items/s")
}
