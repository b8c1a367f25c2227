package devbus

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		s := alarms{mu: &mu}
		start := time.Now()
		var rang []string
		alarmAt := func(name string, seconds int) *alarm {
			a := new(alarm)
			s.set(a, start.Add(time.Duration(seconds)*time.Second), ringFunc(func() {
				rang = append(rang, name)
				if want := time.Duration(seconds) * time.Second; time.Since(start) != want {
					t.Errorf("%s rang after %v, want %v", name, time.Since(start), want)
				}
			}))
			return a
		}
		mu.Lock()
		alarmAt("late", 30)
		alarmAt("first", 10)
		alarmAt("second at the same time", 10)
		cancelled := alarmAt("cancelled", 5)
		s.cancel(cancelled)
		s.cancel(cancelled)
		moved := alarmAt("moved", 1)
		s.set(moved, start.Add(20*time.Second), ringFunc(func() {
			rang = append(rang, "moved")
			s.after(5*time.Second, func() { rang = append(rang, "set while ringing") })
		}))
		alarmAt("after the end", 100)
		mu.Unlock()

		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		want := []string{"first", "second at the same time", "moved", "set while ringing", "late"}
		if !slices.Equal(rang, want) {
			t.Errorf("rang %q, want %q", rang, want)
		}
		s.stop()
		alarmAt("set after the end", 70)
		s.cancel(cancelled)
	})
}
