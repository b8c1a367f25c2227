package cost

import "math"

const (
	pageRows        = 1000 // of one query
	transactionRows = 100
)

// Deletion is the deletion of a channel with so many rows: blogs, and the keys of
// their posts.
type Deletion struct{ Rows float64 }

// Lines returns the requests from the call to the deletion of its message,
// which the same call makes if it finishes in time.
func (d Deletion) Lines() []Line {
	t := tally{job: jobChannels}
	pages := math.Ceil(d.Rows / pageRows)
	full := math.Floor(d.Rows / transactionRows)
	t.add("table", "get", 1)                              // the name
	t.add("queue", "put", 1)                              // the message
	t.add("table", "transaction", 1+full)                 // the mark, and rows
	t.add("table", "delete", 1)                           // the fence
	t.add("table", "query", pages+1)                      // the last one finds nothing
	t.add("table", "update", pages+1)                     // the count, and the end
	t.add("queue", "delete", 1)                           // the message
	if rest := d.Rows - full*transactionRows; rest == 1 { // the adapter sends one write as such
		t.add("table", "delete", 1)
	} else if rest > 0 {
		t.add("table", "transaction", 1)
	}
	return t.lines
}
