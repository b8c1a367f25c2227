package table

import (
	"iter"
	"slices"
	"sort"
)

// maxChunk is how many rows a chunk holds at most.
const maxChunk = 256

// rows keeps rows sorted by their keys, in chunks so that a change moves few of
// them. No chunk is empty.
type rows struct {
	chunks [][]row
	count  int
}

// search returns the chunk that has or would have a key.
func (t *rows) search(key string) int {
	i := sort.Search(len(t.chunks), func(i int) bool { return t.chunks[i][0].key() > key })
	return max(i-1, 0)
}

func searchChunk(chunk []row, key string) (int, bool) {
	return sort.Find(len(chunk), func(i int) int {
		switch found := chunk[i].key(); {
		case key < found:
			return -1
		case key > found:
			return 1
		default:
			return 0
		}
	})
}

// get returns the row with a key, or "".
func (t *rows) get(key string) row {
	if t.count == 0 {
		return ""
	}
	chunk := t.chunks[t.search(key)]
	if i, ok := searchChunk(chunk, key); ok {
		return chunk[i]
	}
	return ""
}

// put adds a row or replaces the one with its key.
func (t *rows) put(r row) {
	if t.count == 0 {
		t.chunks, t.count = [][]row{{r}}, 1
		return
	}
	at := t.search(r.key())
	chunk := t.chunks[at]
	i, ok := searchChunk(chunk, r.key())
	if ok {
		chunk[i] = r
		return
	}
	t.count++
	if len(chunk) < maxChunk {
		if len(chunk) == cap(chunk) { // append would double it
			chunk = append(make([]row, 0, len(chunk)+maxChunk/8), chunk...)
		}
		t.chunks[at] = slices.Insert(chunk, i, r)
		return
	}
	half := maxChunk / 2
	if at == len(t.chunks)-1 && i == maxChunk {
		half = maxChunk // rows that arrive in order fill their chunks
	}
	next := slices.Clone(chunk[half:])
	chunk = slices.Clone(chunk[:half])
	if i > half || half == maxChunk {
		next = slices.Insert(next, i-half, r)
	} else {
		chunk = slices.Insert(chunk, i, r)
	}
	t.chunks[at] = chunk
	t.chunks = slices.Insert(t.chunks, at+1, next)
}

// remove removes the row with a key, which need not be there.
func (t *rows) remove(key string) {
	if t.count == 0 {
		return
	}
	at := t.search(key)
	i, ok := searchChunk(t.chunks[at], key)
	if !ok {
		return
	}
	t.count--
	chunk := slices.Delete(t.chunks[at], i, i+1)
	t.chunks[at] = chunk
	switch {
	case len(chunk) == 0:
		t.chunks = slices.Delete(t.chunks, at, at+1)
	case at+1 < len(t.chunks) && len(chunk)+len(t.chunks[at+1]) <= maxChunk/2:
		t.chunks[at] = append(chunk, t.chunks[at+1]...)
		t.chunks = slices.Delete(t.chunks, at+1, at+2)
	}
}

// from yields all rows from a key on.
func (t *rows) from(key string) iter.Seq[row] {
	return func(yield func(row) bool) {
		if t.count == 0 {
			return
		}
		at := t.search(key)
		i, _ := searchChunk(t.chunks[at], key)
		for ; at < len(t.chunks); at, i = at+1, 0 {
			for _, r := range t.chunks[at][i:] {
				if !yield(r) {
					return
				}
			}
		}
	}
}
