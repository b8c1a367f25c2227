package azure

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"golang.org/x/sync/errgroup"

	"kennel/channels"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// BenchmarkDeletion compares deletions with bare loops of the same
// transactions. These know all keys, read and count nothing, and stop at the
// first error. Ratios are medians of alternating rounds, so that a noisy
// machine slows both down.
//
// The figure with four transactions at a time has no limit. One thread of
// Azurite serves them all, and is idle while a page is read and counted.
// Reading the next page at the same time would avoid that, but a crash would
// then add two pages instead of one.
func BenchmarkDeletion(b *testing.B) {
	const blogs, rounds = 5_000, 7
	s := newChannelStores(b)
	for b.Loop() {
		var rates, usual, one, four []float64
		for i := range rounds {
			bareOne, bareFour := s.deleteBare(b, blogs, 1), s.deleteBare(b, blogs, 4)
			oursOne := s.deleteChannel(b, fmt.Sprint("one-", i), blogs, &channels.Options{Parallel: 1})
			ours := s.deleteChannel(b, fmt.Sprint("usual-", i), blogs, &channels.Options{})
			rates = append(rates, blogs/ours.Seconds())
			usual = append(usual, float64(bareOne)/float64(ours))
			one = append(one, float64(bareOne)/float64(oursOne))
			four = append(four, float64(bareFour)/float64(ours))
		}
		b.Logf("figure: deleting 5,000 blogs on Azurite (%.0f/s here) | %.0f %% of a bare loop's rate | ≥ 80 %%", median(rates), 100*median(usual))
		b.Logf("figure: deleting 5,000 blogs one transaction at a time, as the bare loop does | %.0f %% of its rate | ≥ 80 %%", 100*median(one))
		b.Logf("figure: deleting 5,000 blogs if the bare loop, too, does four transactions at a time | %.0f %% of its rate | none", 100*median(four))
	}
}

// deleteChannel creates a channel and returns the time to delete it.
func (s *channelStores) deleteChannel(b *testing.B, name string, blogs int, o *channels.Options) time.Duration {
	o.AcceptFor = time.Minute // enough on a busy machine
	p := s.start(b, o, nil)
	incarnation := s.create(b, name, blogs)
	begun := time.Now()
	d, err := p.Delete(b.Context(), name, incarnation)
	took := time.Since(begun)
	if err != nil || d.State != channels.Done || d.Deleted != int64(blogs) {
		b.Fatalf("delete: %+v, %v, want %d deleted", d, err, blogs)
	}
	return took
}

// deleteBare returns the time to delete rows with the SDK alone, with this many
// concurrent transactions.
func (s *channelStores) deleteBare(b *testing.B, rows, parallel int) time.Duration {
	store := s.start(b, nil, nil).blogs
	partition := storetest.Name()
	keys, err := storetest.FillPartition(b.Context(), store, partition, rows)
	if err != nil {
		b.Fatal(err)
	}
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(parallel)
	begun := time.Now()
	for some := range slices.Chunk(keys, table.MaxTransaction) {
		group.Go(func() error {
			actions := make([]aztables.TransactionAction, len(some))
			for i, key := range some {
				entity, err := json.Marshal(map[string]string{"PartitionKey": partition, "RowKey": key})
				if err != nil {
					return err
				}
				anyVersion := azcore.ETagAny
				actions[i] = aztables.TransactionAction{ActionType: aztables.TransactionTypeDelete, Entity: entity, IfMatch: &anyVersion}
			}
			_, err := store.client.SubmitTransaction(ctx, actions, nil)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
