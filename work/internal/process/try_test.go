package process

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// TestNotBegunWaits: the next try of items that did not begin in time begins soon,
// however many attempts they have used.
func TestNotBegunWaits(t *testing.T) {
	t.Parallel()
	r := &run{
		parcel: format.Parcel{
			ID: format.ParcelID{Try: 30}, Items: make([]model.Item, 2), Indexes: []int{4, 7}, Attempts: []int{30, 0},
		},
		endings: make([]ending, 2), attempts: model.MostTries, most: 2,
	}
	row := r.Row()
	if wait := time.Until(row.NextAt); len(row.Remaining) != 2 || row.Waits != nil || wait > firstDelay || wait < firstDelay/2-time.Second {
		t.Errorf("%+v, the next try after %v", row, wait)
	}
}

// TestAtLeast: an item waits for as long as its processor requests, and for the
// usual time if that is longer and the processor leaves it to that. It is an
// attempt, and the wait has a limit.
func TestAtLeast(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		later    model.Later
		min, max time.Duration
	}{
		"longer":     {model.Later{Wait: time.Hour, AtLeast: true}, time.Hour, time.Hour * 9 / 8},
		"shorter":    {model.Later{Wait: time.Second, AtLeast: true}, 2 * firstDelay / 2, 2 * firstDelay},
		"negative":   {model.Later{Wait: -time.Hour, AtLeast: true}, 2 * firstDelay / 2, 2 * firstDelay},
		"exactly":    {model.Later{Wait: time.Second}, time.Second, 2 * time.Second},
		"for a year": {model.Later{Wait: 365 * 24 * time.Hour, AtLeast: true}, model.MaxWait, model.MaxWait * 9 / 8},
	} {
		r := &run{
			processor: failing{&c.later}, attempts: model.MaxTries, most: 1,
			parcel:  format.Parcel{ID: format.ParcelID{Try: 1}, Items: make([]model.Item, 1), Indexes: []int{0}, Attempts: []int{1}},
			endings: make([]ending, 1),
		}
		r.endings[0] = r.call(t.Context(), 0, time.Minute)
		row := r.Row()
		if wait := time.Until(row.NextAt); len(row.Remaining) != 1 || row.Attempts[0] != 2 || wait > c.max || wait < c.min-time.Second {
			t.Errorf("%s: %+v, the next try after %v, want %v to %v", name, row, wait, c.min, c.max)
		}
	}
}

// failing is a processor of which each item fails.
type failing struct{ err error }

func (f failing) Validate(json.RawMessage) error                               { return nil }
func (f failing) NewReport(string) model.Report                                { return nil }
func (f failing) Process(context.Context, model.Item) (json.RawMessage, error) { return nil, f.err }

// TestFewTries: items that each wait once share few tries, also if no two wait for
// the same time. None is tried before its wait has ended, or more than an eighth of
// it later.
func TestFewTries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait  func(i int) time.Duration
		tries int
	}{
		"seconds":  {func(i int) time.Duration { return time.Duration(i) * time.Second }, 50},
		"minutes":  {func(i int) time.Duration { return time.Duration(i+1) * time.Minute }, 50},
		"day":      {func(i int) time.Duration { return time.Duration(i+1) * model.MaxWait / model.LargeParcel }, 50},
		"random":   {func(int) time.Duration { return rand.N(model.MaxWait) }, 60},
		"doubling": {func(i int) time.Duration { return model.MaxWait >> (i % 30) }, 30},
		"one":      {func(int) time.Duration { return time.Hour }, 1},
		"none":     {func(int) time.Duration { return 0 }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var waits []time.Duration
			var spans []span
			var items []int
			for i := range model.LargeParcel {
				waits, items = append(waits, c.wait(i)), append(items, i)
				spans = append(spans, spanOf(waits[i]))
			}
			now, tries := time.Duration(0), 0
			for ; len(items) > 0; tries++ {
				next, more := nextTry(spans, 0)
				now += next
				var left []int
				var leftSpans []span
				for n, i := range items {
					if more != nil && more[n] > 0 {
						wait := time.Duration(more[n]) * time.Millisecond
						left, leftSpans = append(left, i), append(leftSpans, span{wait, wait})
						continue
					}
					if late := now - waits[i]; late < 0 || late > max(waits[i]/8, time.Second)+100*time.Millisecond {
						t.Errorf("item %d waited for %v, and was tried %v later", i, waits[i], late)
					}
				}
				items, spans = left, leftSpans
			}
			if tries > c.tries {
				t.Errorf("%d tries, want up to %d", tries, c.tries)
			}
		})
	}
}

// TestSpacing: a parcel that is tried at once again each time is tried for 13
// days, and its first hundred tries are not delayed.
func TestSpacing(t *testing.T) {
	t.Parallel()
	var all time.Duration
	for try := range model.ParcelTries - 1 {
		spans := []span{spanOf(0), spanOf(time.Second), spanOf(time.Hour)}
		next, more := nextTry(spans, spacing(try))
		if try == freeTries && all > 2*time.Minute {
			t.Errorf("%d tries take %v", freeTries, all)
		}
		all += next
		gone := next
		if more != nil {
			gone += time.Duration(more[2]) * time.Millisecond
		}
		if gone < time.Hour || gone > max(next, time.Hour)+time.Millisecond {
			t.Errorf("try %d: an item that waits for an hour is tried after %v, the next try is after %v", try+1, gone, next)
		}
	}
	if all < 13*24*time.Hour || all > 14*24*time.Hour {
		t.Errorf("all tries take %v", all)
	}
}

// TestLastTryHasAll: the last try of a parcel begins when all of its items may be
// tried: none fails because it waits then.
func TestLastTryHasAll(t *testing.T) {
	t.Parallel()
	for try, isAll := range map[int]bool{model.ParcelTries - 3: false, model.ParcelTries - 2: true} {
		t.Run(fmt.Sprint(try), func(t *testing.T) {
			r := &run{
				parcel: format.Parcel{
					ID: format.ParcelID{Try: try}, Items: make([]model.Item, 2), Indexes: []int{0, 1}, Attempts: []int{1, 1}, Waits: []int64{6 * 3_600_000, 0},
				},
				endings: []ending{{}, {outcome: model.ItemFailed, isFree: true, wait: new(time.Minute)}}, attempts: model.MaxTries, began: time.Now(), most: 2,
			}
			row := r.Row()
			if wait := time.Until(row.NextAt); len(row.Remaining) != 2 || (row.Waits == nil) != isAll || (wait > 5*time.Hour) != isAll {
				t.Errorf("%+v, the next try after %v", row, wait)
			}
		})
	}
}
