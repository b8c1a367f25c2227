package devbus

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h history
		const window = time.Minute
		h.remember("a", 1, window)
		time.Sleep(30 * time.Second)
		h.remember(uint64(1), 2, window)
		for _, tt := range []struct {
			id   any
			want int64
		}{{"a", 1}, {uint64(1), 2}, {"1", 0}, {[]byte("a"), 0}} {
			if got, seen := h.seen(tt.id, window); got != tt.want || seen != (tt.want > 0) {
				t.Errorf("id %v: got number %d, want %d", tt.id, got, tt.want)
			}
		}
		time.Sleep(30 * time.Second)
		if _, seen := h.seen("a", window); seen {
			t.Error("an id is remembered for longer than the window")
		}
		if len(h.sequence) != 1 || len(h.order) != 1 {
			t.Errorf("%d ids are kept, want 1", len(h.sequence))
		}
	})
}
