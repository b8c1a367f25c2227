package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchParent(t *testing.T) {
	for name, tt := range map[string]struct {
		parents []int
		want    int // calls of orphaned
	}{
		"parent remains":                {[]int{7, 7, 7}, 0},
		"parent is 1 from the start":    {[]int{1, 1, 1}, 0},
		"parent is outside, thus 0":     {[]int{0, 0, 0}, 0},
		"parent ends":                   {[]int{7, 7, 1}, 1},
		"parent ends below a subreaper": {[]int{7, 9, 9, 1}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			reads, calls := 0, 0
			done := make(chan struct{})
			go func() {
				defer close(done)
				watchParent(ctx, tt.parents[0], func() int {
					reads++
					return tt.parents[min(reads, len(tt.parents)-1)]
				}, func() { calls++ })
			}()
			time.Sleep(time.Minute)
			cancel()
			<-done
			if calls != tt.want {
				t.Errorf("%s: %d calls, want %d", name, calls, tt.want)
			}
		})
	}
}
