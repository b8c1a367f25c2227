package ids

import "fmt"

// Range is a run of consecutive numbers from First to Last, inclusive.
type Range struct{ First, Last int64 }

// Count returns how many numbers the range holds.
func (r Range) Count() int64 { return r.Last - r.First + 1 }

func (r Range) String() string { return fmt.Sprintf("%d–%d", r.First, r.Last) }

// take removes the first n numbers from the range and returns them.
func (r *Range) take(n int64) Range {
	head := Range{First: r.First, Last: r.First + n - 1}
	r.First += n
	return head
}
