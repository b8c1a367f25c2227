package queue

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestWidth drives the width with a rate that grows with the hands up to a
// number of them, with noise.
func TestWidth(t *testing.T) {
	for _, tt := range []struct {
		useful             int // hands; more change nothing
		rule               int
		minWidth, maxWidth int
	}{
		{useful: 1000, rule: 64, minWidth: 60, maxWidth: 64},
		{useful: 64, rule: 64, minWidth: 56, maxWidth: 64},
		{useful: 10, rule: 64, minWidth: 9, maxWidth: 16},
		{useful: 1, rule: 64, minWidth: 1, maxWidth: 2},
		{useful: 1, rule: 1, minWidth: 1, maxWidth: 1},
	} {
		var w width
		random := rand.New(rand.NewPCG(1, 1))
		now, ended := time.Unix(1e9, 0), 0.0
		limit, sum, rate, n := tt.rule, 0.0, 0.0, 0.0
		for tick := range 6000 { // ten minutes
			now = now.Add(100 * time.Millisecond)
			done := 10 * float64(min(limit, tt.useful)) * (0.97 + 0.06*random.Float64())
			ended += done
			limit = w.of(now, tt.rule, true, int64(ended))
			if limit < 1 || limit > tt.rule {
				t.Fatalf("width %d of %d", limit, tt.rule)
			}
			if tick > 3000 {
				sum, rate, n = sum+float64(limit), rate+done, n+1
			}
		}
		share := rate / n / (10 * float64(min(tt.rule, tt.useful)))
		if mean := sum / n; mean < float64(tt.minWidth) || mean > float64(tt.maxWidth) || share < 0.95 {
			t.Errorf("%d useful of %d hands: %.1f in use, %.0f %% of the rate", tt.useful, tt.rule, mean, 100*share)
		}
		if limit := w.of(now, tt.rule, false, int64(ended)); limit != tt.rule {
			t.Errorf("%d hands when the queue is not deep, want %d", limit, tt.rule)
		}
	}
}
