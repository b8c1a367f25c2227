package check

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		name   string
		counts []int64
		share  float64
		want   time.Duration
	}{
		{"none", make([]int64, 10), 0.95, 0},
		{"of another build", []int64{1, 2}, 0.95, 0},
		{"a half of one bucket", []int64{0, 0, 0, 0, 0, 10, 0, 0, 0, 0}, 0.5, 3 * time.Minute},
		{"the end of one bucket", []int64{95, 5, 0, 0, 0, 0, 0, 0, 0, 0}, 0.95, 100 * time.Millisecond},
		{"the next bucket", []int64{94, 0, 2, 4, 0, 0, 0, 0, 0, 0}, 0.95, 3 * time.Second},
		{"older than all bounds", []int64{0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 0.5, 6 * time.Hour},
	} {
		if got := quantile(tt.counts, tt.share); (got - tt.want).Abs() > time.Microsecond {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
