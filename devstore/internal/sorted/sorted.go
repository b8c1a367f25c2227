// Package sorted keeps items in the order of their names.
package sorted

import (
	"cmp"
	"iter"
	"slices"
)

// maxRun is how many items a run of a sorted list holds before it is split.
const maxRun = 512

// A List holds items in the order of their names. All its operations
// take logarithmic time but for moves within one run.
type List[T any] struct {
	runs [][]named[T] // none is empty
}

type named[T any] struct {
	name string
	item T
}

// find returns the run and the place within it where a name is or belongs.
func (s *List[T]) find(name string) (run, place int, found bool) {
	run, found = slices.BinarySearchFunc(s.runs, name, func(r []named[T], name string) int { return cmp.Compare(r[0].name, name) })
	if found {
		return run, 0, true
	}
	if run > 0 {
		run--
	}
	if run < len(s.runs) {
		place, found = slices.BinarySearchFunc(s.runs[run], name, func(n named[T], name string) int { return cmp.Compare(n.name, name) })
	}
	return run, place, found
}

// Get returns the item of a name, or the zero value.
func (s *List[T]) Get(name string) (item T, found bool) {
	run, place, found := s.find(name)
	if found {
		item = s.runs[run][place].item
	}
	return item, found
}

// Put adds an item or replaces that of the same name.
func (s *List[T]) Put(name string, item T) {
	run, place, found := s.find(name)
	switch {
	case found:
		s.runs[run][place].item = item
		return
	case len(s.runs) == 0:
		s.runs = [][]named[T]{{{name, item}}}
		return
	}
	s.runs[run] = slices.Insert(s.runs[run], place, named[T]{name, item})
	if all := s.runs[run]; len(all) > maxRun {
		half := len(all) / 2
		if place == len(all)-1 {
			half = len(all) - 1 // names that arrive in order fill their runs
		}
		s.runs[run] = slices.Clip(all[:half])
		s.runs = slices.Insert(s.runs, run+1, slices.Clone(all[half:]))
	}
}

// Remove deletes the item of a name.
func (s *List[T]) Remove(name string) {
	run, place, found := s.find(name)
	if !found {
		return
	}
	s.runs[run] = slices.Delete(s.runs[run], place, place+1)
	if len(s.runs[run]) == 0 {
		s.runs = slices.Delete(s.runs, run, run+1)
	}
}

// Empty reports whether there is no item.
func (s *List[T]) Empty() bool { return len(s.runs) == 0 }

// Size returns how many items there are.
func (s *List[T]) Size() (n int) {
	for _, r := range s.runs {
		n += len(r)
	}
	return n
}

// From returns the items in order, beginning with the first whose name is not
// below this one.
func (s *List[T]) From(name string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		run, place, _ := s.find(name)
		for ; run < len(s.runs); run, place = run+1, 0 {
			for ; place < len(s.runs[run]); place++ {
				if n := s.runs[run][place]; !yield(n.name, n.item) {
					return
				}
			}
		}
	}
}
