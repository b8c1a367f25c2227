package work

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/submit"
)

// TestPack packs items of several lengths, and reads the parcels back.
func TestPack(t *testing.T) {
	t.Parallel()
	random := func(n int) string {
		var text strings.Builder
		for text.Len() < n {
			text.WriteString(rand.Text())
		}
		return text.String()[:n]
	}
	for name, test := range map[string]struct {
		items, maxParcels int
		filler            func(i int) string
	}{
		"one":        {1, 1, func(int) string { return "" }},
		"small":      {1001, 11, func(int) string { return strings.Repeat("x", 100) }},
		"compressed": {100, 8, func(int) string { return strings.Repeat("x", 20_000) }},
		"random":     {300, 12, func(int) string { return random(1000) }},
		"long":       {6, 6, func(int) string { return random(60_000) }},
		"mixed": {200, 14, func(i int) string {
			if i%40 == 39 {
				return random(60_000)
			}
			return random(10)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, nil, 0)
			in := s.start(nil, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			d := format.Details{ID: model.NewID(time.Now()), Processor: "scripted", SubmittedAt: time.Now()}
			p := submit.Packer{S: in.submitter, D: &d, Each: ParcelItems}
			var want bytes.Buffer
			for i := range test.items {
				line := fmt.Sprintf(`{"id":"%d","x":"%s"}`, i, test.filler(i))
				want.WriteString(line + "\n")
				if err := p.Add(ctx, Item{ID: fmt.Sprint(i), Data: json.RawMessage(line)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Close(ctx); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			n := 0
			for packed, err := range in.base.Staging.Staged(ctx, d) {
				if err != nil {
					t.Fatal(err)
				}
				parcel, err := format.UnpackParcel(&in.base.Coders, packed)
				if err != nil || parcel.ID != (format.ParcelID{Parcel: n}) || parcel.Batch != d.ID {
					t.Fatalf("%s: parcel %d is %+v, %v", name, n, parcel.ID, err)
				}
				if len(packed) > ParcelBytes && len(parcel.Items) > 1 || len(parcel.Items) > ParcelItems {
					t.Errorf("%s: parcel of %d items, %d bytes", name, len(parcel.Items), len(packed))
				}
				got.Write(parcel.Lines())
				n++
			}
			if n != d.Parcels || d.Items != test.items || n > test.maxParcels {
				t.Errorf("%s: %d parcels, want %d, at most %d; %d items", name, n, d.Parcels, test.maxParcels, d.Items)
			}
			if d.Chunks != len(s.staging.Names()) {
				t.Errorf("%s: %d chunks, staged %v", name, d.Chunks, s.staging.Names())
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%s: the parcels hold other items", name)
			}
		})
	}
}
